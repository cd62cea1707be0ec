"""Which storage a BUFFER names, and which values were realised: two weak tables.

A BUFFER that dies appends its number to a queue; the next allocation gives its block back. No
work is done in the callback, which may run anywhere.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary, ref

from core.foundation.errors import UnsupportedError
from core.ir import DType, Op, UOp
from core.plugin.host_memory import address_of
from core.plugin.interfaces import offers
from core.plugin.opening import OpenedDevice
from core.runtime.device import open_device
from core.runtime.memory import BlockCache, block_cache, lock


class _BufferReference(ref[UOp]):
    """A weak reference that knows the number of its BUFFER."""

    __slots__ = ("number",)
    number: int


_dead: Final[deque[int]] = deque()


def _on_death(reference: ref[UOp]) -> None:
    assert isinstance(reference, _BufferReference)
    _dead.append(reference.number)


class Buffer:
    """Storage of one BUFFER: a block on a device, allocated when it is first written.

    Attributes:
        opened: The device.
        size_bytes: Bytes of the value.
        dtype: Of one element.
        block: The device's block, or None before the first write.
        is_wrapped: The block is memory that others own: never recycled.
    """

    __slots__ = ("_reference", "block", "cache", "dtype", "is_wrapped", "opened", "size_bytes")

    def __init__(self, node: UOp) -> None:
        self.opened: OpenedDevice = open_device(node.arg.device)
        self.cache: BlockCache = block_cache(self.opened)
        self.size_bytes = node.size_bytes
        self.dtype: DType = node.dtype
        self.block: Any = None
        self.is_wrapped = False
        self._reference = _BufferReference(node, _on_death)
        self._reference.number = node.arg.slot

    def allocated(self) -> Any:
        """The block, allocated now if it was not before."""
        if self.block is None:
            with lock:
                if self.block is None:
                    self.block = self.cache.allocate(self.size_bytes)
        return self.block

    def release(self) -> None:
        """Give the block back."""
        if self.block is not None:
            if not self.is_wrapped:
                self.cache.free(self.block, self.size_bytes)
            self.block = None


_buffers: Final[dict[int, Buffer]] = {}
_realized: Final[WeakKeyDictionary[UOp, UOp]] = WeakKeyDictionary()
# Of values without data: their nodes live as long as any program that computes with them.
_realized_constants: Final[WeakKeyDictionary[UOp, ref[UOp]]] = WeakKeyDictionary()


def drain() -> None:
    """Give the blocks of dead BUFFERs back."""
    if not _dead:
        return
    with lock:
        while _dead:
            buffer = _buffers.pop(_dead.popleft(), None)
            if buffer is not None:
                buffer.release()


def buffer_of(node: UOp) -> Buffer:
    """The storage of a BUFFER."""
    found = _buffers.get(node.arg.slot)
    if found is not None:
        return found
    drain()
    if isinstance(node.arg.device, tuple):
        raise UnsupportedError("storage on several devices is not supported yet")
    with lock:
        found = _buffers.get(node.arg.slot)
        if found is None:
            found = _buffers[node.arg.slot] = Buffer(node)
    return found


def storage_of_value(node: UOp) -> UOp | None:
    """Storage in which a value was realised before, of the value's shape; None if it was not."""
    found = _realized.get(node)
    if found is None:
        constant = _realized_constants.get(node)
        found = None if constant is None else constant()
    return found


def remember(value: UOp, storage: UOp, is_constant: bool = False) -> None:
    """Note that a value is realised in some storage.

    Args:
        value: Its node; while that lives, so does the storage.
        storage: Where it is.
        is_constant: The value depends on no data: it keeps no storage alive.
    """
    if is_constant:
        _realized_constants[value] = ref(storage)
    elif value is not storage:
        _realized[value] = storage


def new_storage(
    device: str, dtype: DType, shape: Sequence[int], data: Any = None
) -> UOp:
    """A fresh BUFFER, filled from host bytes where given.

    Args:
        device: Canonical name.
        dtype: Of the elements.
        shape: Dimensions.
        data: Bytes-like object of exactly the value's size, or None: content undefined.

    Raises:
        OutOfMemoryError: No room.
    """
    node = UOp.new_buffer(device, dtype, tuple(shape))
    buffer = buffer_of(node)
    if buffer.size_bytes and data is not None:
        view = memoryview(data).cast("B")
        if len(view) != buffer.size_bytes:
            raise ValueError(f"{len(view)} bytes for a value of {buffer.size_bytes}")
        buffer.cache.allocator.copy_in(buffer.allocated(), 0, view)
    return node


def wraps_memory(device: str, memory: memoryview, dtype: DType) -> bool:
    """Whether a device can use some memory of the host as it is."""
    aligned = not len(memory) or address_of(memory) % dtype.itemsize == 0
    return aligned and offers(open_device(device).allocator, "wrap")


def wrapped_storage(
    device: str, dtype: DType, shape: Sequence[int], memory: memoryview
) -> UOp:
    """A BUFFER that is memory which others own, not a copy; `wraps_memory` said that it can be.

    Args:
        device: Canonical name.
        dtype: Of the elements.
        shape: Dimensions.
        memory: Bytes, exactly the value's; kept while the BUFFER lives.
    """
    node = UOp.new_buffer(device, dtype, tuple(shape))
    buffer = buffer_of(node)
    if len(memory) != buffer.size_bytes:
        raise ValueError(f"{len(memory)} bytes for a value of {buffer.size_bytes}")
    if buffer.size_bytes:
        buffer.block, buffer.is_wrapped = buffer.cache.allocator.wrap(memory), True
    return node


def host_view(node: UOp) -> memoryview | None:
    """The bytes of a BUFFER where the host sees them, all launches done; else None."""
    buffer = buffer_of(node)
    if not offers(buffer.cache.allocator, "host_view"):
        return None
    if not buffer.size_bytes:
        return memoryview(b"")
    buffer.opened.device.synchronize()
    return buffer.cache.allocator.host_view(buffer.allocated())[:buffer.size_bytes]


def buffer_count() -> int:
    """Number of BUFFERs with storage."""
    drain()
    return len(_buffers)


def root_buffer(node: UOp) -> UOp:
    """The BUFFER below RESHAPEs and SHRINKs."""
    while node.op in (Op.RESHAPE, Op.SHRINK):
        node = node.src[0]
    return node
