"""The conformance kit as plugin authors use it: on a device that is right, and on wrong ones."""

import json
import os
import subprocess
import sys

import pytest

STUB = """
from core.plugin import DeviceSpec, hookimpl

@hookimpl
def core_devices():
    return [DeviceSpec(name="PLANTED", module="{package}.device")]
"""
# REFERENCE with programs, memory and names of its own, and one fault.
DEVICE = """
import os

import numpy as np

from core.ir import Op, UOp, dtypes, map_graph, parse
from core.plugin import DeviceError, hookimpl
from core.reference import device as base

FAULT = "{fault}"


class PlantedDevice(base.ReferenceDevice):
    pass


class PlantedAllocator(base.ArrayAllocator):
    def copy_out(self, destination, block, offset):
        shift = 1 if FAULT == "copy_out" else 0
        view = np.frombuffer(destination, np.uint8)
        view[:] = np.roll(block, -shift)[offset:offset + view.nbytes]


def wrong(node, original):
    if node.op is Op.ADD and node.dtype is dtypes.float32:
        return UOp(Op.SUB, node.src)
    return node


class PlantedProgram(base.GraphProgram):
    def __init__(self, binary):
        super().__init__(binary)
        if FAULT == "add":
            self._kernel = map_graph(self._kernel, wrong)

    def __call__(self, *arguments, **options):
        if FAULT == "exit":
            os._exit(3)
        return super().__call__(*arguments, **options)


class PlantedLoader(base.GraphLoader):
    def load(self, name, binary):
        loaded = super().load(name, binary)
        return loaded if FAULT == "program" else PlantedProgram(binary)


@hookimpl
def core_open_device(spec, variant):
    if variant not in (0, ""):
        raise DeviceError(f"there is no {{spec.name}}:{{variant}}")
    return PlantedDevice()


@hookimpl
def core_renderers():
    return [base.GraphRenderer()]


@hookimpl
def core_allocator():
    return PlantedAllocator()


@hookimpl
def core_loader():
    return PlantedLoader()
"""


def conformance(device, *arguments, folder, plugin=""):
    """(exit status, report, standard output) of ``core conformance``."""
    file = folder / "report.json"
    plugins = [name for name in (os.environ.get("CORE_PLUGINS", ""), plugin) if name]
    path = [str(folder), *filter(None, sys.path)]
    done = subprocess.run(
        [sys.executable, "-m", "core", "conformance", device, *arguments, "--json", str(file)],
        check=False, text=True, capture_output=True,
        env={**os.environ, "CORE_PLUGINS": ",".join(plugins), "PYTHONPATH": os.pathsep.join(path)})
    assert file.is_file(), done.stderr
    return done.returncode, json.loads(file.read_text()), done.stdout


@pytest.fixture
def planted(tmp_path):
    """Runs the kit on a device with a fault."""

    def run(fault, *arguments, exclusions=""):
        package = f"planted_{fault}"
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text(STUB.format(package=package))
        (tmp_path / package / "device.py").write_text(DEVICE.format(fault=fault))
        (tmp_path / package / "conformance.toml").write_text(exclusions)
        if "--jobs" not in arguments:
            arguments += ("--jobs", "1")
        return conformance("PLANTED", *arguments, folder=tmp_path, plugin=package)

    return run


def failed(report):
    return {row["id"]: row["reason"] for row in report["rows"] if row["outcome"] == "failed"}


@pytest.mark.timeout(300)  # 900 cases: 10 s on two idle cores, a minute on busy ones
def test_the_device_of_this_run_conforms(device, tmp_path):
    table = tmp_path / "table.md"
    status, report, output = conformance(
        device, "--level", "L2", "--markdown", str(table), folder=tmp_path)
    assert failed(report) == {}
    assert (status, report["problems"]) == (0, [])
    assert (report["device"], report["level"]) == (device, "L2")
    assert report["cases"] > 900
    assert report["launches"] > 850
    levels = {row["id"][:2] for row in report["rows"]}
    assert levels == {"L0", "L1", "L2"}
    first = f"{report['excluded']} of {report['cases']} cells excluded, {report['passed']} passed"
    assert next(iter(report)) == "excluded"
    assert output.startswith(first)
    assert output.splitlines()[-1] == "the device conforms"
    lines = table.read_text().splitlines()
    assert lines[0].startswith(first)
    row = next(line for line in lines if line.startswith("| ADD |"))
    assert row.count("✓") == 15
    assert next(line for line in lines if line.startswith("| SQRT |")).count("✓") == 6


def test_a_sound_device_conforms(planted):
    status, report, output = planted("none", "--level", "L1")
    assert (status, failed(report)) == (0, {})
    assert report["launches"] >= 4
    assert "the device conforms" in output


def test_a_wrong_operation_is_found(planted):
    status, report, output = planted(
        "add", "--only", "(elementwise and float32) or scalars or threads or perceptron")
    assert status == 1
    assert set(failed(report)) == {
        "L2/elementwise/ADD/float32", "L3/scalars_and_constants", "L5/training/perceptron-sgd"}
    assert "ADD float32" in failed(report)["L2/elementwise/ADD/float32"]
    assert "failed L2/elementwise/ADD/float32" in output
    assert "the device does not conform" in output


def test_a_copy_that_is_off_by_one_is_found(planted):
    status, report, _ = planted("copy_out", "--only", "memory or there_and_back")
    assert status == 1
    wrong = failed(report)
    assert {"L1/piece/3-17", "L1/whole_block/64", "L1/view/63-2"} <= set(wrong)
    assert "L1/recycling" in wrong
    assert "L4/there_and_back/int16" in wrong


def test_a_device_whose_own_program_never_runs_is_found(planted):
    status, report, output = planted("program", "--level", "L2", "--only", "elementwise and NEG")
    assert status == 1
    assert report["problems"] == ["no launch ran in a Program of the device's own package"]
    assert report["passed"] == 0
    assert "core.reference.device.GraphProgram" in failed(report)["L2/elementwise/NEG/float32"]
    assert output.splitlines()[2].startswith("problem: no launch ran")


def test_a_device_that_ends_the_process_is_found(planted):
    status, report, _ = planted(
        "exit", "--level", "L2", "--only", "elementwise and SQRT and float32", "--jobs", "2")
    assert status == 1
    assert "crashed" in failed(report)["L2/elementwise/SQRT/float32"]


LISTED = """
[[excluded]]
id = ["L2/elementwise/ADD/float32"]
kind = "differs"
reason = "it subtracts"
"""
BADLY_LISTED = """
[[excluded]]
id = "L2/elementwise/ADD/float32"
kind = "unsupported"
reason = "it subtracts"

[[excluded]]
id = "L2/elementwise/SUB/float*"
kind = "differs"
reason = "it adds"

[[excluded]]
id = "L2/elementwise/SUBTRACT/*"
kind = "differs"
reason = "no such case"
"""
CASES = ("--level", "L2", "--only", "(elementwise and (ADD or SUB) and float32 and not CAST) or "
         "exclusion_list")


def test_what_is_listed_may_fail(planted):
    status, report, output = planted("add", *CASES, exclusions=LISTED)
    assert (status, failed(report)) == (0, {})
    assert report["excluded"] == 1
    assert output.startswith("1 of 3 cells excluded, 2 passed")
    assert "excluded L2/elementwise/ADD/float32: differs: it subtracts" in output


def test_what_is_listed_must_fail_as_it_says(planted):
    status, report, _ = planted("add", *CASES, exclusions=BADLY_LISTED)
    assert status == 1
    wrong = failed(report)
    assert set(wrong) == {
        "L0/exclusion_list", "L2/elementwise/ADD/float32", "L2/elementwise/SUB/float32"}
    assert "L2/elementwise/SUBTRACT/*" in wrong["L0/exclusion_list"]
    assert "differ" in wrong["L2/elementwise/ADD/float32"]
    assert "it passes, but conformance.toml lists it: differs: it adds" in wrong[
        "L2/elementwise/SUB/float32"]


def test_an_unknown_device_is_refused_before_anything_runs():
    done = subprocess.run([sys.executable, "-m", "core", "conformance", "NO_SUCH"], check=False,
                          text=True, capture_output=True)
    assert done.returncode == 1
    assert done.stderr.startswith("core: ")
    assert "NO_SUCH" in done.stderr
