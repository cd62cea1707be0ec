"""The host's memory in aligned blocks. core keeps freed blocks for reuse, so none are kept here."""

from __future__ import annotations

import os
from typing import Any, Final

from core.plugin import Allocator, OpenDevice, OutOfMemoryError, UnsupportedError
from core.plugin.host_memory import HostMemory, address_of

_MEMORY: Final = HostMemory()


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
            memory = _MEMORY.allocate(size_bytes)
        except MemoryError as error:
            message = (f"no room for {size_bytes} bytes: {free_memory()} of the host's "
                       f"{host_memory()} bytes are free")
            raise OutOfMemoryError(message, cure="free tensors, or use smaller ones") from error
        return HostBlock(address_of(memory), memory)

    def free(self, block: HostBlock) -> None:
        """The memory goes with the last view of it."""

    def copy_in(self, block: HostBlock, offset: int, source: memoryview) -> None:
        """Copy from another part of the host's memory."""
        _MEMORY.copy_in(block.memory, offset, source)

    def copy_out(self, destination: memoryview, block: HostBlock, offset: int) -> None:
        """Copy to another part of the host's memory."""
        _MEMORY.copy_out(destination, block.memory, offset)

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

    def wrap(self, memory: memoryview) -> HostBlock:
        """Any of the host's memory is a block."""
        return HostBlock(address_of(memory), memory)
