"""The pytest side of the kit: levels, exclusions, launches, and the report of a run.

A pytest plugin that `core.testing.plugin` loads; it does nothing to tests that are not the kit's.
Under xdist outcomes reach the controller as user properties of the tests' reports.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from core.foundation.errors import CoreError, PluginError
from core.foundation.lazy_import import load
from core.plugin.device_name import DeviceName
from core.plugin.registry import registry
from core.testing.conformance.exclusions import Exclusion, exclusion_file, read_exclusions

LEVELS: Final = ("L0", "L1", "L2", "L3", "L4", "L5")
#: The case that checks the list of exclusions; it cannot be on it.
LIST_CASE: Final = "L0/exclusion_list"
_MODULES: Final = "|".join(sorted(file.stem for file in Path(__file__).parent.glob("test_l*.py")))
_NODE: Final = re.compile(rf"(?:^|/)({_MODULES})\.py::test_(\w+)(?:\[(.*)\])?$")
_LAUNCHES, _ARCHITECTURE = "core_launches", "core_architecture"
_SHOWN: Final = 1500  # characters of a failure in the report
_RAISES: Final[dict[str, tuple[type[BaseException], ...]]] = {
    "unsupported": (CoreError,), "differs": (AssertionError, pytest.fail.Exception)}


def case_of(node: str) -> str:
    """Id of a case, as `conformance.toml` names it (``L2/elementwise/ADD/float32``); else empty.

    Args:
        node: pytest's id of a test; also that of one whose process crashed.
    """
    found = _NODE.search(node)
    if not found:
        return ""
    module, function, parameters = found.groups()
    level = module.split("_")[1].upper()
    return "/".join([level, function, *([parameters] if parameters else [])])


class Kit:
    """What one run of the kit knows.

    Attributes:
        counter: Launches of the device under test; None until it is open.
        cases: Rows of the report by case.
        fault: What is wrong with the list of exclusions; empty if nothing is.
        architecture: Of the device, as it says.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.counter: Any = None
        self.cases: dict[str, dict[str, Any]] = {}
        self.fault = ""
        self.architecture = ""
        self._started = time.monotonic()

    @property
    def device(self) -> str:
        """Name of the device under test."""
        return str(self.config.getoption("--core-device")) or registry.default_name()

    @property
    def level(self) -> str:
        """The highest level that is run."""
        return str(self.config.getoption("--core-level"))

    def exclusions(self) -> list[Exclusion]:
        """What the device's plugin lists; a file that cannot be read is a fault of L0."""
        try:
            spec = registry.describe(DeviceName.parse(self.device).name).spec
            return read_exclusions(exclusion_file(spec.module), spec.name)
        except PluginError as error:
            self.fault = str(error)
        except CoreError:
            pass  # the device cannot even be described: every case will say so
        return []

    def note(self, report: pytest.TestReport) -> None:
        """Take the outcome of one phase of a case."""
        properties = dict(report.user_properties)
        case = case_of(report.nodeid)
        if not case or (report.when != "call" and report.passed):
            return
        self.architecture = str(properties.get(_ARCHITECTURE, self.architecture))
        excluded = report.skipped and hasattr(report, "wasxfail")
        row = {
            "id": case, "outcome": "excluded" if excluded else report.outcome,
            "seconds": round(report.duration, 4), "launches": properties.get(_LAUNCHES, 0),
            "reason": _reason(report),
        }
        if case not in self.cases or report.failed:
            self.cases[case] = row

    def report(self) -> dict[str, Any]:
        """The run as data for JSON: the number of excluded cells comes first."""
        rows = sorted(self.cases.values(), key=lambda row: str(row["id"]))
        counts = {o: sum(row["outcome"] == o for row in rows)
                  for o in ("excluded", "passed", "failed", "skipped")}
        launches = sum(row["launches"] for row in rows)
        try:
            offer: Any = registry.describe(DeviceName.parse(self.device).name).offer
            source = offer.source
        except CoreError:
            source = "unknown"
        return {
            **counts, "cases": len(rows), "launches": launches,
            "problems": self._problems(launches), "device": self.device, "plugin": source,
            "core": load("core:__version__"),
            "architecture": self.architecture, "level": self.level,
            "seconds": round(time.monotonic() - self._started, 2), "rows": rows,
        }

    def _problems(self, launches: int) -> list[str]:
        """What is wrong with the run as a whole."""
        if self.cases and not launches:
            return ["no launch ran in a Program of the device's own package"]
        return []


def _reason(report: pytest.TestReport) -> str:
    """Why a case is not simply passed, in the words of the failure."""
    expected = getattr(report, "wasxfail", "")
    if expected:
        return str(expected).removeprefix("reason: ")
    if report.passed:
        return ""
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2])
    crash = getattr(report.longrepr, "reprcrash", None)
    text = str(crash.message if crash else report.longrepr).strip()
    if text.startswith("[XPASS(strict)]"):
        return f"it passes, but conformance.toml lists it: {text.removeprefix('[XPASS(strict)] ')}"
    return text[:_SHOWN]


_KIT: Final = pytest.StashKey[Kit]()


def kit_of(config: pytest.Config) -> Kit:
    """The kit of a run."""
    return config.stash[_KIT]


@pytest.fixture(scope="session")
def bench(device: str, request: pytest.FixtureRequest) -> Any:
    """The device under test on its bench: `core.testing.conformance.bench.Bench`."""
    made = load("core.testing.conformance.bench:open_bench")(device)
    kit = kit_of(request.config)
    kit.counter, kit.architecture = made.counter, made.opened.target.architecture
    return made


def pytest_configure(config: pytest.Config) -> None:
    """Begin."""
    config.stash[_KIT] = Kit(config)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Name the cases, leave out higher levels, and expect what is excluded to fail."""
    mine = {item: case for item in items if (case := case_of(item.nodeid))}
    if not mine:
        return
    kit = kit_of(config)
    rows = kit.exclusions()
    for item, case in mine.items():
        for row in (row for row in rows if row.matches(case) and case != LIST_CASE):
            reason = f"{row.kind}: {row.reason}"
            item.add_marker(pytest.mark.xfail(
                strict=True, reason=reason, raises=_RAISES[row.kind]))
            break
    if all("::" not in str(argument) for argument in config.args) and not kit.fault:
        kit.fault = _stale(rows, list(mine.values()))
    above = [item for item, case in mine.items() if case[:2] > kit.level]
    if above:
        config.hook.pytest_deselected(items=above)
        left = set(above)
        items[:] = [item for item in items if item not in left]


def _stale(rows: Sequence[Exclusion], cases: Sequence[str]) -> str:
    unknown = [r.pattern for r in rows if not any(r.matches(c) for c in cases if c != LIST_CASE)]
    return f"conformance.toml lists cases that there are not: {', '.join(unknown)}" * bool(unknown)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Note how many launches a case made in the device's own programs."""
    kit = kit_of(item.config)
    before = kit.counter.own if kit.counter else 0
    try:
        yield
    finally:
        if kit.counter and case_of(item.nodeid):
            item.user_properties.append((_LAUNCHES, kit.counter.own - before))
            item.user_properties.append((_ARCHITECTURE, kit.architecture))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Collect outcomes; under xdist in the controller, where all of them arrive."""
    if _running is not None:
        _running.note(report)


_running: Kit | None = None


def pytest_sessionstart(session: pytest.Session) -> None:
    """Where reports arrive."""
    global _running  # noqa: PLW0603 - pytest_runtest_logreport gets no config
    _running = kit_of(session.config)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the report, and fail a run in which nothing ran on the device."""
    kit = kit_of(session.config)
    if not kit.cases or hasattr(session.config, "workerinput"):
        return
    report = kit.report()
    file = session.config.getoption("--core-report")
    if file:
        Path(file).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    if report["problems"] and session.exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was found: the number of excluded cells first."""
    kit = kit_of(terminalreporter.config)
    if kit.cases:
        report = kit.report()
        terminalreporter.section(f"conformance of {report['device']}")
        terminalreporter.write_line(summary_line(report))
        for problem in report["problems"]:
            terminalreporter.write_line(f"problem: {problem}")


def summary_line(report: dict[str, Any]) -> str:
    """The first line of every form of the report."""
    excluded, launches = (f"{report[name]}" for name in ("excluded", "launches"))
    rest = ", ".join(f"{report[name]} {name}" for name in ("passed", "failed", "skipped"))
    return (f"{excluded} of {report['cases']} cells excluded, {rest}; {launches} launches in the "
            "device's own programs")
