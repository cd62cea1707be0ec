"""The driver of no processor: kernels run on `core_plugin_cuda.simulator`, launch by launch."""

from __future__ import annotations

import os
from collections.abc import Sequence
from time import perf_counter
from typing import Any, Final

import numpy as np

from core.plugin import DeviceError
from core_plugin_cuda.driver import Driver, KernelCall, Properties
from core_plugin_cuda.simulator.machine import Function
from core_plugin_cuda.simulator.memory import GlobalMemory
from core_plugin_cuda.simulator.ptx import read_ptx

_LARGEST: Final = 16 << 30
_SMALLEST: Final = 1 << 30


def _memory_bytes() -> int:
    """Half of the host's memory, within limits."""
    try:
        host = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        host = 0
    return min(_LARGEST, max(_SMALLEST, host // 2)) // 4096 * 4096


class SimulatedDriver(Driver):
    """A small processor of compute capability 8.0; everything is done when a call returns."""

    simulated = True

    def __init__(self) -> None:
        self.properties = Properties(
            name="simulator", capability=(8, 0), processors=4, memory_bytes=_memory_bytes(),
            shared_bytes=48 << 10, l2_bytes=4 << 20, group_limit=((1 << 31) - 1, 65535, 65535),
            item_limit=(1024, 1024, 64), item_total=1024)
        self.memory = GlobalMemory(self.properties.memory_bytes)

    def close(self) -> None:
        """The memory goes with the last reference."""

    def allocate(self, size_bytes: int) -> int:
        """Address of fresh memory."""
        return self.memory.allocate(size_bytes)

    def free(self, address: int) -> None:
        """Give it back."""
        self.memory.free(address)

    def copy_in(self, address: int, source: memoryview) -> None:
        """Copy from the host."""
        self.memory.span(address, source.nbytes)[:] = np.frombuffer(source, np.uint8)

    def copy_out(self, destination: memoryview, address: int) -> None:
        """Copy to the host."""
        found = self.memory.span(address, destination.nbytes)
        np.frombuffer(destination, np.uint8)[:] = found

    def copy(self, to: int, start: int, size_bytes: int) -> None:
        """Copy within the device."""
        self.memory.span(to, size_bytes)[:] = self.memory.span(start, size_bytes)

    def load(self, name: str, image: bytes, scalars: Sequence[str]) -> Function:
        """The kernel of a PTX text."""
        try:
            kernel = read_ptx(image.decode("ascii"))[name]
        except (UnicodeDecodeError, KeyError, DeviceError) as error:
            raise DeviceError(
                f"the binary of {name} is not for the simulator: {error}") from error
        return Function(kernel)

    def launch(self, call: KernelCall) -> None:
        """Run a kernel."""
        self._check_size(call)
        call.function.launch(self.memory, call.groups, call.items, call.values)

    def _check_size(self, call: KernelCall) -> None:
        limits = self.properties
        items = call.items[0] * call.items[1] * call.items[2]
        fits = items <= limits.item_total and all(
            0 < n <= limit for n, limit in zip(
                (*call.groups, *call.items), (*limits.group_limit, *limits.item_limit),
                strict=True))
        if not fits:
            raise DeviceError(f"the kernel {call.name} cannot be launched in {call.groups} work "
                              f"groups of {call.items} threads")

    def timed(self, call: KernelCall) -> float:
        """Run a kernel by the host's clock."""
        started = perf_counter()
        self.launch(call)
        return perf_counter() - started

    def synchronize(self) -> None:
        """Nothing is ever left to do."""

    def wait_event(self, event: Any) -> None:
        """As above."""

    def graph(self, calls: Sequence[KernelCall], before: Sequence[Sequence[int]]) -> None:
        """The list itself is replayed."""

    def replay(self, graph: Any, calls: Sequence[KernelCall]) -> None:
        """Launch by launch."""
        for call in calls:
            self.launch(call)
