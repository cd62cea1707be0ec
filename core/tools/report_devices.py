"""`core devices`, `core doctor` and `core --version`: what is installed, what works, why not."""

from __future__ import annotations

import os
import platform
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from core.foundation import events
from core.foundation.errors import CoreError, CoreWarning
from core.foundation.folders import cache_folder
from core.foundation.lazy_import import load
from core.foundation.settings import Context, unknown_variables
from core.plugin.description import Check
from core.plugin.discovery import scan
from core.plugin.registry import registry
from core.plugin.status import DeviceStatus


def device_rows(*, renew: bool = False) -> list[dict[str, Any]]:
    """One row per installed device; the default one is marked and says why it is."""
    default, why = default_device()
    rows = []
    for row in registry.status(renew=renew):
        is_default = row.name == default.partition(":")[0]
        reason = "; ".join(part for part in (f"default: {why}" * is_default, row.reason) if part)
        rows.append(
            {
                "device": row.name,
                "default": is_default,
                "status": row.status,
                "plugin": row.distribution,
                "version": row.version,
                "priority": row.priority,
                "reason": reason,
            }
        )
    return rows


@contextmanager
def _quietly() -> Iterator[None]:
    """What plugins' warnings say is in the rows; a report works whatever state they are in."""
    with warnings.catch_warnings(), Context(STRICT=False):
        warnings.simplefilter("ignore", CoreWarning)
        yield


def default_device() -> tuple[str, str]:
    """Name of the default device and why; an empty name when there is none to be had."""
    with _quietly():
        try:
            return registry.default_name(), registry.default_choice().reason
        except (CoreError, CoreWarning) as error:
            return "", str(error)


def version_lines() -> list[str]:
    """Version of core, and of every distribution that offers a device or an extension."""
    sources = {offer.source for offer in scan()}
    lines = [f"core {load('core:__version__')} ({Path(__file__).parent.parent})"]
    lines += sorted(sources)
    return [*lines, f"Python {platform.python_version()} ({platform.machine()}, {sys.platform})"]


def doctor_rows(device: str) -> list[dict[str, Any]]:
    """Checks of the installation, then of one device or of all of them."""
    with _quietly():
        rows = [_row("core", check) for check in _installation()]
        statuses = {row.name: row for row in registry.status(renew=True)}
        unfit = [name for name, row in statuses.items() if row.status.startswith("needs")]
        names = [device.upper()] if device else [*registry.names(), *unfit]
        for name in names:
            rows.extend(_row(name, check) for check in _device_checks(name, statuses.get(name)))
    return rows


def _row(subject: str, check: Check) -> dict[str, Any]:
    return {
        "of": subject,
        "check": check.subject,
        "result": "passed" if check.passed else "failed",
        "finding": check.finding,
        "cure": "" if check.passed else check.cure,
    }


def _installation() -> Iterator[Check]:
    yield Check("version", passed=True, finding=version_lines()[0])
    others = _other_cores()
    yield Check(
        "only one package called core on the path",
        passed=not others,
        finding=", ".join(others) or "none other",
        cure="rename that folder, or run from another folder: whichever comes first is imported",
    )
    folder = cache_folder()
    yield Check(
        "cache folder", passed=_writable(folder), finding=str(folder), cure="set CORE_CACHE_DIR"
    )
    for variable, near in unknown_variables().items():
        cure = f"did you mean {near}?" if near else "core does not read it; a plugin may"
        yield Check(variable, passed=not near, finding="no setting of core", cure=cure)
    for name, reason in registry.failed_extensions().items():
        yield Check(
            f"extension {name}", passed=False, finding=reason, cure="upgrade or uninstall it"
        )
    for name, count in events.failures.items():
        yield Check(name, passed=False, finding=f"{count} events failed in it", cure="upgrade it")


def _is_described(name: str) -> bool:
    """Whether the plugin is sound enough to be asked for its checks."""
    try:
        registry.describe(name)
    except CoreError:
        return False
    return True


def _other_cores() -> list[str]:
    """Other importable packages with our name; they break `import core` for whoever meets them."""
    own = Path(__file__).resolve().parent.parent
    found = []
    for folder in dict.fromkeys([str(Path.cwd()), *sys.path]):
        for candidate in (Path(folder or ".") / "core", Path(folder or ".") / "core.py"):
            is_package = candidate.is_file() or (candidate / "__init__.py").is_file()
            if is_package and candidate.resolve() != own and str(candidate) not in found:
                found.append(str(candidate))
    return found


def _writable(folder: Path) -> bool:
    """Whether the folder, or the nearest one above it that exists, can be written."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return os.access(folder, os.W_OK)


def _device_checks(name: str, row: DeviceStatus | None) -> Iterator[Check]:
    """State of the device, its plugin's own checks, and whether it opens."""
    may_open = True
    if row is not None:
        finding = f"{row.distribution} {row.version}: {row.status}"
        passed = row.status in ("open", "ready")
        yield Check("plugin", passed=passed, finding=finding, cure=row.reason)
        may_open = passed or row.status == "no hardware"
    try:
        if row is not None and not may_open and not _is_described(name):
            return
        yield from registry.checks(name)
        if not may_open:  # what crashed in its probe would crash here
            return
        opened = registry.open(name)
    except CoreError as error:
        yield Check("opens", passed=False, finding=error.message, cure=error.cure)
        return
    renderers = ", ".join(renderer.name for renderer in opened.renderers)
    target = opened.target
    dtypes = ", ".join(sorted(dtype.name for dtype in target.dtypes))
    yield Check("opens", passed=True, finding=f"{target.architecture}; renderers {renderers}")
    yield Check("dtypes", passed=True, finding=dtypes)
