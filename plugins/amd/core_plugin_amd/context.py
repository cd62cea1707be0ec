"""One OpenCL device: its context, its queue, what it can do, and its errors in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

import pyopencl as cl

from core.ir import DType, dtypes
from core.plugin import DeviceError, OpenDevice, OutOfMemoryError, Target
from core_plugin_amd import AMD_VENDOR, takes

Result = TypeVar("Result")
_EVERYWHERE: Final = frozenset({
    dtypes.bool, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64, dtypes.uint8,
    dtypes.uint16, dtypes.uint32, dtypes.uint64, dtypes.float32})
_MOST_GROUPS: Final = (1 << 31) - 1
#: AMD's cards have 64 KB for a work group; a processor says that it has all of its cache.
_MOST_SCRATCH: Final = 64 << 10


def in_words(error: Exception) -> str:
    """OpenCL's error without its stack of functions."""
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def devices_of(name: str) -> list[Any]:
    """The OpenCL devices that belong to AMD or to CL, in the order of their platforms."""
    try:
        platforms = cl.get_platforms()
    except cl.Error as error:
        raise DeviceError(f"OpenCL lists no platform: {in_words(error)}",
                          cure="install an OpenCL driver, such as pocl-opencl-icd") from error
    found = []
    for platform in platforms:
        try:
            found += [d for d in platform.get_devices() if takes(name, d.vendor_id)]
        except cl.Error:  # a platform without devices says so by an error
            continue
    return found


class OpenClDevice(OpenDevice):
    """An open OpenCL device.

    Args:
        name: AMD or CL.
        index: Which of its devices.

    Attributes:
        handle: OpenCL's device.
        context: Its context.
        queue: The queue of its kernels, in order.
        largest_buffer: Bytes of the largest buffer.
        memory_bytes: Bytes of its memory.
    """

    def __init__(self, name: str, index: int) -> None:
        found = devices_of(name)
        if index >= len(found):
            others = "" if found else f": no OpenCL device is {name}'s"
            raise DeviceError(f"there is no {name}:{index}, there are {len(found)}{others}",
                              cure="`core doctor` lists what drivers find")
        self.handle = found[index]
        self.context = cl.Context([self.handle])
        profiling = cl.command_queue_properties.PROFILING_ENABLE
        self.queue = cl.CommandQueue(self.context, self.handle, properties=profiling)
        self._built: WeakValueDictionary[bytes, Any] = WeakValueDictionary()
        self.largest_buffer = int(self.handle.max_mem_alloc_size)
        self.memory_bytes = int(self.handle.global_mem_size)
        self.target = self._target(name)

    def _target(self, name: str) -> Target:
        device = self.handle
        sizes = tuple(int(n) for n in device.max_work_item_sizes[:3])
        doubles = "cl_khr_fp64" in device.extensions.split()
        # PoCL's fma rounds twice (seen with 3.1: fma(-1.5, largest, inf) is NaN), so only AMD's
        # drivers are believed that theirs rounds once, as OpenCL demands.
        fused = device.vendor_id == AMD_VENDOR
        return Target(
            name=name,
            architecture=f"{device.name} {device.driver_version}",
            dtypes=_EVERYWHERE | ({dtypes.float64} if doubles else frozenset[DType]()),
            vector_bytes=min(32, max(16, 4 * int(device.native_vector_width_float))),
            vector_registers=32,
            cores=int(device.max_compute_units),
            has_local=True,
            local_is_fast=device.local_mem_type == cl.device_local_mem_type.LOCAL,
            scratch_bytes=min(int(device.local_mem_size), _MOST_SCRATCH),
            global_limit=(_MOST_GROUPS, _MOST_GROUPS, _MOST_GROUPS),
            local_limit=(sizes[0], sizes[1], sizes[2]),
            local_total=int(device.max_work_group_size),
            fma=fused,
            timestamps=True,
            asynchronous=True,
            thread_safe=False,
            launch_nanoseconds=10_000.0,
        )

    def built(self, code: bytes) -> Any:
        """The program of a driver's binary; several kernels may come with the same one."""
        found = self._built.get(code)
        if found is None:
            found = self._built[code] = cl.Program(self.context, [self.handle], [code]).build()
        return found

    def synchronize(self) -> None:
        """Wait for the queue."""
        self.checked(self.queue.finish)

    def close(self) -> None:
        """Wait; OpenCL's objects go with their last reference."""
        self.queue.finish()

    def checked(self, action: Callable[[], Result]) -> Result:
        """What an action gives.

        Raises:
            OutOfMemoryError: The device has no room.
            DeviceError: Anything else that OpenCL reports.
        """
        try:
            return action()
        except cl.MemoryError as error:
            raise OutOfMemoryError(f"{self.target.name}: {in_words(error)}") from error
        except cl.Error as error:
            raise DeviceError(f"{self.target.name}: {in_words(error)}") from error
