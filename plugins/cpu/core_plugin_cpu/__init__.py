"""The host's processor as a device of core. This stub only describes it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from core.foundation.lazy_import import lazy_import
from core.plugin import Check, DeviceSpec, hookimpl

if TYPE_CHECKING:
    from importlib import metadata
else:  # 15 ms, for `core doctor` alone
    metadata = lazy_import("importlib.metadata")

_PROCESSORS = ("x86_64", "amd64", "aarch64", "arm64")


@hookimpl
def core_devices() -> Sequence[DeviceSpec]:
    """One device: all cores of the host."""
    return (DeviceSpec(name="CPU", module="core_plugin_cpu.device", priority=100),)


@hookimpl
def core_checks(name: str) -> Sequence[Check]:
    """The processor's family, and the compiler."""
    if name != "CPU":
        return ()
    processor = os.uname().machine
    known = processor.lower() in _PROCESSORS
    rows = [Check("processor", known, processor, "" if known else "needs x86-64 or AArch64")]
    try:
        rows.append(Check("llvmlite", True, metadata.version("llvmlite")))
    except metadata.PackageNotFoundError:
        rows.append(Check("llvmlite", False, "not installed", "pip install llvmlite"))
    return rows
