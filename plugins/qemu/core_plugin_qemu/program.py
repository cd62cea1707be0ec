"""Kernels in the emulated processor's memory, single launches, and recordings of many."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from operator import add
from typing import Any, Final

import numpy as np

from core.plugin import (
    DeviceError,
    LaunchSize,
    Loader,
    Program,
    RecordedCall,
    Recording,
    UnsupportedError,
)
from core.render import pack_arguments, slot_word
from core_plugin_qemu.elf import read_object
from core_plugin_qemu.memory import ROWS_BYTES, Block
from core_plugin_qemu.relocate import link
from core_plugin_qemu.runner import Runner
from core_plugin_qemu.server import ROW, ROW_BYTES

_SLOT: Final = 8
_HEADER_WORDS: Final = ROW_BYTES // _SLOT


class EmulatedProgram(Program):
    """A kernel in the memory of the emulated processor.

    Args:
        name: Symbol of the function.
        binary: Object file.
        runner: Runs it.

    Raises:
        DeviceError: The binary is no object file for this processor, or lacks the function.
    """

    def __init__(self, name: str, binary: bytes, runner: Runner) -> None:
        self.name, self._runner = name, runner
        self._object = read_object(binary)
        if name not in self._object.defined:
            raise DeviceError(f"the object file defines no {name}")
        self._entry = self._object.defined[name]
        self._at = 0
        self._linked_for = -1
        with runner.lock:
            self._place()

    def _place(self) -> None:
        """Link the code for where it lies, and put it there."""
        if not self._at:
            link(self._object, 0)  # what cannot be linked takes no room
            self._at = self._runner.memory.allocate_code(len(self._object.memory))
        base = self._runner.base
        if self._linked_for != base:
            code = link(self._object, base + self._at)
            self._runner.memory.bytes[self._at:self._at + len(code)] = code
            self._linked_for = base

    def address(self) -> int:
        """Of the function, as long as the emulator is not started again; hold the lock."""
        if self._linked_for != self._runner.base:
            self._place()
        return self._linked_for + self._at + self._entry

    def name_at(self, _offset: int) -> str:
        """The name of the kernel of its only row."""
        return self.name

    def __call__(
        self,
        buffers: Sequence[Block],
        scalars: Sequence[int | float] = (),
        global_size: LaunchSize = (1, 1, 1),
        local_size: LaunchSize = (1, 1, 1),
        wait: bool = False,
    ) -> float | None:
        """Launch the kernel; `global_size[0]` is the number of items of its threaded loop."""
        start = time.perf_counter() if wait else 0.0
        self.launch(buffers, (), scalars, global_size[0])
        if not wait:
            return None
        self._runner.synchronize()
        return time.perf_counter() - start

    def launch(
        self, buffers: Sequence[Block], offsets: Sequence[int], scalars: Sequence[int | float],
        items: int,
    ) -> None:
        """Launch the kernel; `offsets`, where there are any, are added to the blocks'."""
        runner = self._runner
        with runner.lock:
            size = ROW_BYTES + _SLOT * (len(buffers) + len(scalars))
            at = runner.reserve(size)
            # Addresses are taken after `reserve`, which may have started the emulator again.
            addresses: Iterable[int] = map(runner.address, buffers)
            if offsets:
                addresses = map(add, addresses, offsets)
            row = ROW.pack(self.address(), runner.base + at + size, 0, items)
            runner.memory.bytes[at:at + size] = row + pack_arguments(addresses, scalars)
            runner.launch(size, self.name_at)


class SingleLaunch(Recording):
    """A recording of one launch."""

    def __init__(self, call: RecordedCall) -> None:
        self._call = call
        self._launch = call.program.launch  # type: ignore[attr-defined]

    def replay(self, blocks: Sequence[Any], scalars: Mapping[int, int | float]) -> None:
        """Launch it."""
        call = self._call
        self._launch([blocks[k] for k in call.blocks], call.offsets,
                     [scalars[k] for k in call.scalars], call.items)


class EmulatedRecording(Recording):
    """Launches whose rows are kept as one array of words, into which a replay writes addresses.

    Args:
        calls: The launches.
        runner: Runs them.

    Raises:
        UnsupportedError: They are too many for one batch.
    """

    def __init__(self, calls: Sequence[RecordedCall], runner: Runner) -> None:
        self._runner = runner
        self._calls = list(calls)
        widths = [_HEADER_WORDS + len(c.blocks) + len(c.scalars) for c in calls]
        ends = list(np.cumsum(widths))
        starts = [int(end) - width for end, width in zip(ends, widths, strict=True)]
        self._words = np.zeros(int(ends[-1]), np.uint64)
        if self._words.nbytes > ROWS_BYTES:
            raise UnsupportedError(f"{len(calls)} launches are too many for one batch")
        self._starts = np.array(starts)
        self._ends = np.array(ends, np.uint64) * np.uint64(_SLOT)
        self._words[self._starts + 3] = [c.items for c in calls]
        self._place_arguments(starts)
        self._functions = np.zeros(0, np.uint64)
        self._generation = -1

    def _place_arguments(self, starts: Sequence[int]) -> None:
        """Which words are addresses of blocks, and which are scalars."""
        where: list[int] = []
        scalars: list[tuple[int, int]] = []
        for start, call in zip(starts, self._calls, strict=True):
            first = start + _HEADER_WORDS
            where += range(first, first + len(call.blocks))
            scalars += [(first + len(call.blocks) + k, key) for k, key in enumerate(call.scalars)]
        numbers = list(chain.from_iterable(c.blocks for c in self._calls))
        self._used = sorted(set(numbers))  # blocks, each looked at once
        self._where = np.array(where, np.int64)
        self._numbers = np.searchsorted(self._used, numbers) if numbers else np.zeros(0, np.int64)
        self._offsets = np.array(
            list(chain.from_iterable(c.offsets for c in self._calls)), np.uint64)
        self._scalars = tuple(scalars)

    def name_at(self, offset: int) -> str:
        """The name of the kernel whose row lies at some bytes behind the first."""
        number = int(np.searchsorted(self._starts * _SLOT, offset, side="right")) - 1
        return str(getattr(self._calls[number].program, "name", "?"))

    def replay(self, blocks: Sequence[Any], scalars: Mapping[int, int | float]) -> None:
        """Write the arguments into the rows and launch them."""
        runner, words = self._runner, self._words
        with runner.lock:
            at = runner.reserve(words.nbytes)
            base = runner.base
            if self._generation != runner.generation:
                words[self._starts] = [
                    c.program.address() for c in self._calls]  # type: ignore[attr-defined]
                self._generation = runner.generation
            words[self._starts + 1] = self._ends + np.uint64(base + at)
            found = np.array([runner.address(blocks[k]) for k in self._used], np.uint64)
            words[self._where] = found[self._numbers] + self._offsets
            for where, key in self._scalars:
                words[where] = slot_word(scalars[key])
            runner.memory.bytes[at:at + words.nbytes] = words.view(np.uint8).data
            runner.launch(words.nbytes, self.name_at)


class EmulatedLoader(Loader):
    """Loads object files.

    Args:
        runner: Runs what is loaded.
    """

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def load(self, name: str, binary: bytes) -> Program:
        """The function `name`, ready to run."""
        return EmulatedProgram(name, binary, self._runner)

    def record(self, calls: Sequence[RecordedCall], support: Mapping[str, bytes]) -> Recording:
        """The launches as one batch."""
        if len(calls) == 1:
            return SingleLaunch(calls[0])
        return EmulatedRecording(calls, self._runner)
