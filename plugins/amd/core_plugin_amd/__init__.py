"""OpenCL devices as devices of core: AMD's, and those of others. This stub only describes them."""

from __future__ import annotations

import ctypes
import ctypes.util
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from core.foundation.lazy_import import lazy_import
from core.plugin import Check, DeviceSpec, Probe, hookimpl

if TYPE_CHECKING:
    from importlib import metadata
else:  # 15 ms, for `core doctor` alone
    metadata = lazy_import("importlib.metadata")

#: Vendor number of AMD, as PCI and OpenCL have it.
AMD_VENDOR: Final = 0x1002
#: Set to let AMD take any OpenCL device.
ANY_VARIABLE: Final = "CORE_AMD_ANY_OPENCL"
_ALL_DEVICES: Final = 0xFFFFFFFF  # CL_DEVICE_TYPE_ALL
_VENDOR: Final = 0x1001  # CL_DEVICE_VENDOR_ID
_CURE: Final = "install an OpenCL driver: ROCm's for AMD cards, or pocl-opencl-icd to try it out"


@hookimpl
def core_devices() -> Sequence[DeviceSpec]:
    """AMD's devices are a default where there are any; others only when asked for."""
    return (
        DeviceSpec(name="AMD", module="core_plugin_amd.device", priority=200,
                   probe="core_plugin_amd:probe"),
        DeviceSpec(name="CL", module="core_plugin_amd.device"),
    )


def takes(name: str, vendor: int) -> bool:
    """Whether an OpenCL device of a vendor belongs to the device `name` of core."""
    if name == "AMD":
        return vendor == AMD_VENDOR or os.environ.get(ANY_VARIABLE, "") not in ("", "0")
    return vendor != AMD_VENDOR


def probe() -> Probe:
    """How many devices AMD has; asks the OpenCL loader, with the standard library alone."""
    try:
        vendors = _vendors()
    except OSError as error:
        return Probe(0, f"no OpenCL loader: {error}")
    found = sum(takes("AMD", vendor) for vendor in vendors)
    return Probe(found, f"{found} of {len(vendors)} OpenCL devices are AMD's")


def _vendors() -> list[int]:
    """Vendor of every OpenCL device.

    Raises:
        OSError: There is no OpenCL loader.
    """
    library = ctypes.CDLL(ctypes.util.find_library("OpenCL") or "libOpenCL.so.1")
    found: list[int] = []
    for platform in _handles(library.clGetPlatformIDs):
        for device in _handles(lambda *a, p=platform: library.clGetDeviceIDs(
                ctypes.c_void_p(p), ctypes.c_uint64(_ALL_DEVICES), *a)):
            vendor = ctypes.c_uint(0)
            library.clGetDeviceInfo(
                ctypes.c_void_p(device), _VENDOR, ctypes.c_size_t(4), ctypes.byref(vendor), None)
            found.append(vendor.value)
    return found


def _handles(ask: object) -> list[int]:
    """The handles that one of OpenCL's listing functions gives; none where it fails."""
    count = ctypes.c_uint(0)
    if ask(0, None, ctypes.byref(count)) or not count.value:  # type: ignore[operator]
        return []
    handles = (ctypes.c_void_p * count.value)()
    ask(count.value, handles, None)  # type: ignore[operator]
    return [h for h in handles if h]


@hookimpl
def core_checks(name: str) -> Sequence[Check]:
    """The library, the loader and the devices of its drivers."""
    if name not in ("AMD", "CL"):
        return ()
    try:
        rows = [Check("pyopencl", True, metadata.version("pyopencl"))]
    except metadata.PackageNotFoundError:
        rows = [Check("pyopencl", False, "not installed", "pip install pyopencl")]
    try:
        vendors = _vendors()
    except OSError as error:
        return [*rows, Check("OpenCL loader", False, str(error), "install ocl-icd-libopencl1")]
    mine = sum(takes(name, vendor) for vendor in vendors)
    return [*rows, Check("OpenCL loader", True, f"{len(vendors)} devices"),
            Check(f"devices of {name}", bool(mine), f"{mine} of {len(vendors)}",
                  "" if mine else _CURE)]
