"""The host's processor as a device of core. This stub only describes it."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from platform import machine

from core.plugin import Check, DeviceSpec, hookimpl

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
    processor = machine()
    known = processor.lower() in _PROCESSORS
    rows = [Check("processor", known, processor, "" if known else "needs x86-64 or AArch64")]
    try:
        rows.append(Check("llvmlite", True, version("llvmlite")))
    except PackageNotFoundError:
        rows.append(Check("llvmlite", False, "not installed", "pip install llvmlite"))
    return rows
