"""pytest plugin of core's own tests and of the conformance kit: ``-p core.testing.plugin``.

It has no ``pytest11`` entry point, which would slow every pytest run on the machine. It turns the
checks SPEC and TRACE_ERRORS on, gives the fixture `device`, and refuses to test the source tree
where the installed wheel is meant: what users get is the wheel.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

# Before any layer reads its settings. A run may still say otherwise in its environment.
os.environ.setdefault("CORE_SPEC", "1")

from core.foundation import settings as settings_module
from core.foundation.settings import Context, settings
from core.plugin.registry import registry
from core.testing.plugin_folder import PluginFolder

SOURCE_VARIABLE = "CORE_TEST_SOURCE"
#: The conformance kit's part, which is idle in runs of other tests.
pytest_plugins = ("core.testing.conformance.session",)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of core's test runs."""
    group = parser.getgroup("core")
    group.addoption("--core-device", default="", help="device of the fixture `device`")
    group.addoption("--core-level", default="L5", choices=("L0", "L1", "L2", "L3", "L4", "L5"),
                    help="highest level of the conformance kit that is run")
    group.addoption("--core-report", default="", metavar="FILE",
                    help="JSON report of the conformance kit")
    group.addoption("--full", action="store_true", help="run the tests marked full as well")


def pytest_configure(config: pytest.Config) -> None:
    """Turn checks on, and refuse a run that would test the wrong copy of core."""
    if config.getoption("--core-device"):  # the default device of this run and of its children
        os.environ["CORE_DEV"] = config.getoption("--core-device")
    settings_module.read_environment()
    here = Path(__file__).resolve()
    root = config.rootpath.resolve()
    is_source = root in here.parents and "site-packages" not in here.parts
    if is_source and os.environ.get(SOURCE_VARIABLE) != "1":
        raise pytest.UsageError(
            f"these tests run the source tree {root}, not an installed wheel: install it and "
            f"set PYTHONSAFEPATH=1, or set {SOURCE_VARIABLE}=1 if you mean the source"
        )


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Say which core and which devices are tested."""
    device = config.getoption("--core-device") or "the default one"
    found = ", ".join(registry.names())
    lines = [f"core: {Path(__file__).parent.parent}; device: {device}; found: {found}"]
    folders = sorted((config.rootpath / "tests" / "plugins").glob("*"))
    missing = [folder.name for folder in folders if _plugin_is_missing(folder)]
    if missing:
        lines.append(f"tests of plugins left out, which are not installed: {', '.join(missing)}")
    return lines


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out the tests of a plugin that is not installed; the header says so."""
    return _plugin_is_missing(collection_path) or None


def _plugin_is_missing(folder: Path) -> bool:
    return (folder.parent.name == "plugins" and folder.parent.parent.name == "tests"
            and folder.is_dir() and not folder.name.startswith("_")
            and find_spec(f"core_plugin_{folder.name}") is None)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave tests marked `full` to runs with ``--full``."""
    if config.getoption("--full"):
        return
    left_out = [item for item in items if item.get_closest_marker("full")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show what tests recorded as drawn at random."""
    for report in terminalreporter.stats.get("passed", []):
        for name, value in getattr(report, "user_properties", ()):
            if name == "drawn":
                terminalreporter.write_line(f"{report.nodeid}: {value}")


@pytest.fixture(scope="session")
def device(request: pytest.FixtureRequest) -> str:
    """Name of the device under test: ``--core-device``, else the default device."""
    return str(request.config.getoption("--core-device")) or registry.default_name()


@pytest.fixture(autouse=True)
def _settings_are_left_alone() -> Iterator[None]:
    """A test that leaves a setting changed would change the ones after it."""
    before = dict(vars(settings))
    yield
    changed = {name for name, value in vars(settings).items() if before.get(name) != value}
    for name in changed:
        setattr(settings, name, before[name])
    assert not changed, f"the test left settings changed: {sorted(changed)}"


@pytest.fixture
def plugin_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PluginFolder]:
    """An empty folder on the path to install made-up plugins into; its cache is its own too."""
    path = tmp_path_factory.mktemp("site")
    folder = PluginFolder(path)
    sys.path.insert(0, str(path))
    with Context(CACHE_DIR=str(path / "cache"), DEV=""):
        yield folder
    sys.path.remove(str(path))
    folder.forget_modules()
