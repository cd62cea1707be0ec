"""What this plugin needs of a driver: NVIDIA's (`libcuda`) and the simulator (`simulated`) have it.

Addresses are integers. Streams, events, functions and graphs are whatever the driver gives.
Everything is asynchronous unless it says otherwise; errors are core's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from core.plugin import LaunchSize


@dataclass(frozen=True)
class Properties:
    """What a processor can do.

    Attributes:
        name: For people.
        capability: Compute capability, (8, 0).
        processors: Multiprocessors.
        memory_bytes: Of its memory.
        shared_bytes: Work-group memory of one kernel.
        l2_bytes: Second-level cache.
        group_limit: Most work groups along each axis.
        item_limit: Most threads of a group along each axis.
        item_total: Most threads of a group.
    """

    name: str
    capability: tuple[int, int]
    processors: int
    memory_bytes: int
    shared_bytes: int
    l2_bytes: int
    group_limit: LaunchSize
    item_limit: LaunchSize
    item_total: int


@dataclass(frozen=True)
class KernelCall:
    """One launch.

    Attributes:
        name: The kernel's.
        function: As `Driver.load` gave it.
        groups: Work groups along each axis.
        items: Threads of each.
        values: Arguments: addresses, then scalars.
    """

    name: str
    function: Any
    groups: LaunchSize
    items: LaunchSize
    values: tuple[Any, ...]


class Driver(ABC):
    """One processor.

    Attributes:
        properties: What it can do.
        simulated: Whether it is none.
    """

    properties: Properties
    simulated: bool

    @abstractmethod
    def close(self) -> None:
        """Give the context back."""

    @abstractmethod
    def allocate(self, size_bytes: int) -> int:
        """Address of fresh memory.

        Raises:
            OutOfMemoryError: There is no room.
        """

    @abstractmethod
    def free(self, address: int) -> None:
        """Give it back."""

    @abstractmethod
    def copy_in(self, address: int, source: memoryview) -> None:
        """Copy from the host, behind what was launched; the source may change afterwards."""

    @abstractmethod
    def copy_out(self, destination: memoryview, address: int) -> None:
        """Copy to the host, behind what was launched; returns when the bytes are there."""

    @abstractmethod
    def copy(self, to: int, start: int, size_bytes: int) -> Any:
        """Copy within the device on the copy stream, ordered with launches; gives its event."""

    @abstractmethod
    def load(self, name: str, image: bytes, scalars: Sequence[str]) -> Any:
        """The kernel of a PTX text or a cubin.

        Args:
            name: The kernel's.
            image: What a compiler made.
            scalars: numpy's names of the types of its scalar arguments, which follow addresses.

        Raises:
            DeviceError: The driver refuses it.
        """

    @abstractmethod
    def launch(self, call: KernelCall) -> None:
        """Launch a kernel."""

    @abstractmethod
    def timed(self, call: KernelCall) -> float:
        """Launch a kernel and wait; gives the seconds that it ran."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait for everything.

        Raises:
            DeviceError: Something launched has failed.
        """

    @abstractmethod
    def wait_event(self, event: Any) -> None:
        """Wait for a copy."""

    @abstractmethod
    def graph(self, calls: Sequence[KernelCall], before: Sequence[Sequence[int]]) -> Any:
        """A list of launches as one object.

        Args:
            calls: The launches.
            before: For each, numbers of those that it waits for.
        """

    @abstractmethod
    def replay(self, graph: Any, calls: Sequence[KernelCall]) -> None:
        """Launch a graph with these arguments; nothing but `values` may differ."""
