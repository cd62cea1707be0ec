"""Memory of an OpenCL device, and the queue that copies within it."""

from __future__ import annotations

from typing import Any, NamedTuple

import pyopencl as cl

from core.plugin import Allocator, CopyQueue, OutOfMemoryError
from core_plugin_amd.context import OpenClDevice, in_words


class Piece(NamedTuple):
    """Part of a buffer.

    Attributes:
        buffer: OpenCL's buffer.
        offset: First byte of the part.
    """

    buffer: Any
    offset: int


class OpenClAllocator(Allocator):
    """Buffers of one device.

    Args:
        device: The device.
    """

    def __init__(self, device: OpenClDevice) -> None:
        self._device = device

    def allocate(self, size_bytes: int) -> Piece:
        """A fresh buffer.

        Raises:
            OutOfMemoryError: It is larger than the device allows, or there is no room.
        """
        limit = self._device.largest_buffer
        if size_bytes > limit:
            raise OutOfMemoryError(f"{size_bytes} bytes in one buffer: the device allows {limit}")
        try:
            buffer = cl.Buffer(self._device.context, cl.mem_flags.READ_WRITE, size_bytes)
        except (cl.MemoryError, cl.LogicError, cl.RuntimeError) as error:
            raise OutOfMemoryError(f"no room for {size_bytes} bytes of the device's "
                                   f"{self._device.memory_bytes}: {in_words(error)}") from error
        return Piece(buffer, 0)

    def free(self, block: Piece) -> None:
        """Give the buffer back, once what uses it has run."""
        block.buffer.release()

    def copy_in(self, block: Piece, offset: int, source: memoryview) -> None:
        """Copy bytes of the host."""
        self._device.checked(lambda: cl.enqueue_copy(
            self._device.queue, block.buffer, source, dst_offset=block.offset + offset,
            is_blocking=True))

    def copy_out(self, destination: memoryview, block: Piece, offset: int) -> None:
        """Copy bytes to the host."""
        self._device.checked(lambda: cl.enqueue_copy(
            self._device.queue, destination, block.buffer, src_offset=block.offset + offset,
            is_blocking=True))

    def view(self, block: Piece, offset: int, size_bytes: int) -> Piece:
        """A part: kernels add its offset."""
        return Piece(block.buffer, block.offset + offset)


class OpenClCopyQueue(CopyQueue):
    """A second queue; events order it with the queue of the kernels, both ways.

    Args:
        device: The device.
    """

    def __init__(self, device: OpenClDevice) -> None:
        self._device = device
        self._queue = cl.CommandQueue(device.context, device.handle)

    def submit(
        self, destination: Piece, destination_offset: int, source: Piece, source_offset: int,
        size_bytes: int,
    ) -> Any:
        """Start a copy between two buffers."""
        device = self._device

        def start() -> Any:
            before = cl.enqueue_marker(device.queue)
            device.queue.flush()
            event = cl.enqueue_copy(
                self._queue, destination.buffer, source.buffer, byte_count=size_bytes,
                src_offset=source.offset + source_offset,
                dst_offset=destination.offset + destination_offset, wait_for=[before])
            self._queue.flush()
            cl.enqueue_barrier(device.queue, wait_for=[event])
            return event

        return device.checked(start)

    def wait(self, event: Any) -> None:
        """Wait for a copy."""
        self._device.checked(event.wait)
