"""The host's memory in aligned blocks, recycled by size.

A fresh block of 16 MB costs milliseconds of page faults when it is first written (9.5 against 0.7
for a recycled one), so what is freed is kept, up to a limit, for the next block of its size.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
from collections import OrderedDict
from typing import Any, Final

from core.plugin import Allocator, OpenDevice, OutOfMemoryError, UnsupportedError

_ALIGNMENT: Final = 64
_SMALLEST_MAPPING: Final = 1 << 16  # below, a whole page for each block would be a waste
_KEPT_SHARE: Final = 8  # at most this part of the host's memory is kept for reuse


class HostBlock:
    """Some bytes of the host's memory.

    Attributes:
        address: Of the first byte.
        size: In bytes.
        owner: The object whose memory this is.
    """

    __slots__ = ("address", "owner", "size")

    def __init__(self, address: int, size: int, owner: Any) -> None:
        self.address, self.size, self.owner = address, size, owner

    def bytes_view(self) -> memoryview:
        """The bytes themselves, writable; keeps the memory alive."""
        array = (ctypes.c_ubyte * self.size).from_address(self.address)
        array.owner = self.owner  # type: ignore[attr-defined]
        return memoryview(array).cast("B")


def host_memory() -> int:
    """Bytes of memory that the host has."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 1 << 32


class HostAllocator(Allocator):
    """Blocks of the host's memory.

    Args:
        kept_limit: Bytes of freed blocks to keep for reuse.
    """

    def __init__(self, kept_limit: int | None = None) -> None:
        self._limit = host_memory() // _KEPT_SHARE if kept_limit is None else kept_limit
        self._kept: OrderedDict[int, list[HostBlock]] = OrderedDict()
        self.kept_bytes = 0
        self._lock = threading.Lock()

    def allocate(self, size_bytes: int) -> HostBlock:
        """A block; the latest one freed of this size where there is one."""
        size = (size_bytes + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT
        with self._lock:
            same = self._kept.get(size)
            if same:
                self.kept_bytes -= size
                block = same.pop()
                if not same:
                    del self._kept[size]
                return block
        try:
            return _new_block(size)
        except (MemoryError, OSError, ValueError, OverflowError):
            self.trim(0)
        try:
            return _new_block(size)
        except (MemoryError, OSError, ValueError, OverflowError) as error:
            message = f"no room for {size_bytes} bytes; the host has {host_memory()} bytes in all"
            raise OutOfMemoryError(message, cure="free tensors, or use smaller ones") from error

    def free(self, block: HostBlock) -> None:
        """Keep the block for reuse; sizes not asked for longest go first when there are many."""
        if block.size > self._limit:
            return
        with self._lock:
            self._kept.setdefault(block.size, []).append(block)
            self._kept.move_to_end(block.size)
            self.kept_bytes += block.size
        if self.kept_bytes > self._limit:
            self.trim(self._limit)

    def trim(self, limit: int) -> None:
        """Give kept blocks back to the system until at most `limit` bytes are kept."""
        with self._lock:
            while self.kept_bytes > limit:
                size, blocks = next(iter(self._kept.items()))
                blocks.pop()
                self.kept_bytes -= size
                if not blocks:
                    del self._kept[size]

    def copy_in(self, block: HostBlock, offset: int, source: memoryview) -> None:
        """Copy from another part of the host's memory."""
        block.bytes_view()[offset:offset + source.nbytes] = source.cast("B")

    def copy_out(self, destination: memoryview, block: HostBlock, offset: int) -> None:
        """Copy to another part of the host's memory."""
        view = destination.cast("B")
        view[:] = block.bytes_view()[offset:offset + view.nbytes]

    def view(self, block: HostBlock, offset: int, size_bytes: int) -> HostBlock:
        """A part of a block."""
        return HostBlock(block.address + offset, size_bytes, block.owner)

    def map(self, block: Any, owner: OpenDevice) -> HostBlock:
        """Blocks of the host's memory are the host's, whichever device of this family has them."""
        if not isinstance(block, HostBlock):
            raise UnsupportedError(f"the memory of {owner.target.name} is not the host's")
        return block

    def host_view(self, block: HostBlock) -> memoryview:
        """The bytes themselves."""
        return block.bytes_view()


def _new_block(size: int) -> HostBlock:
    if size >= _SMALLEST_MAPPING:
        mapping = mmap.mmap(-1, size)
        return HostBlock(ctypes.addressof(ctypes.c_char.from_buffer(mapping)), size, mapping)
    array = ctypes.create_string_buffer(size + _ALIGNMENT)
    start = ctypes.addressof(array)
    return HostBlock(start + -start % _ALIGNMENT, size, array)
