"""`core plugin check` and `list`: what the source of a plugin says, and what is installed."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from core.foundation.errors import CoreError
from core.plugin.discovery import BUILT_IN, DEVICE_GROUP, EXTENSION_GROUP, scan
from core.plugin.markers import API

#: The parts of core that plugins may import; everything else may change from day to day.
PUBLIC: Final = ("core.plugin", "core.ir", "core.render", "core.toolchain", "core.foundation")
#: What a stub may import of core: it is loaded whenever devices are listed.
_LIGHT: Final = ("core.plugin", "core.foundation")
_SECONDS: Final = 60
# Runs in a child: a plugin may do anything at import. Its argument is a module's name.
_DESCRIBE: Final = """
import importlib, json, sys
from core.plugin.hook_calls import hooks_of
stub = importlib.import_module(sys.argv[1])
specs = [spec for answer in hooks_of(stub).core_devices() for spec in answer]
for spec in specs:
    hooks = hooks_of(importlib.import_module(spec.module))
    missing = [name for name in ("core_open_device", "core_renderers", "core_allocator",
                                 "core_loader") if not getattr(hooks, name).get_hookimpls()]
    assert not missing, f"{spec.module} implements no {missing[0]}"
print(json.dumps([[spec.name, list(spec.api), spec.priority, spec.probe] for spec in specs]))
"""


@dataclass(frozen=True)
class Finding:
    """One row of the report.

    Attributes:
        check: What was looked at.
        result: "passed" or "failed".
        finding: What was found.
        cure: What to do, when it failed.
    """

    check: str
    result: str
    finding: str
    cure: str = ""


def _row(check: str, finding: str, fault: str = "", cure: str = "") -> Finding:
    return Finding(check, "failed" if fault else "passed", fault or finding, cure if fault else "")


def check_plugin(folder: Path) -> list[Finding]:
    """Look at the source of a plugin; nothing is installed.

    Args:
        folder: The distribution's folder, with its pyproject.toml.

    Raises:
        CoreError: There is no pyproject.toml, or it cannot be read.
    """
    try:
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    except (OSError, KeyError, ValueError) as error:
        raise CoreError(f"{folder} holds no pyproject.toml with a [project]: {error}",
                        cure="name the folder of a plugin's source") from error
    groups = project.get("entry-points", {})
    group = f"{DEVICE_GROUP}{API[0]}"
    entries: dict[str, str] = groups.get(group, {})
    rows = [_entry_points(groups, group, entries), _requirement(project)]
    for module in dict.fromkeys(entries.values()):
        names = [name for name, stub in entries.items() if stub == module]
        rows += _package(folder, module, names)
    return rows


def _entry_points(groups: dict[str, Any], group: str, entries: dict[str, str]) -> Finding:
    fault = cure = ""
    wrong = [name for name in entries if name != name.upper() or name in BUILT_IN]
    if not entries and f"{EXTENSION_GROUP}{API[0]}" not in groups:
        others = ", ".join(name for name in groups if name.startswith("core.")) or "none of core's"
        fault = f"no entry point in the group {group}; there are {others}"
        cure = f'write [project.entry-points."{group}"] and below it NAME = "module of the stub"'
    elif wrong:
        fault, cure = f"{wrong[0]} is no name for a device", "use capitals, and no name of core's"
    return _row("entry points", ", ".join(entries) or "an extension", fault, cure)


def _requirement(project: dict[str, Any]) -> Finding:
    found = [r for r in project.get("dependencies", ())
             if re.match(r"core\s*(\[[^]]*\])?\s*([<>=~!;].*)?$", r)]
    fault = cure = ""
    if not found:
        fault, cure = "core is not among the dependencies", 'add "core>=..." to dependencies'
    elif "<" in found[0] or "~=" in found[0] or "==" in found[0]:
        fault = f"{found[0]} has an upper bound"
        cure = "leave it out: core refuses what does not fit, and says which side to upgrade"
    return _row("dependency on core", found[0] if found else "", fault, cure)


def _package(folder: Path, module: str, names: list[str]) -> list[Finding]:
    """Rows about the import package of a stub."""
    package = folder / module.partition(".")[0]
    files = sorted(package.rglob("*.py")) if package.is_dir() else [package.with_suffix(".py")]
    if not all(file.is_file() for file in files) or not files:
        return [_row("package", "", f"there is no {package}", "put the package beside pyproject")]
    stub = folder / Path(*module.split("."))
    stub = stub / "__init__.py" if stub.is_dir() else stub.with_suffix(".py")
    rows = [_imports("imports of core", files, PUBLIC), _imports("the stub", [stub], _LIGHT)]
    rows.append(_described(folder, module, names))
    listing, fault = package / "conformance.toml", ""
    if listing.is_file():
        try:
            tomllib.loads(listing.read_text(encoding="utf-8"))
        except ValueError as error:
            fault = f"{listing}: {error}"
    rows.append(_row("conformance.toml", "can be read" if listing.is_file() else "lists nothing",
                     fault, "see docs/conformance.md"))
    return rows


def _imports(check: str, files: list[Path], allowed: tuple[str, ...]) -> Finding:
    """Whether modules import no other part of core; the stub also nothing that takes long."""
    for file in files:
        for line, name in _imported(file):
            of_core = name == "core" or name.startswith("core.")
            public = name.startswith(tuple(f"{part}." for part in allowed)) or name in allowed
            heavy = allowed is _LIGHT and not of_core and _is_heavy(name, file)
            if (of_core and not public) or heavy:
                return _row(check, "", f"{file.name}, line {line}, imports {name}",
                            f"import only {', '.join(allowed)}"
                            + (" and the standard library" if allowed is _LIGHT else ""))
    return _row(check, f"only {', '.join(allowed)}")


def _imported(file: Path) -> Iterator[tuple[int, str]]:
    """(line, module) of the imports; of those of a stub, the ones that run with it."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            if node.module == "core":
                yield from ((node.lineno, f"core.{alias.name}") for alias in node.names)
            else:
                yield node.lineno, node.module


def _is_heavy(name: str, file: Path) -> bool:
    first = name.partition(".")[0]
    return first not in sys.stdlib_module_names and first != file.parent.name


def _described(folder: Path, module: str, names: list[str]) -> Finding:
    """Import the stub and the device's module in a child, and ask what they describe."""
    check, fault, found = f"hooks of {module}", "", []
    cure = "see docs/plugin-authors.md and docs/error-messages.md"
    path = os.pathsep.join([str(folder), *filter(None, sys.path)])
    try:
        done = subprocess.run(
            [sys.executable, "-c", _DESCRIBE, module], check=False, capture_output=True,
            text=True, timeout=_SECONDS, env={**os.environ, "PYTHONPATH": path})
    except subprocess.TimeoutExpired:
        return _row(check, "", f"importing it takes more than {_SECONDS} s", "import less")
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"]
        if said[-1].startswith("cure: "):
            cure = said.pop().removeprefix("cure: ")
        last = [line for line in said if line[:1].strip() and ": " in line] or said
        fault = last[-1].removeprefix("core.foundation.errors.")
    else:
        found = json.loads(done.stdout.splitlines()[-1])
        missing = set(names) - {name.upper() for name, *_ in found}
        newer = [api for _, api, *_ in found if api[0] != API[0] or api[1] > API[1]]
        unprobed = [name for name, _, priority, probe in found if priority > 100 and not probe]
        if missing:
            fault = f"the entry point {min(missing)} is not among the devices described"
        elif newer:
            fault = f"plugin API {newer[0]} is not that of this core, {list(API)}"
        elif unprobed:
            fault = f"{unprobed[0]} has a priority above 100 and no probe"
    return _row(check, ", ".join(name for name, *_ in found), fault, cure)


def plugin_rows() -> list[dict[str, Any]]:
    """One row per installed distribution that plugs into core; no plugin code runs."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for offer in scan():
        row = rows.setdefault((offer.distribution, offer.version), {
            "plugin": offer.distribution, "version": offer.version, "devices": "",
            "extensions": "", "api": offer.major, "needs": offer.requirement_on_core()})
        kind = "devices" if offer.group == DEVICE_GROUP else "extensions"
        row[kind] = ", ".join(filter(None, (row[kind], offer.name)))
    return list(rows.values())
