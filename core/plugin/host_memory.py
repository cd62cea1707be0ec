"""An allocator for devices whose programs run in this process: a block is memory of the host.

Not part of `core.plugin` itself, which stubs import: ctypes and mmap take a while to load.
"""

from __future__ import annotations

import ctypes
import mmap
from typing import Any, Final

from core.foundation.errors import OutOfMemoryError
from core.foundation.lazy_import import lazy_import
from core.plugin.interfaces import Allocator

np: Any = lazy_import("numpy")

_ALIGNMENT: Final = 64
_SMALLEST_MAPPING: Final = 1 << 16  # below, a whole page for each block would be a waste


def address_of(block: Any) -> int:
    """Address of the first byte of a block, or of any other buffer."""
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(block))
    except TypeError:  # ctypes refuses what is read-only, such as a mapped file
        return int(np.frombuffer(block, np.uint8).ctypes.data)


class HostMemory(Allocator):
    """Blocks are writable memoryviews of bytes, aligned to 64; `address_of` says where they are."""

    def allocate(self, size_bytes: int) -> memoryview:
        """A fresh block; large ones take pages of their own, which cost nothing until used."""
        try:
            memory: Any = (mmap.mmap(-1, size_bytes) if size_bytes >= _SMALLEST_MAPPING
                           else bytearray(size_bytes + _ALIGNMENT))
        except (MemoryError, OSError, ValueError, OverflowError) as error:
            raise OutOfMemoryError(f"the host has no room for {size_bytes} bytes") from error
        start = -address_of(memory) % _ALIGNMENT
        return memoryview(memory)[start:start + size_bytes]

    def free(self, block: memoryview) -> None:
        """The memory goes with the last view of it."""

    def copy_in(self, block: memoryview, offset: int, source: memoryview) -> None:
        """Copy from another part of the host's memory."""
        block[offset:offset + source.nbytes] = source.cast("B")

    def copy_out(self, destination: memoryview, block: memoryview, offset: int) -> None:
        """Copy to another part of the host's memory."""
        view = destination.cast("B")
        view[:] = block[offset:offset + view.nbytes]

    def view(self, block: memoryview, offset: int, size_bytes: int) -> memoryview:
        """A part of a block."""
        return block[offset:offset + size_bytes]

    def host_view(self, block: memoryview) -> memoryview:
        """The block itself."""
        return block

    def wrap(self, memory: memoryview) -> memoryview:
        """The memory itself."""
        return memory
