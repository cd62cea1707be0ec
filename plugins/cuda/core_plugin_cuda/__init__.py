"""NVIDIA's graphics processors as devices of core. This stub only describes them.

It asks the driver library with the standard library alone; a driver is never loaded twice.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from core.foundation.lazy_import import lazy_import
from core.plugin import Check, DeviceSpec, Probe, hookimpl

if TYPE_CHECKING:
    from importlib import metadata
else:  # 15 ms, for `core doctor` alone
    metadata = lazy_import("importlib.metadata")

#: Set to run kernels on the simulator of this package instead of a graphics processor.
SIMULATOR_VARIABLE: Final = "CORE_CUDA_SIMULATOR"
#: Oldest driver that cuda-bindings 13 and code of its compiler need, as cuDriverGetVersion counts.
OLDEST_DRIVER: Final = 13000
#: What this version says where there is a driver.
NOT_YET: Final = "this version of core-plugin-cuda runs kernels on its simulator only"
_LIBRARY: Final = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
_NO_DEVICE: Final = 100  # CUDA_ERROR_NO_DEVICE
_CURES: Final = {
    "library": f"install NVIDIA's driver, or set {SIMULATOR_VARIABLE}=1 to simulate a device",
    "device": "`nvidia-smi` should list the card; look at CUDA_VISIBLE_DEVICES",
    "driver": "install a driver of release 580 or later",
}


@hookimpl
def core_devices() -> Sequence[DeviceSpec]:
    """The default device wherever the driver has one."""
    return (DeviceSpec(name="CUDA", module="core_plugin_cuda.device", priority=300,
                       probe="core_plugin_cuda:probe"),)


def wants_simulator() -> bool:
    """Whether the simulator was asked for."""
    return os.environ.get(SIMULATOR_VARIABLE, "") not in ("", "0")


class DriverMissingError(Exception):
    """Why no graphics processor can be used; `missing` is a key of the cures."""

    def __init__(self, reason: str, missing: str) -> None:
        super().__init__(reason)
        self.missing = missing


def count_devices() -> tuple[int, int]:
    """(graphics processors of the driver, the CUDA version that it supports times 1000).

    Raises:
        DriverMissingError: There is no driver, no device, or the driver is too old.
    """
    try:
        library = ctypes.CDLL(_LIBRARY)
    except OSError as error:
        raise DriverMissingError(f"no driver library: {error}", "library") from error
    version, count = ctypes.c_int(0), ctypes.c_int(0)
    library.cuDriverGetVersion(ctypes.byref(version))
    status = library.cuInit(0)
    if status == _NO_DEVICE:
        raise DriverMissingError("the driver finds no device", "device")
    if status:
        raise DriverMissingError(f"the driver does not start: cuInit gives error {status}",
                                 "device")
    if version.value < OLDEST_DRIVER:
        raise DriverMissingError(
            f"the driver is too old: it supports CUDA {_spoken(version.value)}, "
            f"{_spoken(OLDEST_DRIVER)} is needed", "driver")
    library.cuDeviceGetCount(ctypes.byref(count))
    if not count.value:
        raise DriverMissingError("the driver finds no device", "device")
    return count.value, version.value


def _spoken(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"


def probe() -> Probe:
    """None that can be used yet: the simulator is no processor, and runs only when asked for."""
    try:
        count, version = count_devices()
    except DriverMissingError as error:
        return Probe(0, str(error))
    return Probe(0, f"{count} devices, driver for CUDA {_spoken(version)}, but {NOT_YET}")


@hookimpl
def core_checks(name: str) -> Sequence[Check]:
    """The packages, then the driver and its devices, or the simulator."""
    if name != "CUDA":
        return ()
    rows = [_check_package("cuda-bindings"), _check_package("nvidia-cuda-nvrtc")]
    if wants_simulator():
        return [*rows, Check("device", True, f"simulator, as {SIMULATOR_VARIABLE} asks for")]
    try:
        count, version = count_devices()
    except DriverMissingError as error:
        return [*rows, Check("driver", False, str(error), _CURES[error.missing])]
    return [*rows, Check("driver", True, f"CUDA {_spoken(version)}"),
            Check("devices", False, f"{count}, but {NOT_YET}", f"set {SIMULATOR_VARIABLE}=1")]


def cure_of(error: DriverMissingError) -> str:
    """What to do about it."""
    return _CURES[error.missing]


def _check_package(package: str) -> Check:
    try:
        return Check(package, True, metadata.version(package))
    except metadata.PackageNotFoundError:
        return Check(package, False, "not installed", f"pip install {package}")
