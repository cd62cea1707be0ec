"""Copies between two devices, or within one: four paths, one chosen for each pair.

    queue    the destination's hardware copies (`CopyQueue`)
    kernel   within a device that has no such queue, a program copies (`copy_kernels`)
    map      one device reaches the other's memory (`Allocator.map`), and its program copies
    host     bytes go through the host: straight where it sees one side, else in a ring of blocks

The first path that a pair has is taken. ``CORE_COPY`` forces one; a pair that lacks it says so.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from core.foundation.errors import DeviceError, UnsupportedError
from core.foundation.settings import settings
from core.plugin.interfaces import offers
from core.plugin.opening import OpenedDevice
from core.runtime.copy_kernels import copy_kernels

#: (destination block, its offset, source block, its offset, bytes) → None.
Copy = Callable[[Any, int, Any, int, int], None]

# Blocks of the ring: large enough that their number does not matter, small enough to stay in cache.
_BLOCK_BYTES: Final = 4 << 20
_RING_BLOCKS: Final = 3


def _queue(destination: OpenedDevice, source: OpenedDevice) -> Copy | None:
    queue = destination.copy_queue
    if queue is None:
        return None
    if destination.device is source.device:
        return queue.submit
    if not offers(destination.allocator, "map"):
        return None

    def copy(to: Any, to_offset: int, start: Any, start_offset: int, size: int) -> None:
        reached = destination.allocator.map(start, source.device)
        source.device.synchronize()
        queue.wait(queue.submit(to, to_offset, reached, start_offset, size))

    return copy


def _kernel(destination: OpenedDevice, source: OpenedDevice) -> Copy | None:
    if destination.device is not source.device:
        return None
    return copy_kernels(destination).copy


def _map(destination: OpenedDevice, source: OpenedDevice) -> Copy | None:
    """A kernel of the device that reaches the other's memory; the destination's by preference.

    The devices do not know of each other's launches, so both have to come to rest.
    """
    if destination.device is source.device:
        return None
    reaching = [d for d in (destination, source) if offers(d.allocator, "map")]
    if not reaching:
        return None

    def copy(to: Any, to_offset: int, start: Any, start_offset: int, size: int) -> None:
        refusal: UnsupportedError | None = None
        for device in reaching:
            try:
                if device is destination:
                    blocks = to, device.allocator.map(start, source.device)
                else:
                    blocks = device.allocator.map(to, destination.device), start
            except UnsupportedError as error:
                refusal = error
                continue
            other = source if device is destination else destination
            other.device.synchronize()
            copy_kernels(device).copy(blocks[0], to_offset, blocks[1], start_offset, size)
            device.device.synchronize()
            return
        assert refusal is not None
        raise refusal

    return copy


def _host(destination: OpenedDevice, source: OpenedDevice) -> Copy:
    if offers(source.allocator, "host_view"):
        def from_view(to: Any, to_offset: int, start: Any, start_offset: int, size: int) -> None:
            source.device.synchronize()
            seen = source.allocator.host_view(start)[start_offset:start_offset + size]
            destination.allocator.copy_in(to, to_offset, seen)

        return from_view
    if offers(destination.allocator, "host_view"):
        def into_view(to: Any, to_offset: int, start: Any, start_offset: int, size: int) -> None:
            destination.device.synchronize()
            seen = destination.allocator.host_view(to)[to_offset:to_offset + size]
            source.allocator.copy_out(seen, start, start_offset)

        return into_view

    def through_ring(to: Any, to_offset: int, start: Any, start_offset: int, size: int) -> None:
        if size <= _BLOCK_BYTES:
            part = memoryview(bytearray(size))
            source.allocator.copy_out(part, start, start_offset)
            destination.allocator.copy_in(to, to_offset, part)
            return
        for at, part in _read_ahead(source, start, start_offset, size):
            destination.allocator.copy_in(to, to_offset + at, part)

    return through_ring


def _read_ahead(
    source: OpenedDevice, start: Any, start_offset: int, size: int
) -> Iterator[tuple[int, memoryview]]:
    """(position, bytes) of each block, read by a thread while earlier ones are written."""
    blocks = [memoryview(bytearray(_BLOCK_BYTES)) for _ in range(_RING_BLOCKS)]
    positions = range(0, size, _BLOCK_BYTES)

    def read(number: int) -> memoryview:
        at = positions[number]
        part = blocks[number % _RING_BLOCKS][:min(_BLOCK_BYTES, size - at)]
        source.allocator.copy_out(part, start, start_offset + at)
        return part

    with ThreadPoolExecutor(1, "core-copy") as reader:
        ahead = deque(reader.submit(read, k) for k in range(min(_RING_BLOCKS, len(positions))))
        for number, at in enumerate(positions):
            yield at, ahead.popleft().result()
            if number + _RING_BLOCKS < len(positions):
                ahead.append(reader.submit(read, number + _RING_BLOCKS))


_PATHS: Final[dict[str, Callable[[OpenedDevice, OpenedDevice], Copy | None]]] = {
    "queue": _queue, "kernel": _kernel, "map": _map, "host": _host}


class PairCopy:
    """How bytes go from one device to another; calling it copies.

    Attributes:
        paths: The paths that the two devices offer; some blocks may still refuse one.

    Args:
        destination: Device of the block that is written.
        source: Device of the block that is read.
    """

    def __init__(self, destination: OpenedDevice, source: OpenedDevice) -> None:
        self._names = destination.name, source.name
        self.paths: dict[str, Copy] = {}
        for name, make in _PATHS.items():
            path = make(destination, source)
            if path is not None:
                self.paths[name] = path
        self._chosen: Copy | None = None

    def __call__(self, to: Any, to_offset: int, start: Any, start_offset: int, size: int) -> None:
        """Copy `size` bytes; nothing is done for 0.

        Raises:
            DeviceError: ``CORE_COPY`` names a path that this pair does not have.
        """
        if not size:
            return
        if settings.COPY:
            self._forced(settings.COPY, to, to_offset, start, start_offset, size)
        elif self._chosen is not None:
            self._chosen(to, to_offset, start, start_offset, size)
        else:
            self._choose(to, to_offset, start, start_offset, size)

    def _choose(self, *copied: Any) -> None:
        """Take the first path that these blocks have, now and from now on."""
        for path in self.paths.values():
            try:
                path(*copied)
            except UnsupportedError:  # a map that refuses this owner: the host path never does
                continue
            self._chosen = path
            return

    def _forced(self, name: str, *copied: Any) -> None:
        try:
            if name not in self.paths:
                raise UnsupportedError("")
            self.paths[name](*copied)
        except UnsupportedError as error:
            why = f": {error.message}" if error.message else ""
            there = ", ".join(n for n in self.paths if n != name)
            raise DeviceError(
                f"no copy from {self._names[1]} to {self._names[0]} goes by the path {name!r}{why}",
                cure=f"unset CORE_COPY, or use one of: {there}") from error


_pairs: Final[dict[tuple[OpenedDevice, OpenedDevice], PairCopy]] = {}


def pair_copy(destination: OpenedDevice, source: OpenedDevice) -> PairCopy:
    """The copies from one open device to another."""
    found = _pairs.get((destination, source))
    if found is None:
        found = _pairs[destination, source] = PairCopy(destination, source)
    return found
