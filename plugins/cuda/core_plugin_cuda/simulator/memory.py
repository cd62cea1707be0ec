"""Memory of the simulated processor, whose every access is looked at.

Global memory is one reserved mapping; a table says for each 256 bytes where the allocation that
they belong to ends. Work-group memory remembers for each piece who wrote and who read it, and how
many barriers had been passed by then.
"""

from __future__ import annotations

import mmap
from typing import Any, Final

import numpy as np

from core.foundation.offset_allocator import OffsetAllocator
from core.plugin import DeviceError, OutOfMemoryError
from core_plugin_cuda.simulator.arithmetic import UNSIGNED

#: Address of the first byte of global memory: no small number is an address.
BASE: Final = 1 << 36
#: Where generic addresses of work-group memory and of a thread's own memory begin.
SHARED_WINDOW: Final = 1 << 44
LOCAL_WINDOW: Final = 1 << 45
_PAGE: Final = 256
_NOWHERE: Final = -(1 << 62)
_LARGE: Final = 1 << 20
_NOBODY, _MANY, _ATOMIC = -1, -2, -3


class AccessError(DeviceError):
    """An access that no correct kernel makes; `lane` is the position of a culprit."""

    def __init__(self, message: str, lane: int) -> None:
        super().__init__(message)
        self.lane = lane


class GlobalMemory:
    """Memory of the device.

    Args:
        size_bytes: How much there is; pages take room in the host once they are touched.
    """

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.used = 0
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
        self._mapping = mmap.mmap(-1, size_bytes, flags=flags)
        self.bytes = np.frombuffer(self._mapping, np.uint8)
        self.views = {size: self.bytes.view(kind) for size, kind in UNSIGNED.items()}
        self._ends = np.zeros(size_bytes // _PAGE, np.int64)
        self._ends[0] = self._ends[-1] = _NOWHERE
        self._free = OffsetAllocator(size_bytes - 2 * _PAGE, alignment=_PAGE)
        self._sizes: dict[int, int] = {}

    def allocate(self, size_bytes: int) -> int:
        """Address of a fresh block.

        Raises:
            OutOfMemoryError: There is no room.
        """
        try:
            offset = self._free.allocate(size_bytes)
        except OutOfMemoryError as error:
            raise OutOfMemoryError(
                f"no room for {size_bytes} bytes: {self.size_bytes - self.used} of the "
                f"simulator's {self.size_bytes} are free") from error
        start = offset + _PAGE
        self._ends[start // _PAGE:-(-(start + size_bytes) // _PAGE)] = start + size_bytes
        self._sizes[start] = size_bytes
        self.used += size_bytes
        return start + BASE

    def free(self, address: int) -> None:
        """Give a block back."""
        start = address - BASE
        size = self._sizes.pop(start)
        self._ends[start // _PAGE:-(-(start + size) // _PAGE)] = 0
        self._free.free(start - _PAGE)
        self.used -= size
        if size >= _LARGE:  # the host has its pages back
            first, end = -(-start // mmap.PAGESIZE), (start + size) // mmap.PAGESIZE
            self._mapping.madvise(
                mmap.MADV_DONTNEED, first * mmap.PAGESIZE, (end - first) * mmap.PAGESIZE)

    def span(self, address: int, size_bytes: int) -> Any:
        """Bytes of the device as an array.

        Raises:
            DeviceError: They are not within one block.
        """
        start = address - BASE
        if size_bytes and not (0 <= start < self.size_bytes
                               and start + size_bytes <= self._ends[start // _PAGE]):
            raise DeviceError(f"{size_bytes} bytes at {address:#x} are not allocated")
        return self.bytes[start:start + size_bytes]

    def locate(self, address: Any, size: int, count: int, what: str) -> tuple[Any, Any]:
        """(memory in items of `size` bytes, position of the first item) for each address.

        Raises:
            AccessError: An address is misaligned, or not within an allocation.
        """
        start = address.view(np.int64) - BASE
        total = size * count
        ends = self._ends.take(start >> 8, mode="clip")
        bad = (start + total > ends) | ((start & (total - 1)) != 0)
        if bad.any():
            _refuse(bad, address, start & (total - 1), total, f"{what} of global memory")
        return self.views[size], start >> (size.bit_length() - 1)


def _refuse(bad: Any, address: Any, rest: Any, total: int, what: str) -> None:
    lane = int(np.flatnonzero(np.atleast_1d(bad))[0])
    where = int(np.atleast_1d(address)[lane if np.ndim(address) else 0])
    reason = "misaligned" if np.atleast_1d(rest)[lane if np.ndim(rest) else 0] else "out of bounds"
    raise AccessError(f"{reason} {what}: {total} bytes at {where:#x}", lane)


class LocalMemory:
    """Memory of each thread.

    Args:
        lanes: Threads.
        size_bytes: Of each.
    """

    def __init__(self, lanes: int, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self._stride = -(-size_bytes // 16) * 16
        data = np.zeros(max(16, self._stride * lanes), np.uint8)
        self._views = {size: data.view(kind) for size, kind in UNSIGNED.items()}

    def locate(self, address: Any, size: int, count: int, lanes: Any) -> tuple[Any, Any]:
        """As `GlobalMemory.locate`."""
        start = np.asarray(address).astype(np.int64)
        total = size * count
        bad = (start < 0) | (start + total > self.size_bytes) | ((start & (total - 1)) != 0)
        if bad.any():
            _refuse(bad, start, start & (total - 1), total, "access of a thread's own memory")
        return self._views[size], (start + lanes * self._stride) >> (size.bit_length() - 1)


class SharedMemory:
    """Memory of each work group, and who touched it.

    Args:
        groups: Work groups.
        size_bytes: Of each.
        piece: Bytes of the smallest access that the kernel makes.
        group_of: Work group of each lane.
        warp_of: Warp of each lane.
    """

    def __init__(self, groups: int, size_bytes: int, piece: int, group_of: Any,
                 warp_of: Any) -> None:
        self.size_bytes, self._piece = size_bytes, piece
        self._stride = max(16, -(-size_bytes // 16) * 16)
        data = np.zeros(self._stride * groups, np.uint8)
        self._views = {size: data.view(kind) for size, kind in UNSIGNED.items()}
        self._group_of, self._warp_of = group_of, warp_of
        pieces = len(data) // piece
        self._writer = np.full(pieces, _NOBODY, np.int32)
        self._reader = np.full(pieces, _NOBODY, np.int32)
        self._write_time = np.zeros(pieces, np.int32)
        self._read_time = np.zeros(pieces, np.int32)
        self._filled = np.zeros(pieces, np.bool_)
        # Barriers passed: a lane's time counts those of its group and of its warp together, which
        # grows with either; an older access of another warp is ordered by a group's barrier only.
        self.time = np.zeros(len(group_of), np.int32)
        self.group_time = np.zeros(len(group_of), np.int32)

    def pass_barrier(self, lanes: Any, *, whole_group: bool) -> None:
        """Lanes have met: what they did before is seen by all of them."""
        self.time[lanes] += 1
        if whole_group:
            self.group_time[lanes] = self.time[lanes] = int(self.time.max()) + 1

    def locate(self, address: Any, size: int, count: int, lanes: Any, use: str) -> tuple[Any, Any]:
        """As `GlobalMemory.locate`.

        Args:
            address: Within the work group's memory.
            size: Bytes of an item.
            count: Items.
            lanes: Positions of the threads.
            use: "load", "store" or "atomic".

        Raises:
            AccessError: An address is misaligned or beyond the memory; nobody wrote what is read;
                another thread touches it and no barrier stands between.
        """
        lanes = np.arange(len(self._group_of))[lanes]
        start = np.broadcast_to(np.asarray(address).astype(np.int64), lanes.shape)
        total = size * count
        bad = (start < 0) | (start + total > self.size_bytes) | ((start & (total - 1)) != 0)
        if bad.any():
            _refuse(bad, start, start & (total - 1), total, f"{use} of shared memory")
        start = start + self._group_of[lanes].astype(np.int64) * self._stride
        for first in range(0, total, self._piece):
            self._watch((start + first) // self._piece, lanes, use)
        return self._views[size], start >> (size.bit_length() - 1)

    def _watch(self, pieces: Any, lanes: Any, use: str) -> None:
        """Compare an access with what was remembered, and remember it."""
        if use != "store" and not self._filled[pieces].all():
            self._fail(~self._filled[pieces], f"{use} of shared memory that nobody wrote")
        writer = self._writer[pieces]
        clash = self._unordered(writer, self._write_time[pieces], lanes)
        if use == "atomic":
            clash &= writer != _ATOMIC
        if clash.any():
            self._fail(clash, f"race: {use} of shared memory that another thread wrote, "
                       "with no barrier between")
        if use == "load":
            reader, then = self._reader[pieces], self._read_time[pieces]
            again = self._unordered(reader, then, lanes)
            self._reader[pieces] = np.where(again, _MANY, lanes)
            # Of several lanes that read one piece now, one is left: then there were many.
            self._reader[pieces[self._reader[pieces] != lanes]] = _MANY
            self._read_time[pieces] = self.time[lanes]
            return
        reader = self._reader[pieces]
        clash = self._unordered(reader, self._read_time[pieces], lanes)
        if clash.any():
            self._fail(clash, f"race: {use} of shared memory that another thread read, "
                       "with no barrier between")
        self._writer[pieces] = _ATOMIC if use == "atomic" else lanes
        if use == "store":
            clash = self._writer[pieces] != lanes
            if clash.any():
                self._fail(clash, "race: two threads store to one place of shared memory")
        self._write_time[pieces] = self.time[lanes]
        self._filled[pieces] = True

    def _unordered(self, other: Any, then: Any, lanes: Any) -> Any:
        """Whether an earlier access by `other` may happen at the same time as one of now."""
        same_warp = (other >= 0) & (
            self._warp_of[np.maximum(other, 0)] == self._warp_of[lanes])
        since = np.where(same_warp, self.time[lanes], self.group_time[lanes])
        return (other != _NOBODY) & (other != lanes) & (then >= since)

    @staticmethod
    def _fail(bad: Any, message: str) -> None:
        raise AccessError(message, int(np.flatnonzero(bad)[0]))
