"""Which plugins are installed: names only, read from their metadata, without running any of them.

`importlib.metadata` costs 30 ms to import and does not cache; scanning the folders on `sys.path`
for ``*.dist-info/entry_points.txt`` takes about 2 ms with 200 distributions.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from core.foundation.lazy_import import load

#: Entry-point groups; the plugin API's major number follows.
DEVICE_GROUP: Final = "core.plugins.v"
EXTENSION_GROUP: Final = "core.extensions.v"
#: Read at a time: a larger buffer costs more to make than the file to read.
_CHUNK_BYTES: Final = 1 << 16
#: Devices that core itself brings, by module; they pass through the same door as plugins.
BUILT_IN: Final = {"REFERENCE": "core.reference.stub", "NULL": "core.reference.stub"}


@dataclass(frozen=True, kw_only=True)
class Offer:
    """One entry point: a distribution offers a device or an extension under a name.

    Args:
        name: Name of the device or extension, in capitals.
        module: The stub's module.
        group: Entry-point group without the major number.
        major: Major number of the plugin API that the group's name ends with.
        distribution: Name of the distribution, as in its folder's name, with dashes.
        version: Its version.
        metadata: Path of its METADATA; empty when it is not an installed distribution.
    """

    name: str
    module: str
    group: str = DEVICE_GROUP
    major: int = 1
    distribution: str = "core"
    version: str = ""
    metadata: str = ""

    @property
    def source(self) -> str:
        """Distribution and version in words."""
        return f"{self.distribution} {self.version}".strip()

    @property
    def way_out(self) -> str:
        """What to do when it fails."""
        return (f"repair, upgrade or uninstall {self.distribution}, "
                f"or set CORE_DEVICES=-{self.name.lower()}")

    def requirement_on_core(self) -> str:
        """What the distribution's own metadata asks of core (``core>=0.3``); empty if nothing."""
        try:
            with open(self.metadata, encoding="utf-8", errors="replace") as file:
                text = file.read()
        except OSError:
            return ""
        wanted = re.search(r"^Requires-Dist: *(core *[^\w\s\-;\[][^;\n]*)", text, re.MULTILINE)
        return wanted[1].strip() if wanted else ""


def normalized(distribution: str) -> str:
    """A distribution's name the way that installers compare names."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def scan(path: Sequence[str] | None = None) -> list[Offer]:
    """Every offer of every distribution on the path, ordered by name, then distribution.

    Args:
        path: Folders to look into; `sys.path` when None.

    The first folder that holds a distribution wins, as it does for imports.
    """
    offers: list[Offer] = []
    seen: set[str] = set()
    for folder in dict.fromkeys(sys.path if path is None else path):
        here: set[str] = set()
        for name in _distributions(folder or os.curdir):
            # Most distributions have nothing for us, so they are compared by the folder's name as
            # it stands: installers have normalized it.
            key = name.partition("-")[0].lower()
            here.add(key)
            if key not in seen:
                offers.extend(_offers(f"{folder or os.curdir}/{name}"))
        seen |= here
    return sorted(offers, key=lambda offer: (offer.name, offer.distribution, offer.module))


def _distributions(folder: str) -> list[str]:
    """Names of the metadata folders in `folder`; none when it cannot be listed."""
    try:
        return [name for name in os.listdir(folder) if name.endswith((".dist-info", ".egg-info"))]
    except OSError:
        return []


def _name_and_version(information: str) -> tuple[str, str]:
    """Name and version out of ``core_plugin_cpu-0.1.0.dist-info``."""
    stem = os.path.basename(information).rsplit(".", 1)[0]
    match = re.match(r"(.+?)-(\d[^-]*)(?:-py\d.*)?$", stem)
    return (normalized(match[1]), match[2]) if match else (normalized(stem), "")


def _offers(information: str) -> Iterator[Offer]:
    """The offers of one distribution."""
    try:
        content = _read(f"{information}/entry_points.txt")
    except OSError:
        return
    if b"[core.plugins.v" not in content and b"[core.extensions.v" not in content:
        return
    distribution, version = _name_and_version(information)
    kind = "PKG-INFO" if information.endswith(".egg-info") else "METADATA"
    for group, major, name, module in _entries(content.decode("utf-8", "replace").splitlines()):
        yield Offer(
            name=name.upper(),
            module=module,
            group=group,
            major=major,
            distribution=distribution,
            version=version,
            metadata=os.path.join(information, kind),
        )


def _read(path: str) -> bytes:
    """A file's content; os.read takes half the time of open(), and this is most of the scan."""
    handle = os.open(path, os.O_RDONLY)
    try:
        content = chunk = os.read(handle, _CHUNK_BYTES)
        while len(chunk) == _CHUNK_BYTES:
            chunk = os.read(handle, _CHUNK_BYTES)
            content += chunk
        return content
    finally:
        os.close(handle)


def _entries(lines: Iterable[str]) -> Iterator[tuple[str, int, str, str]]:
    """(group, major, name, module) of the entries in core's groups."""
    section: tuple[str, int] | None = None
    for line in (line.strip() for line in lines):
        if line.startswith("["):
            match = re.fullmatch(r"\[(core\.(?:plugins|extensions)\.v)(\d+)\]", line)
            section = (match[1], int(match[2])) if match else None
        elif section is not None and "=" in line and not line.startswith(("#", ";")):
            name, _, module = line.partition("=")
            # An entry may say "module:attribute [extra]"; a stub is a module.
            yield *section, name.strip(), module.split("[")[0].partition(":")[0].strip()


def built_in_offers() -> list[Offer]:
    """The devices that core brings."""
    version = load("core:__version__")
    return [Offer(name=name, module=module, version=version) for name, module in BUILT_IN.items()]


@dataclass(frozen=True)
class AllowList:
    """The setting DEVICES: ``cpu,amd`` allows only these, ``-amd`` all but this one.

    The names are those of entry points, so no plugin code runs to apply it. Devices that core
    brings are always allowed.
    """

    allowed: frozenset[str]
    denied: frozenset[str]

    @classmethod
    def parse(cls, text: str) -> AllowList:
        """Read the setting's value."""
        names = [name.strip().upper() for name in text.split(",") if name.strip()]
        denied = frozenset(name[1:].strip() for name in names if name.startswith("-"))
        return cls(frozenset(name for name in names if not name.startswith("-")), denied)

    def permits(self, name: str) -> bool:
        """Whether the device or extension `name` may be used."""
        if name in BUILT_IN:
            return True
        return name not in self.denied and (not self.allowed or name in self.allowed)
