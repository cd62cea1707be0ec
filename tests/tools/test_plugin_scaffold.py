"""`core plugin`: what it writes is a device that works, what is wrong with one is found."""

import ast
import json
import shutil
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from core.foundation.errors import CoreError
from core.testing.fresh_environment import FreshEnvironment
from core.tools.command_line import cli
from core.tools.plugin_scaffold import new_plugin
from core.tools.plugin_scaffold_check import PUBLIC, check_plugin, plugin_rows

ROOT = Path(__file__).parents[2]
FILES = {"pyproject.toml", "README.md", "tox.ini", ".github/workflows/test.yml",
         "{}/__init__.py", "{}/device.py", "{}/conformance.toml"}


def failed(folder):
    return {row.check: row.finding for row in check_plugin(folder) if row.result == "failed"}


def change(file, old, new):
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


@pytest.fixture
def foo(tmp_path):
    new_plugin("foo", tmp_path)
    return tmp_path


def test_the_files_of_a_new_plugin(tmp_path):
    folder = tmp_path / "a" / "b"
    done = CliRunner().invoke(cli, ["plugin", "new", "My-Chip", "--path", str(folder)])
    assert done.exit_code == 0, done.output
    there = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
    assert there == {name.format("core_plugin_my_chip") for name in FILES}
    texts = "".join(p.read_text() for p in folder.rglob("*") if p.is_file())
    assert "@" not in texts.replace("@hookimpl", "").replace("@v", "")
    assert 'MY_CHIP = "core_plugin_my_chip"' in texts
    assert "class MyChipDevice(OpenDevice)" in texts


def test_it_imports_the_public_socket_alone(foo):
    for file in foo.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom):
                first = node.module.partition(".")[0]
                assert node.module.startswith(PUBLIC) or first in sys.stdlib_module_names


@pytest.mark.parametrize("name", ["1st", "a b", "", "null", "reference", "lambda", "x.y"])
def test_names_that_no_device_can_have(name, tmp_path):
    with pytest.raises(CoreError, match="cannot be the name|of core itself"):
        new_plugin(name, tmp_path)
    assert not list(tmp_path.iterdir())


def test_nothing_is_overwritten(foo):
    change(foo / "README.md", "FOO", "mine")
    with pytest.raises(CoreError, match="nothing was written"):
        new_plugin("foo", foo)
    assert "mine" in (foo / "README.md").read_text()


def test_a_new_plugin_passes_its_check(foo):
    assert failed(foo) == {}
    done = CliRunner().invoke(cli, ["plugin", "check", str(foo), "--json"])
    assert done.exit_code == 0
    assert {row["result"] for row in json.loads(done.stdout)} == {"passed"}


FAULTS = {
    "group": ("pyproject.toml", "core.plugins.v1", "core.plugins.v9", "entry points", "v9"),
    "name": ("pyproject.toml", "FOO = ", "Foo = ", "entry points", "Foo"),
    "dependency": ("pyproject.toml", '"core>=0.1.0"', '"numpy"', "dependency on core", "not among"),
    "bound": ("pyproject.toml", '"core>=0.1.0"', '"core>=0.1.0,<1"', "dependency on core", "upper"),
    "private": ("core_plugin_foo/device.py", "from core.ir import", "from core.codegen import",
                "imports of core", "core.codegen"),
    "facade": ("core_plugin_foo/device.py", "import ctypes",
               "from core import Tensor\nimport ctypes", "imports of core",
               "core.Tensor"),
    "heavy": ("core_plugin_foo/__init__.py", "import shutil", "import shutil\nimport numpy",
              "the stub", "numpy"),
    "ir in the stub": ("core_plugin_foo/__init__.py", "import shutil",
                       "import shutil\nfrom core.ir import dtypes", "the stub", "core.ir"),
    "hook": ("core_plugin_foo/device.py", "def core_loader", "def core_lodaer",
             "hooks of core_plugin_foo", "core_lodaer"),
    "no hook": ("core_plugin_foo/device.py", "@hookimpl\ndef core_loader", "def own_loader",
                "hooks of core_plugin_foo", "core_loader"),
    "name described": ("core_plugin_foo/__init__.py", 'name="FOO"', 'name="BAR"',
                       "hooks of core_plugin_foo", "FOO is not among"),
    "api": ("core_plugin_foo/__init__.py", "api=(1, 0)", "api=(1, 99)",
            "hooks of core_plugin_foo", "99"),
    "probe": ("core_plugin_foo/__init__.py", "count=1", "count=1, priority=150",
              "hooks of core_plugin_foo", "no probe"),
    "exit": ("core_plugin_foo/__init__.py", "import shutil", "import shutil, sys\nsys.exit('no')",
             "hooks of core_plugin_foo", "no"),
    "package": ("pyproject.toml", '= "core_plugin_foo"', '= "core_plugin_fox"', "package", "fox"),
    "list": ("core_plugin_foo/conformance.toml", "# What", "[[excluded\n# What",
             "conformance.toml", "conformance.toml"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_the_check_finds(fault, foo):
    file, old, new, row, words = FAULTS[fault]
    change(foo / file, old, new)
    found = failed(foo)
    assert words in found.get(row, ""), found
    done = CliRunner().invoke(cli, ["plugin", "check", str(foo)])
    assert done.exit_code == 1


def test_a_folder_without_a_project(tmp_path):
    with pytest.raises(CoreError, match="no pyproject"):
        check_plugin(tmp_path)


def test_the_list_of_plugins(plugin_folder):
    plugin_folder.install("one", {"A": "a", "B": "b"}, version="2.1", requires="core>=0.7")
    plugin_folder.install("two", {"watch": "c"}, group="core.extensions.v1")
    rows = {row["plugin"]: row for row in plugin_rows()}
    assert rows["one"] == {"plugin": "one", "version": "2.1", "devices": "A, B", "extensions": "",
                           "api": 1, "needs": "core>=0.7"}
    assert rows["two"]["extensions"] == "WATCH"
    done = CliRunner().invoke(cli, ["plugin", "list", "--json"])
    assert {"one", "two"} <= {row["plugin"] for row in json.loads(done.stdout)}


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler is installed")
@pytest.mark.parametrize("cases", [
    "L0 or L1 or (L2 and int16)",
    pytest.param("L0 or L1 or L2", marks=[pytest.mark.full, pytest.mark.timeout(1200)]),
])
def test_a_new_plugin_conforms_untouched(cases, tmp_path):
    environment = FreshEnvironment(tmp_path)
    environment.install(ROOT)
    environment.check(["core", "plugin", "new", "foo", "--path", "plugin"])
    environment.install(tmp_path / "plugin")
    report = tmp_path / "report.json"
    said = environment.run(["core", "conformance", "FOO", "--only", cases, "--jobs", "2",
                            "--json", str(report)])
    assert said.returncode == 0, said.stdout + said.stderr
    found = json.loads(report.read_text())
    assert (found["failed"], found["excluded"]) == (0, 0)
    rows = json.loads(environment.check(["core", "doctor", "FOO", "--json"]))
    assert all(row["result"] != "failed" for row in rows if row["of"] == "FOO")
