"""Every command as users start it: a process of its own, its exit status, its two streams."""

import json
import os
import subprocess
import sys

import pytest

from core import __version__
from core.foundation.settings import SETTINGS
from core.plugin.discovery import scan


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    """Not where a checkout's folder `core` would be taken for the package."""
    monkeypatch.chdir(tmp_path)


def start(*arguments, stdout=subprocess.PIPE, **variables):
    """(exit status, standard output, standard error) of ``core arguments``."""
    done = subprocess.run(
        [sys.executable, "-m", "core", *map(str, arguments)], check=False, text=True,
        stdout=stdout, stderr=subprocess.PIPE, env={**os.environ, **variables})
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def script(tmp_path):
    """Writes a program and gives its path."""

    def write(text):
        file = tmp_path / "program.py"
        file.write_text(text)
        return file

    return write


PROGRAM = "from core import Tensor\nprint('sum', (Tensor([1.0, 2.0, 3.0]) + 1).sum().item())\n"
TABLES = {
    "devices": {"device", "default", "status", "plugin", "version", "priority", "reason"},
    "doctor": {"of", "check", "result", "finding", "cure"},
    "settings": {"setting", "value", "origin", "default", "variable", "meaning"},
    "passes": {"pass", "leaves", "because"},
    "passes --size": {"layer", "files", "lines", "code"},
}


@pytest.mark.parametrize("command", TABLES)
def test_tables_are_json_for_programs_and_have_no_colour_in_a_pipe(command):
    status, output, errors = start(*command.split(), "--json")
    assert (status, errors) == (0, "")
    rows = json.loads(output)
    assert rows
    assert all(set(row) == TABLES[command] for row in rows)
    status, output, errors = start(*command.split())
    assert (status, errors) == (0, "")
    assert "\x1b" not in output
    first = next(iter(rows[0].values()))
    assert any(str(first) in line for line in output.splitlines())


def test_the_cache_is_measured_and_cleared(tmp_path):
    here = {"CORE_CACHE_DIR": str(tmp_path / "cache")}
    (tmp_path / "cache" / "programs").mkdir(parents=True)
    for name in ("first", "second"):
        (tmp_path / "cache" / "programs" / name).write_bytes(bytes(500))
    assert json.loads(start("cache", "--json", **here)[1]) == {
        "folder": here["CORE_CACHE_DIR"], "cleared": False, "files": 2, "size_bytes": 1000}
    assert "cleared of 2 files" in start("cache", "--clear", **here)[1]
    assert json.loads(start("cache", "--json", **here)[1])["files"] == 0


def test_version_names_core_and_python():
    status, output, errors = start("--version")
    assert (status, errors) == (0, "")
    assert output.splitlines()[0].startswith(f"core {__version__} (")
    assert f"Python {sys.version.split()[0]}" in output
    assert {offer.source for offer in scan()} <= set(output.splitlines()), "every plugin"


def test_settings_tell_where_a_value_comes_from():
    status, output, errors = start("settings", "--json", CORE_DEBUG="2", CORE_DEBG="1",
                                   DEV="REFERENCE")
    rows = {row["setting"]: row for row in json.loads(output)}
    assert set(rows) == set(SETTINGS)
    assert (rows["DEBUG"]["value"], rows["DEBUG"]["origin"]) == (2, "CORE_DEBUG in the environment")
    assert (rows["DEV"]["value"], rows["DEV"]["origin"]) == ("REFERENCE", "DEV in the environment")
    assert rows["FUEL"]["origin"] == "default"
    assert "CORE_DEBG is set but is no setting of core; did you mean CORE_DEBUG?" in errors
    assert status == 0


def test_a_setting_that_cannot_be_read_ends_without_a_traceback():
    status, output, errors = start("settings", CORE_DEBUG="loud")
    assert (status, output) == (1, "")
    assert errors.startswith("core: CORE_DEBUG in the environment: setting DEBUG cannot be 'loud'")


# -- unknown names ---------------------------------------------------------------------------


def test_an_unknown_device_of_the_environment():
    status, output, errors = start("demo", DEV="REFERENC")
    assert (status, output) == (1, "")
    assert "there is no device REFERENC (asked for by DEV in the environment)" in errors
    assert "did you mean REFERENCE?" in errors
    assert "Traceback" not in errors


def test_doctor_of_an_unknown_device():
    status, output, _ = start("doctor", "CUDA", "--json")
    (row,) = [row for row in json.loads(output) if row["of"] == "CUDA"]
    assert (status, row["result"]) == (1, "failed")
    assert "no device CUDA" in row["finding"]
    assert "core-plugin-cuda" in row["cure"]


@pytest.mark.parametrize("arguments", [
    ["nosuch"], ["devices", "--nosuch"], ["demo", "--seed", "x"], ["explain"],
    ["explain", "/nosuch.py"]])
def test_a_wrong_command_line_has_status_2(arguments):
    status, output, errors = start(*arguments)
    assert (status, output) == (2, "")
    assert "Error:" in errors


def test_without_a_command_help_is_shown():
    _, output, errors = start()
    assert all(name in output + errors for name in (
        "demo", "devices", "doctor", "passes", "explain", "settings", "cache"))


# -- without any plugin ------------------------------------------------------------------------


def test_devices_without_any_plugin():
    bare = {"CORE_DEVICES": "-cpu", "CORE_PLUGINS": "", "DEV": ""}
    status, output, errors = start("devices", "--json", **bare)
    rows = {row["device"]: row for row in json.loads(output)}
    assert (status, errors) == (0, "")
    assert {name for name, row in rows.items() if row["status"] != "not allowed"} == {
        "NULL", "REFERENCE"}
    assert rows["REFERENCE"]["default"]
    assert "nothing else is usable" in rows["REFERENCE"]["reason"]
    assert start("doctor", **bare)[0] == 0


def test_explain_without_any_plugin(script):
    bare = {"CORE_DEVICES": "-cpu", "CORE_PLUGINS": "", "DEV": ""}
    status, output, errors = start("explain", script(PROGRAM), **bare)
    assert status == 0, errors
    assert "sum 9.0" in output
    assert "no device plugin installed: using the slow interpreter" in errors


# -- explain ------------------------------------------------------------------------------------


def test_explain_shows_what_each_pass_made(script):
    status, output, errors = start("explain", script(PROGRAM), DEV="NULL")
    assert status == 0, errors
    assert "=== create-schedule (" in output
    assert any(line.startswith("+") and "REDUCE" in line for line in output.splitlines())
    assert output.splitlines()[-1].endswith("passes")
    only = start("explain", "--only", "create", script(PROGRAM), DEV="NULL")[1]
    headings = [line for line in only.splitlines() if line.startswith("===")]
    assert headings
    assert all("create-schedule" in heading for heading in headings)


def test_explain_passes_arguments_and_finds_neighbours(tmp_path, script):
    (tmp_path / "neighbour.py").write_text("NAME = 'next door'\n")
    file = script("import sys, neighbour\nprint(neighbour.NAME, sys.argv[1:])\n")
    status, output, errors = start("explain", file, "a", "--only", "b", PYTHONPATH=os.pathsep.join(
        [str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    assert status == 0, errors
    assert "next door ['a', '--only', 'b']" in output


def test_an_error_of_the_explained_program_is_shown_as_python_would(script):
    file = script(PROGRAM + "Tensor([1, 2]) + Tensor([1, 2, 3])\n")
    status, output, errors = start("explain", file, DEV="NULL")
    assert status == 1
    assert f'File "{file}", line 3' in errors
    assert "runpy" not in errors
    assert "shapes (2,) and (3,) do not broadcast" in errors
    assert "=== create-schedule" in output


def test_the_exit_status_of_the_explained_program_is_kept(script):
    assert start("explain", script("import sys; sys.exit(3)"))[0] == 3


@pytest.mark.parametrize("command", [["settings"], ["settings", "--json"], ["explain"]])
def test_a_pipe_that_nobody_reads_ends_quietly(command, script):
    given = [*command, script(PROGRAM)] if command == ["explain"] else command
    reader, writer = os.pipe()
    os.close(reader)
    try:
        status, _, errors = start(*given, stdout=writer, DEV="NULL")
    finally:
        os.close(writer)
    assert "Traceback" not in errors
    assert "Exception ignored" not in errors
    assert status in (0, 1)
