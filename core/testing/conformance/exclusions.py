"""`conformance.toml`: what a device does not do, as its plugin says itself.

    [[excluded]]
    id = "L2/*/float64"           # a case, or several by * and ?; or a list of such
    kind = "unsupported"          # it raises an error of core; or "differs": the values are wrong
    reason = "the hardware has no doubles"
    device = "FOO"                # optional, for packages with several devices

Strict both ways: a case that is listed has to fail, and in the way that is said.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from core.foundation.errors import PluginError

FILE: Final = "conformance.toml"
KINDS: Final = ("unsupported", "differs")
_KEYS: Final = {"id", "kind", "reason", "device"}


@dataclass(frozen=True)
class Exclusion:
    """One row of the file.

    Attributes:
        pattern: Id of a case, with wildcards.
        kind: How the case fails: one of `KINDS`.
        reason: Why, for people.
    """

    pattern: str
    kind: str
    reason: str

    def matches(self, case: str) -> bool:
        """Whether a case is meant."""
        return fnmatchcase(case, self.pattern)


def exclusion_file(module: str) -> Path | None:
    """The file in the package of a device's module, or in one around it; None if there is none."""
    package = module
    while package:
        found = find_spec(package)
        for folder in (found.submodule_search_locations or ()) if found else ():
            file = Path(folder) / FILE
            if file.is_file():
                return file
        package = package.rpartition(".")[0]
    return None


def read_exclusions(file: Path | None, device: str) -> list[Exclusion]:
    """The rows about one device.

    Args:
        file: The file; None reads as an empty one.
        device: Name of the device, without index.

    Raises:
        PluginError: The file cannot be read; says which row and why.
    """
    if file is None:
        return []
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise PluginError(f"{file} cannot be read: {error}") from error
    unknown = sorted(set(content) - {"excluded"})
    rows = content.get("excluded", [])
    if unknown or not isinstance(rows, list):
        raise PluginError(f"{file}: there is nothing but [[excluded]] in it, not {unknown or rows}")
    return list(_rows(file, rows, device))


def _rows(file: Path, rows: list[Any], device: str) -> Iterator[Exclusion]:
    for number, row in enumerate(rows, 1):
        place = f"{file}, row {number}"
        if not isinstance(row, Mapping) or not {"id", "kind", "reason"} <= set(row) <= _KEYS:
            raise PluginError(f"{place}: a row has id, kind, reason and perhaps device")
        identifiers = row["id"] if isinstance(row["id"], list) else [row["id"]]
        texts = [*identifiers, row["reason"], row.get("device", "-")]
        if not identifiers or not all(isinstance(t, str) and t.strip() for t in texts):
            raise PluginError(f"{place}: id, reason and device are texts, and not empty")
        if row["kind"] not in KINDS:
            raise PluginError(f"{place}: kind is one of {', '.join(KINDS)}, not {row['kind']!r}")
        if row.get("device", device).upper() == device.upper():
            for pattern in identifiers:
                yield Exclusion(pattern, row["kind"], row["reason"])
