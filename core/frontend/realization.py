"""The one place where the frontend meets what computes: storage in, values out.

Everything else in the frontend builds graphs. A running trace (`core.frontend.jit`) puts itself
between: what it is asked to realise it notes, and what would need a value it refuses.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Final, Protocol

from core.ir import DType, Op, UOp
from core.runtime import (
    Device,
    canonical,
    new_storage,
    read_bytes,
    storage_of_value,
    wrapped_storage,
    wraps_memory,
)
from core.runtime import host_view as buffer_view
from core.runtime import realize as run

#: The device that takes any memory of the host, whatever its alignment.
_HOST: Final = "REFERENCE"


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


def storage_of_memory(
    memory: memoryview, dtype: DType, shape: tuple[int, ...], device: str
) -> UOp:
    """Memory of the host that others own as a value on `device`.

    It is storage itself where the device's programs reach the memory; elsewhere the interpreter
    has it, and the device's copy is made by whatever uses the value.

    Args:
        memory: Bytes, row-major, in this machine's byte order; kept, and read when the
            value is computed with.
        dtype: Of the elements.
        shape: Dimensions; their product fits the bytes.
        device: Canonical name.
    """
    if device == _HOST or wraps_memory(device, memory, dtype):
        return wrapped_storage(device, dtype, shape, memory)
    return UOp(Op.COPY, (wrapped_storage(_HOST, dtype, shape, memory),), device)


def host_view(value: UOp) -> memoryview | None:
    """The bytes of storage where the host sees them; None where it does not, or not as they are.

    Args:
        value: What `realize` gave.
    """
    node = value
    while node.op is Op.RESHAPE:
        node = node.src[0]
    return buffer_view(node) if node.op is Op.BUFFER else None


def has_holes(value: UOp) -> bool:
    """Whether storage, as `realize` gives it, is a part of its buffer and not all of it."""
    node = value
    while node.op is Op.RESHAPE:
        node = node.src[0]
    return node.op is not Op.BUFFER


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
