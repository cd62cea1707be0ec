"""Rules of DESIGN section 1 on the source of the checkout: sizes, names, imports."""

from pathlib import Path

import pytest

from core.foundation.settings import SETTINGS
from core.testing import source_rules
from core.testing.source_rules import source_files

ROOT = Path(__file__).parents[2]
FILES = source_files(ROOT / "core", *(ROOT / "plugins").glob("*/core_plugin_*"))
ALL_FILES = [*FILES, *source_files(ROOT / "tests", ROOT / "benchmarks")]
# Tests that name devices, and why; all others run on the device of the run. Those of one plugin are
# in tests/plugins.
NAMES_OF_DEVICES = {
    "codegen/test_stream_and_dynamic.py": "plans for a target that is the same everywhere: NULL's",
    "compiler/test_long_chains.py": "plans only",
    "compiler/test_pipeline.py": "which passes an interpreter skips",
    "end_to_end/test_demo.py": "too slow on the interpreter",
    "foundation/test_settings.py": "text of a setting",
    "frontend/test_bad_input.py": "operands on two devices; devices that are not installed",
    "frontend/test_operations.py": "on the interpreter too in every run",
    "frontend/test_zero_sizes.py": "moves to another device",
    "plugin": "the registry, which is about names",
    "runtime/test_copies.py": "several devices",
    "runtime/test_copy_paths.py": "several devices",
    "runtime/test_realize.py": "what fails on one device leaves others alone",
    "runtime/test_reports.py": "several devices",
    "schedule/test_padded_rows.py": "found on the interpreter, whose kernels read with their gates",
    "schedule/test_program_kernel_counts.py": "counts kernels for a target that is the same "
                                              "everywhere: NULL's",
    "schedule/test_sums_are_computed_once.py": "compares two devices, counts on NULL",
    "testing/conformance/test_exclusions.py": "core's own list",
    "testing/conformance/test_launches.py": "core's own programs",
    "tools/test_processes.py": "what commands say about devices",
}


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


def test_tests_run_on_the_device_of_the_run():
    tests = ROOT / "tests"
    named = [fault for file in source_files(tests) for fault in source_rules.device_names(file)
             if file.relative_to(tests).parts[0] not in {"plugins", *NAMES_OF_DEVICES}
             and str(file.relative_to(tests)) not in NAMES_OF_DEVICES]
    assert named == []


@pytest.mark.parametrize("name", NAMES_OF_DEVICES)
def test_exceptions_are_needed(name):
    place = ROOT / "tests" / name
    files = source_files(place) if place.is_dir() else [place]
    assert any(fault for file in files for fault in source_rules.device_names(file))


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_does_something(name):
    assert any(f"settings.{name}" in file.read_text() for file in FILES), f"nothing reads {name}"


def test_tests_share_nothing_by_file():
    packages = [file for file in (ROOT / "tests").rglob("__init__.py")
                if "third_party" not in file.parts]  # packages that are installed, not tests
    assert packages == []
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
    file.write_text("x = ['NULL:3', 'CPU', 'CPUS', 'a CPU', None, 7]\n")
    assert [fault.split("device ")[1].split()[0] for fault in source_rules.device_names(file)] == [
        "'NULL:3'", "'CPU'"]
    assert "common says" in source_rules.banned_name(Path("core/common/a.py"))
