"""`core conformance`: run the kit of `core.testing.conformance` on a device, show what it found.

The kit runs in a pytest of its own, away from whatever configures pytest where the user stands; its
progress goes to standard error, the report to standard output and to files.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import click

from core.foundation.errors import CoreError, DeviceError
from core.ir import STORED_DTYPES, Op
from core.plugin.device_name import DeviceName
from core.plugin.registry import registry

LEVELS: Final = ("L0", "L1", "L2", "L3", "L4", "L5")
_MOST_PROCESSES: Final = 4
_CASE_SECONDS: Final = 120  # a case that takes longer hangs
_TITLES: Final = {
    "L0": "contract", "L1": "memory", "L2": "every op in every dtype", "L3": "code generation",
    "L4": "copies and command lists", "L5": "whole models",
}
_SIGNS: Final = {"passed": "✓", "excluded": "x", "failed": "**FAILED**", "skipped": "skipped"}
Report = Mapping[str, Any]


def run_conformance(
    device: str, level: str, *, json_file: str = "", markdown_file: str = "", jobs: int = 0,
    only: str = "",
) -> int:
    """Run the kit, print the report, write the files asked for.

    Args:
        device: Name of the device, as in ``DEV``.
        level: The highest level that is run.
        json_file: Where the report goes as JSON; empty: nowhere.
        markdown_file: Where the op x dtype table goes; empty: nowhere.
        jobs: Processes; 0: as many as cores, four at most, if pytest-xdist is there.
        only: pytest's ``-k``: run only cases whose name matches.

    Returns:
        0 if the device conforms.

    Raises:
        DeviceError: There is no such device, or it took the run's process with it.
        CoreError: pytest is not installed.
    """
    registry.describe(DeviceName.parse(device).name)
    if find_spec("pytest") is None:
        raise CoreError("the conformance kit runs in pytest, which is not installed",
                        cure='pip install "core[testing]"')
    report = _run(device, level, jobs, only)
    if json_file:
        Path(json_file).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    if markdown_file:
        Path(markdown_file).write_text("\n".join(markdown(report)) + "\n", encoding="utf-8")
    for line in lines(report):
        click.echo(line)
    return int(bool(report["failed"] or report["problems"]))


def _run(device: str, level: str, jobs: int, only: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="core-conformance-") as folder:
        settings, file = Path(folder, "pytest.ini"), Path(folder, "report.json")
        settings.write_text("[pytest]\n", encoding="utf-8")
        command = [
            sys.executable, "-m", "pytest", "-c", str(settings), "-p", "core.testing.plugin",
            "-p", "no:cacheprovider", "--pyargs", "core.testing.conformance", "--no-header", "-q",
            "--tb=short", f"--core-device={device}", f"--core-level={level}",
            f"--core-report={file}"]
        if find_spec("pytest_timeout"):
            command += ["-p", "pytest_timeout", f"--timeout={_CASE_SECONDS}"]
        if jobs != 1 and find_spec("xdist"):
            processes = jobs or min(os.cpu_count() or 1, _MOST_PROCESSES)
            command += ["-p", "xdist.plugin", "-n", str(processes)]
        if only:
            command += ["-k", only]
        # No plugin of pytest but these, and no options that are meant for the user's own tests.
        environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
        status = subprocess.run(
            command, check=False, stdout=sys.__stderr__, env=environment).returncode
        if not file.is_file():
            raise DeviceError(
                f"the conformance run of {device} ended with status {status} and left no report",
                cure="look at what pytest said above; one process at a time: --jobs 1")
        report: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    if status not in {0, 1} and not report["problems"]:
        report["problems"] = [f"pytest ended with status {status}"]
    return report


def first_line(report: Report) -> str:
    """What every form of the report begins with: the number of excluded cells."""
    rest = ", ".join(f"{report[name]} {name}" for name in ("passed", "failed", "skipped"))
    return f"{report['excluded']} of {report['cases']} cells excluded, {rest}"


def _about(report: Report) -> str:
    return (f"{report['device']} ({report['plugin']}, {report['architecture'] or 'not opened'}) "
            f"with core {report['core']}, levels L0 to {report['level']}: {report['launches']} "
            f"launches in its own programs, {report['seconds']:.0f} s")


def lines(report: Report) -> Iterator[str]:
    """The report for a terminal."""
    yield first_line(report)
    yield _about(report)
    for problem in report["problems"]:
        yield f"problem: {problem}"
    for row in _with(report, "failed"):
        yield f"failed {row['id']}: {' '.join(row['reason'].split())[:300]}"
    for row in _with(report, "skipped"):
        yield f"skipped {row['id']}: {row['reason']}"
    for reason, cases in _by_reason(report).items():
        yield f"excluded {cases[0]}{f' and {len(cases) - 1} more' * (len(cases) > 1)}: {reason}"
    yield "the device conforms" if not (report["failed"] or report["problems"]) else (
        "the device does not conform")


def _with(report: Report, outcome: str) -> list[Report]:
    return [row for row in report["rows"] if row["outcome"] == outcome]


def _by_reason(report: Report) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for row in _with(report, "excluded"):
        found.setdefault(row["reason"], []).append(row["id"])
    return found


def markdown(report: Report) -> Iterator[str]:
    """The report as Markdown: ops by dtypes, casts, reductions, and what every level says."""
    yield first_line(report)
    yield ""
    yield f"# Conformance of {report['device']}"
    yield ""
    yield _about(report)
    yield ""
    yield from _table(["level", *_SIGNS], [
        [f"{level} {title}", *(str(n) if n else "" for n in _counts(report, level))]
        for level, title in _TITLES.items() if any(_counts(report, level))])
    cells = {row["id"]: row["outcome"] for row in report["rows"]}
    names = [dtype.name for dtype in STORED_DTYPES]
    yield from _section("Ops", "✓ agrees with REFERENCE; x excluded; ✓ᵈ but for denormals; empty: "
                        "the op has no meaning there.")
    yield from _table(["op", *names], _grid(cells, "L2/elementwise/{}/{}", names))
    yield from _section("Casts", "from the row's dtype to the column's.")
    yield from _table(["from", *names], [
        [source, *(_cell(cells, f"CAST/{source}-{target}") for target in names)]
        for source in names])
    yield from _section("Reductions", "whose result does not depend on their order.")
    yield from _table(["op", *names], _grid(cells, "L2/reduce/{}/{}", names))
    if any(row["outcome"] in {"failed", "excluded", "skipped"} for row in report["rows"]):
        yield from _section("Cases that do not pass", "")
        yield from _table(["case", "outcome", "why"], [
            [row["id"], row["outcome"], " ".join(row["reason"].split())[:200].replace("|", "\\|")]
            for row in report["rows"] if row["outcome"] != "passed"])


def _counts(report: Report, level: str) -> list[int]:
    outcomes = [row["outcome"] for row in report["rows"] if row["id"].startswith(level)]
    return [outcomes.count(outcome) for outcome in _SIGNS]


def _section(title: str, text: str) -> Iterator[str]:
    yield from ("", f"## {title}", "", *([text, ""] if text else []))


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _grid(cells: Mapping[str, str], pattern: str, names: Sequence[str]) -> list[list[str]]:
    rows = []
    for op in Op:
        found = [pattern.format(op.name, name) for name in names]
        if any(case in cells for case in found):
            rows.append([op.name, *(_cell(cells, case.split("/", 2)[2], case) for case in found)])
    return rows


def _cell(cells: Mapping[str, str], name: str, case: str = "") -> str:
    """The sign of a case; a mark on it where denormals are excluded."""
    outcome = cells.get(case or f"L2/elementwise/{name}")
    if outcome is None:
        return ""
    denormal = cells.get(f"L2/denormals/{name}") if "elementwise" in (case or "elementwise") else ""
    if outcome == "passed" and denormal == "failed":
        return _SIGNS["failed"]
    return _SIGNS[outcome] + "ᵈ" * (outcome == "passed" and denormal == "excluded")
