"""The command line: what it prints, as a table and as JSON, and how it ends."""

import json

import pytest
from click.testing import CliRunner

from core import Context, __version__
from core.foundation.settings import SETTINGS
from core.ir import UOp, dtypes
from core.tools import explain, report_devices
from core.tools.command_line import cli, main


@pytest.fixture
def run():
    def invoke(*arguments):
        return CliRunner().invoke(cli, arguments, catch_exceptions=False)

    return invoke


@pytest.fixture
def registry(plugin_folder, monkeypatch):
    """The reports see only the plugins of the test's folder."""
    plugin_folder.good("FOO", "priority=100")
    plugin_folder.broken("BAD", "raise OSError('libbad.so')")
    made = plugin_folder.registry()
    monkeypatch.setattr(report_devices, "registry", made)
    return made


def test_version_names_core(run):
    result = run("--version")
    assert result.output.startswith(f"core {__version__} (")
    assert result.exit_code == 0


def test_settings_table_and_json(run):
    with Context(DEBUG=3):
        rows = {row["setting"]: row for row in json.loads(run("settings", "--json").output)}
        assert "DEBUG" in run("settings").output
    assert set(rows) == set(SETTINGS)
    assert (rows["DEBUG"]["value"], rows["DEBUG"]["origin"]) == (3, "Context(DEBUG=...)")


def test_devices_marks_the_default_and_tells_what_failed(run, registry):
    rows = {row["device"]: row for row in json.loads(run("devices", "--json").output)}
    assert (rows["FOO"]["default"], rows["FOO"]["status"]) == (True, "ready")
    assert "highest priority" in rows["FOO"]["reason"]
    assert rows["BAD"]["status"] == "failed"
    assert "libbad.so" in rows["BAD"]["reason"]
    assert "libbad.so" in run("devices").output


def test_devices_works_under_strict(run, registry):
    with Context(STRICT=True):
        assert "libbad.so" in run("devices").output


def test_devices_says_why_there_is_no_default(run, registry):
    with Context(DEV="FOOO"):
        assert "did you mean FOO?" in run("devices").output


def test_doctor_ends_with_the_state_of_the_device(run, registry):
    good, bad = run("doctor", "foo"), run("doctor", "bad", "--json")
    assert good.exit_code == 0, good.output
    assert "SAMPLE" in good.output
    assert bad.exit_code == 1
    assert any(row["of"] == "BAD" and row["result"] == "failed" for row in json.loads(bad.output))


SICK = """
import os, signal
from core.plugin import Check, DeviceSpec, hookimpl

@hookimpl
def core_devices():
    return [DeviceSpec(name="SICK", module="no_such_module_at_all", priority=300,
                       probe=__name__ + ":probe")]

@hookimpl
def core_checks(name):
    return [Check("libsick.so", False, f"{name} wants version 2", "upgrade the driver")]

def probe():
    open(__file__ + ".count", "a").write("x")
    os.kill(os.getpid(), signal.SIGSEGV)
"""


def test_doctor_asks_a_plugin_whose_probe_crashes_and_opens_nothing(run, registry, plugin_folder):
    plugin_folder.broken("SICK", SICK)
    plugin_folder.install("plugin-next", {"NEXT": "nowhere"}, group="core.plugins.v2")
    with Context(PROBE_SECONDS=60):
        rows = json.loads(run("doctor", "--json").output)
    checks = {row["check"]: row for row in rows if row["of"] == "SICK"}
    assert set(checks) == {"plugin", "libsick.so"}
    assert "crashed with SIGSEGV; `core doctor SICK` asks again" in checks["plugin"]["cure"]
    assert "uninstall plugin-sick" in checks["plugin"]["cure"]
    assert checks["libsick.so"]["cure"] == "upgrade the driver"
    assert [row["finding"] for row in rows if row["of"] == "NEXT"] == [
        "plugin-next 1.0: needs newer core"]
    (count,) = plugin_folder.path.glob("*sick.py.count")
    assert count.read_text() == "x"  # once, however many devices there are


def test_doctor_works_under_strict(run, registry, plugin_folder):
    plugin_folder.extension("odd", "raise OSError('no licence')")
    with Context(STRICT=True):
        rows = json.loads(run("doctor", "--json").output)
    found = {(row["of"], row["check"]): row["finding"] for row in rows}
    assert found["core", "extension ODD"] == "OSError: no licence"
    assert ("FOO", "opens") in found


def test_doctor_finds_another_core(tmp_path, monkeypatch):
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "__init__.py").touch()
    monkeypatch.chdir(tmp_path)
    assert str(tmp_path / "core") in report_devices._other_cores()


def test_cache_size_and_clear(run, tmp_path):
    folder = tmp_path / "cache"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "a").write_bytes(b"12345")
    with Context(CACHE_DIR=str(folder)):
        assert json.loads(run("cache", "--json").output)["size_bytes"] == 5
        assert "1 files" in run("cache", "--clear").output
        assert json.loads(run("cache", "--json").output)["files"] == 0


def test_passes_size_counts_layers(run):
    rows = json.loads(run("passes", "--size", "--json").output)
    assert rows[0]["layer"] == "ir"
    assert rows[0]["lines"] > 1000
    assert rows[-1]["lines"] == sum(row["lines"] for row in rows[:-1])


def test_passes_are_listed_in_order_with_reasons(run):
    rows = json.loads(run("passes", "--json").output)
    assert rows[0]["leaves"] == "tensor_graph"
    assert rows[-1]["leaves"] == "program"
    assert all(row["because"] for row in rows)


def test_errors_are_shown_without_a_traceback(capsys, plugin_folder, registry):
    with pytest.raises(SystemExit) as ended:
        main(["doctor", "nosuchdevice"])
    assert ended.value.code == 1
    assert "there is no device NOSUCHDEVICE" in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        main(["nosuchcommand"])
    assert ended.value.code == 2


def test_explain_prints_the_difference_a_pass_makes(tmp_path, capsys, run):
    one, two = (UOp.const(value, dtypes.int32) for value in (1, 2))
    lines = explain.describe("fold", one, two, 0.001)
    assert lines[0] == "=== fold (1.00 ms)"
    assert any(line.startswith("-") for line in lines)
    assert any(line.startswith("+") for line in lines)
    script = tmp_path / "script.py"
    script.write_text("import sys\nprint('ran', sys.argv[1:])\n")
    result = run("explain", str(script), "x")
    assert "ran ['x']" in result.output
    assert "0 runs of 0 passes" in result.output
