"""The host's memory in aligned blocks. core keeps freed blocks for reuse, so none are kept here."""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import Any, Final

from core.plugin import Allocator, OpenDevice, OutOfMemoryError, UnsupportedError

_ALIGNMENT: Final = 64
_SMALLEST_MAPPING: Final = 1 << 16  # below, a whole page for each block would be a waste


class HostBlock:
    """Some bytes of the host's memory.

    Attributes:
        address: Of the first byte.
        memory: The bytes; keeps what they belong to alive.
    """

    __slots__ = ("address", "memory")

    def __init__(self, address: int, memory: memoryview) -> None:
        self.address, self.memory = address, memory

    @property
    def size(self) -> int:
        """Number of bytes."""
        return len(self.memory)


def host_memory() -> int:
    """Bytes of memory that the host has."""
    return _pages("SC_PHYS_PAGES")


def free_memory() -> int:
    """Bytes of memory that no process uses."""
    return _pages("SC_AVPHYS_PAGES")


def _pages(kind: str) -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf(kind)
    except (AttributeError, ValueError, OSError):
        return 1 << 32


class HostAllocator(Allocator):
    """Blocks of the host's memory."""

    def allocate(self, size_bytes: int) -> HostBlock:
        """A fresh block."""
        try:
            if size_bytes > host_memory():
                raise MemoryError
            return _new_block(size_bytes)
        except (MemoryError, OSError, ValueError, OverflowError) as error:
            message = (f"no room for {size_bytes} bytes: {free_memory()} of the host's "
                       f"{host_memory()} bytes are free")
            raise OutOfMemoryError(message, cure="free tensors, or use smaller ones") from error

    def free(self, block: HostBlock) -> None:
        """The memory goes with the last view of it."""

    def copy_in(self, block: HostBlock, offset: int, source: memoryview) -> None:
        """Copy from another part of the host's memory."""
        block.memory[offset:offset + source.nbytes] = source.cast("B")

    def copy_out(self, destination: memoryview, block: HostBlock, offset: int) -> None:
        """Copy to another part of the host's memory."""
        view = destination.cast("B")
        view[:] = block.memory[offset:offset + view.nbytes]

    def view(self, block: HostBlock, offset: int, size_bytes: int) -> HostBlock:
        """A part of a block."""
        return HostBlock(block.address + offset, block.memory[offset:offset + size_bytes])

    def map(self, block: Any, owner: OpenDevice) -> HostBlock:
        """Blocks of the host's memory are the host's, whichever device of this family has them."""
        if not isinstance(block, HostBlock):
            raise UnsupportedError(f"the memory of {owner.target.name} is not the host's")
        return block

    def host_view(self, block: HostBlock) -> memoryview:
        """The bytes themselves."""
        return block.memory


def _new_block(size: int) -> HostBlock:
    """A block whose first byte is aligned: a mapping of its own, or a part of a bytearray."""
    if size >= _SMALLEST_MAPPING:
        owner: Any = mmap.mmap(-1, size)
        skipped = 0
    else:
        owner = bytearray(size + _ALIGNMENT)
        skipped = -_address(owner) % _ALIGNMENT
    return HostBlock(_address(owner) + skipped, memoryview(owner)[skipped:skipped + size])


def _address(owner: Any) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(owner))
