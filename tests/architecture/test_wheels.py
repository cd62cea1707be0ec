"""What the wheels hold: the package and its metadata, every file of it, nothing else."""

import importlib.metadata
from pathlib import Path

import pytest

import core

ROOT = Path(__file__).parents[2]
INSTALLED = "site-packages" in Path(core.__file__).parts
needs_wheel = pytest.mark.skipif(not INSTALLED, reason="core runs from its source tree")


def files_of(distribution):
    """Installed files of a distribution, without what the installer adds."""
    files = importlib.metadata.distribution(distribution).files or []
    return {file.as_posix() for file in files if not file.as_posix().startswith("..")}


@needs_wheel
def test_core_holds_one_package():
    top = {name.partition("/")[0] for name in files_of("core")}
    assert top == {"core", f"core-{core.__version__}.dist-info"}


@needs_wheel
@pytest.mark.parametrize(
    ("distribution", "folder"),
    [("core", "core"), ("core-plugin-cpu", "plugins/cpu/core_plugin_cpu"),
     ("core-plugin-qemu", "plugins/qemu/core_plugin_qemu")],
)
def test_every_file_of_the_source_is_in_the_wheel(distribution, folder):
    try:
        files = files_of(distribution)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{distribution} is not installed here")
    source = ROOT / folder
    wanted = {
        f"{source.name}/{file.relative_to(source).as_posix()}"
        for file in source.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    held = {name for name in files if "__pycache__" not in name and ".dist-info" not in name}
    assert held == wanted


@needs_wheel
def test_console_script_and_types():
    scripts = importlib.metadata.distribution("core").entry_points
    assert [(s.name, s.value) for s in scripts] == [("core", "core.__main__:main")]
    assert "core/py.typed" in files_of("core")


def test_gitignore_does_not_hide_the_package():
    lines = {line.strip().strip("/") for line in (ROOT / ".gitignore").read_text().splitlines()}
    assert not lines & {"core", "core*", "*core*"}
