"""Memory of an adapter: one buffer for each block; bytes go in and out in words of four."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

import wgpu

from core.plugin import Allocator, OutOfMemoryError
from core_plugin_webgpu.context import WebGpuDevice, words_of

_WORD: Final = 4
_GRANULE: Final = 16
_numbers: Final = count(1)


def _rounded_up(size: int, step: int = _WORD) -> int:
    return -(-size // step) * step


@dataclass(eq=False)
class WebGpuBlock:
    """Bytes of a buffer.

    Attributes:
        buffer: The library's buffer.
        offset: First byte.
        size_bytes: Bytes that belong to the block.
        number: Of the buffer, never used again.
    """

    buffer: Any
    offset: int
    size_bytes: int
    number: int = field(default=0)


class WebGpuAllocator(Allocator):
    """Buffers that kernels read and write.

    The driver gives memory when it is first touched, so bytes are counted here: no more than
    `limit` are given out.

    Args:
        device: Whose memory.
        limit: Bytes in all; None: the driver decides.
    """

    def __init__(self, device: WebGpuDevice, limit: int | None = None) -> None:
        self.device, self.limit = device, limit
        self.used_bytes = 0

    def allocate(self, size_bytes: int) -> WebGpuBlock:
        """A buffer.

        Raises:
            OutOfMemoryError: It is larger than a kernel can take, or there is no room.
        """
        size = _rounded_up(max(size_bytes, 1), _GRANULE)
        device = self.device
        if size > device.largest_binding:
            raise OutOfMemoryError(
                f"{size} bytes are more than a kernel of {device.name} can take, "
                f"{device.largest_binding}", cure="split the tensor")
        if self.limit is not None and self.used_bytes + size > self.limit:
            raise OutOfMemoryError(
                f"{device.name} has {self.limit} bytes, {self.used_bytes} of them in use")
        with device.lock:
            device.check()
            try:
                buffer = device.gpu.create_buffer(
                    size=size, usage=wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC
                    | wgpu.BufferUsage.COPY_DST)
            except Exception as error:
                said = words_of(error)
                if "memory" not in said.lower():
                    raise device.failed(error, f"allocate {size} bytes") from error
                raise OutOfMemoryError(f"{device.name} has no room for {size} bytes: {said}"
                                       ) from error
            self.used_bytes += size
            return WebGpuBlock(buffer, 0, size, next(_numbers))

    def free(self, block: WebGpuBlock) -> None:
        """Give a buffer back once what was launched has been submitted."""
        with self.device.lock:
            self.used_bytes -= block.size_bytes
            if not self.device.lost:
                self.device.flush()
                block.buffer.destroy()

    def view(self, block: WebGpuBlock, offset: int, size_bytes: int) -> WebGpuBlock:
        """A part of a block, at any byte."""
        return WebGpuBlock(block.buffer, block.offset + offset, size_bytes, block.number)

    def copy_in(self, block: WebGpuBlock, offset: int, source: memoryview) -> None:
        """Write bytes; words at the ends that keep some of theirs are read first."""
        device, data = self.device, source.cast("B")
        start = block.offset + offset
        if not len(data):
            return
        first, end = start // _WORD * _WORD, _rounded_up(start + len(data))
        with device.lock:
            if start == first and start + len(data) == end:
                device.write(block.buffer, first, data)
                return
            whole = bytearray(end - first)
            whole[:_WORD] = device.read(block.buffer, first, _WORD)
            whole[-_WORD:] = device.read(block.buffer, end - _WORD, _WORD)
            whole[start - first:start - first + len(data)] = data
            device.write(block.buffer, first, memoryview(whole))

    def copy_out(self, destination: memoryview, block: WebGpuBlock, offset: int) -> None:
        """Read bytes, once everything launched has run."""
        start, size = block.offset + offset, len(destination.cast("B"))
        if not size:
            return
        first = start // _WORD * _WORD
        read = self.device.read(block.buffer, first, _rounded_up(start + size) - first)
        destination.cast("B")[:] = read[start - first:start - first + size]
