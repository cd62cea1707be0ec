"""The one place where the frontend meets what computes: storage in, values out.

Everything else in the frontend builds graphs. A running trace (`core.frontend.jit`) puts itself
between: what it is asked to realise it notes, and what would need a value it refuses.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Protocol

from core.ir import DType, Op, UOp
from core.runtime import (
    Device,
    canonical,
    new_storage,
    read_bytes,
    storage_of_value,
)
from core.runtime import realize as run


class Trace(Protocol):
    """What a running trace answers."""

    def realize(self, values: Sequence[UOp]) -> list[UOp]:
        """Note values as results of the trace."""

    def adopt(self, tensor: Any) -> None:
        """Take a tensor that was created just now for one that was there before."""

    def refuse_to_read(self) -> None:
        """Raise, because a value is wanted while nothing is computed."""


class _Running(threading.local):
    trace: Trace | None = None


running = _Running()


def default_device() -> str:
    """Name of the device that is used when none is named."""
    return Device.DEFAULT


def device_name(text: str) -> str:
    """The one spelling of a device's name; opens the device.

    Raises:
        DeviceError: There is no such device.
    """
    return canonical(text)


def computes(device: object) -> bool:
    """Whether a device computes values: NULL only plans."""
    return not str(device).startswith("NULL")


def storage_from_host(data: Any, dtype: DType, shape: tuple[int, ...], device: str) -> UOp:
    """A BUFFER on `device` that holds a copy of `data`: row-major bytes of `dtype`."""
    return new_storage(device, dtype, shape, data)


def realized(node: UOp) -> UOp | None:
    """The storage of a node that was realised before."""
    return storage_of_value(node)


def is_storage(value: UOp) -> bool:
    """Whether a value is storage, seen in another shape at most."""
    while value.op in (Op.RESHAPE, Op.SHRINK):
        value = value.src[0]
    return value.op is Op.BUFFER


def realize(values: Sequence[UOp]) -> list[UOp]:
    """Compute values; each is returned as storage of the same shape."""
    return run(values) if running.trace is None else running.trace.realize(values)


def read(value: UOp) -> memoryview:
    """The bytes of a value, row-major; a copy. Computes the value where needed."""
    if running.trace is not None:
        running.trace.refuse_to_read()
    return memoryview(read_bytes(value))
