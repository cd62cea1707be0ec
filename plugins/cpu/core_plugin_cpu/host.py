"""What the host's processor is: cores, caches, vector registers."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Final

from core.foundation.settings import settings
from core.plugin import Target
from core.toolchain import Machine, target_of

_CACHES: Final = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS: Final = {"K": 1024, "M": 1024 * 1024, "G": 1024 * 1024 * 1024}


def usable_cores() -> int:
    """Threads to run kernels on: the setting THREADS, else the cores this process may use."""
    if settings.THREADS:
        return int(settings.THREADS)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def data_caches(folder: Path = _CACHES) -> dict[int, int]:
    """Level → bytes of the caches that hold data, as Linux tells; empty elsewhere."""
    found = {}
    for entry in folder.glob("index*"):
        try:
            level, kind, size = (
                (entry / name).read_text(encoding="ascii").strip()
                for name in ("level", "type", "size"))
        except OSError:
            continue
        if kind != "Instruction":
            unit = _UNITS.get(size[-1:], 0)
            found[int(level)] = int(size[:-1]) * unit if unit else int(size)
    return found


def host_target(machine: Machine) -> Target:
    """The host as the compiler sees it."""
    target, caches = target_of(machine, cores=usable_cores()), data_caches()
    return replace(
        target,
        l1_bytes=caches.get(1, target.l1_bytes),
        l2_bytes=caches.get(2, target.l2_bytes),
    )
