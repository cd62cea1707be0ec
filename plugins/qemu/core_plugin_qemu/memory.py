"""Memory of an emulated processor: a file in memory that both sides map, and its allocator.

The file is mapped in arenas, one behind the other; when the blocks no longer fit, another one is
added (an emulator keeps notes about every page it maps, so mapping as much as the host has from
the start would take a while). The first arena begins with control words, rows of batches and code.
The bytes of a block are given to the file when it is allocated (`posix_fallocate`), so that a
system without room says so there: a page that cannot be had at its first touch would kill the
process.
"""

from __future__ import annotations

import errno
import mmap
import os
import threading
from collections.abc import Callable
from typing import Final, NamedTuple

from core.foundation.offset_allocator import OffsetAllocator
from core.plugin import Allocator, DeviceError, OutOfMemoryError

#: What both sides may map apart: Hexagon's pages are the largest.
PAGE_BYTES: Final = 64 * 1024
ROWS_BYTES: Final = 4 << 20
#: Where the server writes which row it runs.
PROGRESS_AT: Final = 0
ROWS_AT: Final = PAGE_BYTES
CODE_AT: Final = ROWS_AT + ROWS_BYTES
_ARENA_BYTES: Final = 512 << 20
_SMALLEST_GIVEN_BACK: Final = 1 << 20


class Arena:
    """A part of the file, mapped by this process.

    Attributes:
        number: Of the arena.
        start: Its first byte in the file.
        size: Its bytes; those that nobody allocated take no room.
        bytes: All of them.

    Args:
        number: Of the arena.
        descriptor: Of the file.
        start: Where it begins.
        size: Number of bytes, a multiple of `PAGE_BYTES`.
        reserved: Bytes at its beginning that are not for blocks.
    """

    def __init__(
        self, number: int, descriptor: int, start: int, size: int, reserved: int = 0
    ) -> None:
        self.number, self.start, self.size = number, start, size
        self._descriptor, self._reserved = descriptor, reserved
        os.ftruncate(descriptor, start + size)
        self._mapping = mmap.mmap(descriptor, size, offset=start)
        self.bytes = memoryview(self._mapping)
        self._offsets = OffsetAllocator(size - reserved)

    def provide(self, offset: int, size: int) -> None:
        """Give bytes to the file.

        Raises:
            OutOfMemoryError: The system has none.
        """
        try:
            os.posix_fallocate(self._descriptor, self.start + offset, size)
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.ENOMEM)
            why = "shared memory is full" if full else os.strerror(error.errno or 0)
            raise OutOfMemoryError(
                f"no room for {size} bytes: {why}",
                cure="free tensors, or raise the limit of shared memory of the system or "
                     "container") from error

    def allocate(self, size: int) -> int:
        """Offset in the arena of a block of bytes that are there.

        Raises:
            OutOfMemoryError: The arena or the system has no room.
        """
        at = self._offsets.allocate(size)
        try:
            self.provide(self._reserved + at, size)
        except OutOfMemoryError:
            self._offsets.free(at)
            raise
        return self._reserved + at

    def free(self, offset: int, size: int) -> None:
        """Give a block back; a large one to the system."""
        self._offsets.free(offset - self._reserved)
        first = -(-offset // PAGE_BYTES) * PAGE_BYTES
        whole = (offset + size - first) // PAGE_BYTES * PAGE_BYTES
        if whole >= _SMALLEST_GIVEN_BACK:
            self._mapping.madvise(mmap.MADV_REMOVE, first, whole)


class Block(NamedTuple):
    """Some bytes of an arena.

    Attributes:
        arena: Where they lie.
        offset: Of the first byte in the arena.
        size: Number of bytes.
    """

    arena: Arena
    offset: int
    size: int


class SharedMemory:
    """The file with its arenas.

    Attributes:
        descriptor: Of the file; the emulator inherits it.
        arenas: Parts that are mapped.
        code_end: First byte behind the room for code, in the first arena.
        lock: Held while anything of the device changes.
        map_arena: What the emulator does about a new arena.

    Args:
        largest: What the emulated processor can map, in bytes.
        code_bytes: Bytes for code.

    Raises:
        DeviceError: The system gives no such file.
    """

    def __init__(self, largest: int, code_bytes: int) -> None:
        self.lock = threading.RLock()
        self.map_arena: Callable[[Arena], None] | None = None
        host = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        self._limit = min(largest, host)
        self._code_at = CODE_AT
        self.code_end = CODE_AT + code_bytes
        try:
            self.descriptor = os.memfd_create("core-qemu")
        except (AttributeError, OSError) as error:
            raise DeviceError(f"no file in shared memory: {error}") from error
        try:
            first = Arena(0, self.descriptor, 0, _ARENA_BYTES, self.code_end)
            first.provide(0, CODE_AT)
        except (OSError, ValueError, OutOfMemoryError) as error:
            os.close(self.descriptor)
            raise DeviceError(
                f"no shared memory of {_ARENA_BYTES} bytes: {error}",
                cure="free memory, or raise the limits of the process or container") from error
        self.arenas = [first]
        self.bytes = first.bytes

    def allocate(self, size: int) -> Block:
        """A block of bytes that are there.

        Raises:
            OutOfMemoryError: The file or the system has no room.
        """
        with self.lock:
            for arena in self.arenas:
                try:
                    return Block(arena, arena.allocate(size), size)
                except OutOfMemoryError as error:
                    if error.cure:  # the system's, no other arena helps
                        raise
            return Block(arena := self._grow(size), arena.allocate(size), size)

    def _grow(self, size: int) -> Arena:
        """One more arena, with room for a block of `size` bytes."""
        last = self.arenas[-1]
        start = last.start + last.size
        wanted = max(_ARENA_BYTES, -(-size // PAGE_BYTES) * PAGE_BYTES)
        if start + wanted > self._limit:
            raise OutOfMemoryError(
                f"no room for {size} bytes: {start} of the {self._limit} bytes that the emulated "
                "processor can have are taken")
        try:
            arena = Arena(len(self.arenas), self.descriptor, start, wanted)
            if self.map_arena is not None:
                self.map_arena(arena)
        except (OSError, ValueError, DeviceError) as error:
            raise OutOfMemoryError(f"no room for {size} bytes: {error}") from error
        self.arenas.append(arena)
        return arena

    def free(self, block: Block) -> None:
        """Give a block back."""
        with self.lock:
            block.arena.free(block.offset, block.size)

    def allocate_code(self, size: int) -> int:
        """Where in the first arena a kernel of some bytes goes; it stays there.

        A place is used once: the emulator keeps what it translated, and does not notice when this
        process writes other code there.

        Raises:
            OutOfMemoryError: No room is left for code.
        """
        with self.lock:
            start = self._code_at
            if start + size > self.code_end:
                raise OutOfMemoryError(
                    f"no room for {size} bytes of code: kernels fill the "
                    f"{self.code_end - CODE_AT} bytes that there are")
            self.arenas[0].provide(start, size)
            self._code_at = -(-(start + size) // 64) * 64
        return start

    def close(self) -> None:
        """Close the file; what somebody still looks at stays valid."""
        os.close(self.descriptor)


class SharedAllocator(Allocator):
    """Blocks of the file, which the host sees as the emulated processor does.

    Args:
        memory: The file.
        synchronize: Returns when all launches are done.
    """

    def __init__(self, memory: SharedMemory, synchronize: Callable[[], None]) -> None:
        self._memory, self._synchronize = memory, synchronize

    def allocate(self, size_bytes: int) -> Block:
        """A fresh block."""
        return self._memory.allocate(size_bytes)

    def free(self, block: Block) -> None:
        """Give it back."""
        self._memory.free(block)

    def copy_in(self, block: Block, offset: int, source: memoryview) -> None:
        """Write bytes, after the launches made before."""
        self._synchronize()
        start = block.offset + offset
        block.arena.bytes[start:start + source.nbytes] = source.cast("B")

    def copy_out(self, destination: memoryview, block: Block, offset: int) -> None:
        """Read bytes, after the launches made before."""
        self._synchronize()
        view = destination.cast("B")
        start = block.offset + offset
        view[:] = block.arena.bytes[start:start + view.nbytes]

    def view(self, block: Block, offset: int, size_bytes: int) -> Block:
        """A part of a block."""
        return Block(block.arena, block.offset + offset, size_bytes)

    def host_view(self, block: Block) -> memoryview:
        """The bytes themselves."""
        return block.arena.bytes[block.offset:block.offset + block.size]
