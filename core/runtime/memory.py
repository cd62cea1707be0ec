"""Blocks of device memory, recycled by size.

The first touch of a fresh 16 MB block costs 9.5 ms of page faults, a recycled one 0.7
(cpu-recipes.md 4): a freed block is kept for the next request of its size.
"""

from __future__ import annotations

from threading import RLock
from typing import Any, Final
from weakref import WeakKeyDictionary

from core.foundation.errors import OutOfMemoryError
from core.foundation.fork import survive_fork
from core.plugin.opening import OpenedDevice
from core.runtime.counters import GlobalCounters

_ALIGNMENT: Final = 64
# Bytes of free blocks that one device keeps; more go back to the allocator.
_LARGEST_CACHE: Final = 2 << 30
#: Held while blocks change hands; storage of BUFFERs is made and given back under it too.
lock: Final = survive_fork(RLock())


def rounded(size_bytes: int) -> int:
    """Size class of a request: multiples of 64 bytes."""
    return -(-max(size_bytes, 1) // _ALIGNMENT) * _ALIGNMENT


class BlockCache:
    """Memory of one device: free blocks by size."""

    def __init__(self, opened: OpenedDevice) -> None:
        self.allocator = opened.allocator
        self.name = opened.name
        self.free_blocks: dict[int, list[Any]] = {}
        self.cached_bytes = 0
        self.used_bytes = 0

    def allocate(self, size_bytes: int) -> Any:
        """A block of at least `size_bytes`; the cache is emptied before memory runs out.

        Raises:
            OutOfMemoryError: Even then there is no room; nothing else is lost.
        """
        size = rounded(size_bytes)
        with lock:
            blocks = self.free_blocks.get(size)
            if blocks:
                block = blocks.pop()
                self.cached_bytes -= size
            else:
                block = self._fresh(size)
            self.used_bytes += size
            GlobalCounters.mem_used += size
            GlobalCounters.mem_peak = max(GlobalCounters.mem_peak, GlobalCounters.mem_used)
        return block

    def _fresh(self, size: int) -> Any:
        try:
            return self.allocator.allocate(size)
        except MemoryError:
            self.trim()
        try:
            return self.allocator.allocate(size)
        except MemoryError as error:
            said = getattr(error, "message", str(error))
            limit = f"; the device says: {said}" if said else ""
            raise OutOfMemoryError(
                f"{self.name} has no room for {size} bytes: {self.used_bytes} bytes are in use by "
                f"tensors, and nothing is left to give back{limit}",
                cure="drop tensors that are not needed, or use smaller batches",
            ) from error

    def free(self, block: Any, size_bytes: int) -> None:
        """Keep a block for the next request of its size."""
        size = rounded(size_bytes)
        with lock:
            self.used_bytes -= size
            GlobalCounters.mem_used -= size
            if self.cached_bytes + size > _LARGEST_CACHE:
                self.allocator.free(block)
                return
            self.free_blocks.setdefault(size, []).append(block)
            self.cached_bytes += size

    def trim(self) -> None:
        """Give every free block back to the allocator."""
        with lock:
            for blocks in self.free_blocks.values():
                for block in blocks:
                    self.allocator.free(block)
            self.free_blocks.clear()
            self.cached_bytes = 0


_caches: WeakKeyDictionary[Any, BlockCache] = WeakKeyDictionary()


def block_cache(opened: OpenedDevice) -> BlockCache:
    """The cache of an open device; views with another renderer share it."""
    cache = _caches.get(opened.device)
    if cache is None:
        cache = _caches[opened.device] = BlockCache(opened)
    return cache
