"""Kernels as programs, launched one by one or as recorded lists."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from core.plugin import (
    DeviceError,
    LaunchSize,
    Loader,
    Program,
    RecordedCall,
    Recording,
    UnsupportedError,
)
from core_plugin_cuda.driver import Driver, KernelCall

_ONE: Final = (1, 1, 1)


class CudaProgram(Program):
    """A kernel.

    Args:
        driver: Of the processor.
        name: Of the kernel.
        binary: A line about its arguments, then PTX or a cubin.

    Raises:
        DeviceError: The binary is not for this processor.
    """

    def __init__(self, driver: Driver, name: str, binary: bytes) -> None:
        self._driver, self.name = driver, name
        header, _, image = binary.partition(b"\n")
        try:
            about = json.loads(header)
            self._buffers, scalars = int(about["buffers"]), list(about["scalars"])
            entry = about["name"]
        except (ValueError, KeyError, TypeError) as error:
            raise DeviceError(f"the binary of {name} is not for this device: {error}") from error
        self._scalars = len(scalars)
        self._function = driver.load(entry, image, scalars)

    def bound(self, buffers: Sequence[int], scalars: Sequence[int | float],
              groups: LaunchSize, items: LaunchSize) -> KernelCall:
        """A launch of it."""
        if len(buffers) != self._buffers or len(scalars) != self._scalars:
            raise DeviceError(f"{self.name} takes {self._buffers} buffers and {self._scalars} "
                              f"scalars, not {len(buffers)} and {len(scalars)}")
        return KernelCall(self.name, self._function, groups, items, (*buffers, *scalars))

    def __call__(
        self,
        buffers: Sequence[int],
        scalars: Sequence[int | float],
        global_size: LaunchSize = _ONE,
        local_size: LaunchSize = _ONE,
        wait: bool = False,
    ) -> float | None:
        """Launch it; gives the seconds that events measured if asked to wait."""
        call = self.bound(buffers, scalars, global_size, local_size)
        if wait:
            return self._driver.timed(call)
        self._driver.launch(call)
        return None


class CudaRecording(Recording):
    """A list of launches as one graph, whose arguments are updated at each replay.

    Args:
        driver: Of the processor.
        calls: The launches.
    """

    def __init__(self, driver: Driver, calls: Sequence[RecordedCall]) -> None:
        self._driver, self._calls = driver, calls
        self._before = dependencies(calls)
        self._graph: Any = None

    def _bound(self, blocks: Sequence[int], scalars: Mapping[int, int | float]) -> list[KernelCall]:
        found = []
        for call in self._calls:
            program = call.program
            assert isinstance(program, CudaProgram)
            addresses = [blocks[number] + offset
                         for number, offset in zip(call.blocks, call.offsets, strict=True)]
            found.append(program.bound(addresses, [scalars[k] for k in call.scalars],
                                       call.global_size, call.local_size))
        return found

    def replay(self, blocks: Sequence[int], scalars: Mapping[int, int | float]) -> None:
        """Launch the graph; it is made at the first time."""
        calls = self._bound(blocks, scalars)
        if self._graph is None:
            self._graph = self._driver.graph(calls, self._before)
        self._driver.replay(self._graph, calls)


def dependencies(calls: Sequence[RecordedCall]) -> list[tuple[int, ...]]:
    """For each call the numbers of those that must be done when it begins.

    Where calls meet, all since the last such place must be. core also lets calls of one item
    follow each other, whose order a single thread would keep: here each waits for the last one.
    """
    found: list[tuple[int, ...]] = []
    earlier: list[int] = []
    current: list[int] = []
    alone: int | None = None
    for number, call in enumerate(calls):
        if call.meet:
            earlier, current, alone = current or earlier, [], None
        single = call.items == 1
        extra = (alone,) if single and alone is not None else ()
        found.append((*earlier, *extra))
        if single:
            alone = number
        current.append(number)
    return found


class CudaLoader(Loader):
    """Loads kernels of one processor.

    Args:
        driver: Of the processor.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def load(self, name: str, binary: bytes) -> Program:
        """The kernel of a binary."""
        return CudaProgram(self._driver, name, binary)

    def record(self, calls: Sequence[RecordedCall], support: Mapping[str, bytes]) -> Recording:
        """A graph; a single launch is better launched."""
        if len(calls) == 1:
            raise UnsupportedError("a graph of one launch gains nothing")
        return CudaRecording(self._driver, tuple(calls))
