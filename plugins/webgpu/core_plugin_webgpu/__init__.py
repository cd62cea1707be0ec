"""Graphics processors through WebGPU as devices of core. This stub only describes them."""

from __future__ import annotations

import ctypes.util
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from core.foundation.lazy_import import lazy_import
from core.plugin import Check, DeviceSpec, Probe, hookimpl

if TYPE_CHECKING:
    from importlib import metadata
else:  # 15 ms, for `core doctor` alone
    metadata = lazy_import("importlib.metadata")

_DRIVER_FOLDERS = ("/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d", "/usr/local/share/vulkan/icd.d")
_DRIVER_CURE = "install the Vulkan driver of the graphics card, or mesa-vulkan-drivers"


@hookimpl
def core_devices() -> Sequence[DeviceSpec]:
    """The adapters that wgpu finds, by index; used only when asked for."""
    return (DeviceSpec(name="WEBGPU", module="core_plugin_webgpu.device", priority=0,
                       probe="core_plugin_webgpu:probe"),)


def probe() -> Probe:
    """Whether there is a driver of the system's graphics interface; none is loaded."""
    if not sys.platform.startswith("linux"):
        return Probe(1, f"the graphics interface of {sys.platform}")
    drivers = _drivers()
    if not drivers:
        return Probe(0, "no Vulkan driver is described in /usr/share/vulkan/icd.d")
    return Probe(1, f"{len(drivers)} Vulkan drivers are installed")


def _drivers() -> list[str]:
    return sorted(str(p) for folder in _DRIVER_FOLDERS for p in Path(folder).glob("*.json"))


@hookimpl
def core_checks(name: str) -> Sequence[Check]:
    """The library, the loader of drivers, and the drivers."""
    if name != "WEBGPU":
        return ()
    try:
        rows = [Check("wgpu", True, metadata.version("wgpu"))]
    except metadata.PackageNotFoundError:
        rows = [Check("wgpu", False, "not installed", "pip install wgpu")]
    if sys.platform.startswith("linux"):
        loader = ctypes.util.find_library("vulkan")
        rows.append(Check("Vulkan loader", bool(loader), loader or "no libvulkan.so.1",
                          "" if loader else "install libvulkan1"))
        drivers = _drivers()
        rows.append(Check("Vulkan drivers", bool(drivers), f"{len(drivers)} installed",
                          "" if drivers else _DRIVER_CURE))
    return rows
