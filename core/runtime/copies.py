"""Copies between devices: through the host in blocks, or straight where the host sees both.

The other paths of DESIGN 5 (a copy queue, a kernel over mapped memory) are issue B; a path is
chosen once per pair of devices here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from core.plugin.interfaces import offers
from core.plugin.opening import OpenedDevice

_BLOCK_BYTES: Final = 4 << 20
Copy = Callable[[Any, int, Any, int, int], None]
_paths: dict[tuple[int, int], Copy] = {}


def _through_host_view(destination: OpenedDevice, source: OpenedDevice) -> Copy:
    def copy(to: Any, to_offset: int, start: Any, start_offset: int, size: int) -> None:
        source.device.synchronize()
        seen = source.allocator.host_view(start)[start_offset:start_offset + size]
        destination.allocator.copy_in(to, to_offset, seen)

    return copy


def _through_host(destination: OpenedDevice, source: OpenedDevice) -> Copy:
    def copy(to: Any, to_offset: int, start: Any, start_offset: int, size: int) -> None:
        staging = memoryview(bytearray(min(size, _BLOCK_BYTES)))
        for at in range(0, size, _BLOCK_BYTES):
            part = staging[: min(_BLOCK_BYTES, size - at)]
            source.allocator.copy_out(part, start, start_offset + at)
            destination.allocator.copy_in(to, to_offset + at, part)

    return copy


def copy_path(destination: OpenedDevice, source: OpenedDevice) -> Copy:
    """The way bytes go between two devices: (block, offset, block, offset, bytes)."""
    key = (id(destination.device), id(source.device))
    path = _paths.get(key)
    if path is None:
        visible = offers(source.allocator, "host_view")
        choose = _through_host_view if visible else _through_host
        path = _paths[key] = choose(destination, source)
    return path
