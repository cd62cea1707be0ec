"""Memory of a processor: blocks are addresses, pieces of them are sums."""

from __future__ import annotations

from typing import Any

from core.plugin import Allocator, CopyQueue
from core_plugin_cuda.driver import Driver


class CudaAllocator(Allocator):
    """Memory of one processor.

    Args:
        driver: Of the processor.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def allocate(self, size_bytes: int) -> int:
        """Address of fresh memory, aligned to 256."""
        return self._driver.allocate(size_bytes)

    def free(self, block: int) -> None:
        """Give it back."""
        self._driver.free(block)

    def copy_in(self, block: int, offset: int, source: memoryview) -> None:
        """Copy bytes of the host, behind what was launched."""
        if source.nbytes:
            self._driver.copy_in(block + offset, source.cast("B"))

    def copy_out(self, destination: memoryview, block: int, offset: int) -> None:
        """Copy bytes to the host, behind what was launched."""
        if destination.nbytes:
            self._driver.copy_out(destination.cast("B"), block + offset)

    def view(self, block: int, offset: int, size_bytes: int) -> int:
        """An address within the block."""
        return block + offset


class CudaCopyQueue(CopyQueue):
    """The copy stream; events order it with the launches, both ways.

    Args:
        driver: Of the processor.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def submit(self, destination: int, destination_offset: int, source: int, source_offset: int,
               size_bytes: int) -> Any:
        """Start a copy."""
        if not size_bytes:
            return None
        return self._driver.copy(
            destination + destination_offset, source + source_offset, size_bytes)

    def wait(self, event: Any) -> None:
        """Wait for it."""
        if event is not None:
            self._driver.wait_event(event)
