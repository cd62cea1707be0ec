"""Rules of DESIGN section 1 on the source of the checkout: sizes, names, imports."""

from pathlib import Path

import pytest

from core.foundation.settings import SETTINGS
from core.testing import source_rules
from core.testing.source_rules import source_files

ROOT = Path(__file__).parents[2]
FILES = source_files(ROOT / "core", *(ROOT / "plugins").glob("*/core_plugin_*"))
ALL_FILES = [*FILES, *source_files(ROOT / "tests", ROOT / "benchmarks")]


def test_there_is_something_to_check():
    assert len(FILES) > 30


def test_no_file_is_too_long():
    assert list(filter(None, map(source_rules.too_long, ALL_FILES))) == []


def test_no_module_has_a_name_that_says_nothing():
    relative = [file.relative_to(ROOT) for file in ALL_FILES]
    assert list(filter(None, map(source_rules.banned_name, relative))) == []


@pytest.mark.parametrize("rule", [source_rules.long_functions, source_rules.late_imports])
def test_functions(rule):
    assert [fault for file in FILES for fault in rule(file)] == []


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_does_something(name):
    assert any(f"settings.{name}" in file.read_text() for file in FILES), f"nothing reads {name}"


def test_tests_share_nothing_by_file():
    assert sorted((ROOT / "tests").rglob("__init__.py")) == []
    assert sorted((ROOT / "tests").rglob("conftest.py")) == []


def test_the_rules_find_what_they_forbid(tmp_path):
    file = tmp_path / "utils.py"
    body = "\n".join(f"    x = {i}" for i in range(499))
    file.write_text(f"def f():\n    import os\n{body}\n")
    assert "501 lines" in source_rules.too_long(file)
    assert "utils says nothing" in source_rules.banned_name(file)
    assert [fault.split(": ")[1] for fault in source_rules.long_functions(file)] == [
        "f has 500 statements, at most 40"
    ]
    assert list(source_rules.late_imports(file)) == [f"{file}:2: import inside f"]
    assert "common says" in source_rules.banned_name(Path("core/common/a.py"))
