"""Offsets inside of one arena: which bytes are free, the smallest hole first, neighbours merged.

The memory planner lays the buffers of a schedule out with it, and devices that hand out one big
block can use it for their own. It knows offsets only and holds no memory.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final

from core.foundation.errors import OutOfMemoryError

#: Blocks start at multiples of this, so that any vector load is aligned.
ALIGNMENT: Final = 64


class OffsetAllocator:
    """Hands out offsets in an arena of `capacity_bytes`, or in one that grows without limit.

    Args:
        capacity_bytes: Size of the arena; None: it grows, and `high_water_bytes` says how large
            it has to be.
        alignment: Every offset is a multiple of this many bytes.
    """

    def __init__(self, capacity_bytes: int | None = None, alignment: int = ALIGNMENT) -> None:
        self._capacity = capacity_bytes
        self._alignment = alignment
        # Free blocks below the end, as parallel lists ordered by offset; never adjacent.
        self._starts: list[int] = []
        self._sizes: list[int] = []
        self._end = 0
        self._used: dict[int, int] = {}
        #: Largest end of any block so far, in bytes.
        self.high_water_bytes = 0

    @property
    def used_bytes(self) -> int:
        """Bytes in use, rounded up to the alignment block by block."""
        return sum(self._used.values())

    def allocate(self, size_bytes: int) -> int:
        """Offset of `size_bytes` free bytes: the smallest hole that fits, else the end.

        Raises:
            OutOfMemoryError: The arena has a capacity and no room.
        """
        size = max(1, -(-size_bytes // self._alignment)) * self._alignment
        holes = zip(self._sizes, self._starts, strict=True)
        fitting = [(free, start) for free, start in holes if free >= size]
        if fitting:
            free, offset = min(fitting)
            position = bisect_left(self._starts, offset)
            if free == size:
                del self._starts[position], self._sizes[position]
            else:
                self._starts[position] += size
                self._sizes[position] -= size
        else:
            offset = self._grow(size)
        self._used[offset] = size
        self.high_water_bytes = max(self.high_water_bytes, offset + size)
        return offset

    def _grow(self, size: int) -> int:
        """Take `size` bytes at the end, where a free block that touches the end counts."""
        offset = self._end
        touches_end = bool(self._starts) and self._starts[-1] + self._sizes[-1] == self._end
        if touches_end:
            offset = self._starts[-1]
        if self._capacity is not None and offset + size > self._capacity:
            raise OutOfMemoryError(
                f"no room for {size} bytes: {self._capacity - self.used_bytes} of "
                f"{self._capacity} bytes are free, in {len(self._starts) + 1} pieces"
            )
        if touches_end:
            del self._starts[-1], self._sizes[-1]
        self._end = offset + size
        return offset

    def free(self, offset: int) -> None:
        """Give back the block at `offset`, and merge it with free neighbours.

        Raises:
            ValueError: No block in use starts there.
        """
        size = self._used.pop(offset, None)
        if size is None:
            raise ValueError(f"no block in use starts at offset {offset}")
        position = bisect_right(self._starts, offset)
        self._starts.insert(position, offset)
        self._sizes.insert(position, size)
        self._merge(position)
        self._merge(position - 1)

    def _merge(self, position: int) -> None:
        """Merge the free block at `position` with the next one, if they touch."""
        if not 0 <= position < len(self._starts) - 1:
            return
        if self._starts[position] + self._sizes[position] == self._starts[position + 1]:
            self._sizes[position] += self._sizes.pop(position + 1)
            del self._starts[position + 1]
