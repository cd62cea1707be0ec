"""Counts the launches that run in a device's own `Program` objects.

A device that hands its work to another one would pass every comparison. Its loaders are wrapped
here, so that each launch is seen wherever it comes from: launched one by one or as a recording.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from core.plugin.interfaces import (
    Block,
    LaunchSize,
    Loader,
    Program,
    RecordedCall,
    Recording,
    offers,
)
from core.plugin.opening import OpenedDevice


class LaunchCounter:
    """Launches so far.

    Attributes:
        own: Those of programs whose class comes from the device's package.
        foreign: All others.
        classes: Names of the classes of all programs that were loaded.
    """

    def __init__(self, opened: OpenedDevice) -> None:
        self._package = _package(opened.spec.module)
        self.own = self.foreign = 0
        self.classes: set[str] = set()

    def add(self, program: Program) -> None:
        """One launch of a program."""
        if _package(type(program).__module__) == self._package:
            self.own += 1
        else:
            self.foreign += 1

    def loaded(self, program: Program) -> None:
        """Note the class of a program."""
        self.classes.add(f"{type(program).__module__}.{type(program).__qualname__}")


def _package(module: str) -> str:
    """What tells one author's code from another's; core's own devices have folders in core."""
    parts = module.split(".")
    return ".".join(parts[:-1]) if parts[0] == "core" else parts[0]


class CountedProgram(Program):
    """A program that counts its launches."""

    def __init__(self, program: Program, counter: LaunchCounter) -> None:
        self.program, self._counter = program, counter

    def __call__(
        self,
        buffers: Sequence[Block],
        scalars: Sequence[int | float],
        global_size: LaunchSize = (1, 1, 1),
        local_size: LaunchSize = (1, 1, 1),
        wait: bool = False,
    ) -> float | None:
        """Launch it, then count."""
        seconds = self.program(buffers, scalars, global_size, local_size, wait)
        self._counter.add(self.program)
        return seconds


class CountedRecording(Recording):
    """A recording that counts the launches of each replay."""

    def __init__(
        self, recording: Recording, programs: Sequence[Program], counter: LaunchCounter
    ) -> None:
        self.recording, self._programs, self._counter = recording, programs, counter

    def replay(self, blocks: Sequence[Block], scalars: Mapping[int, int | float]) -> None:
        """Replay it, then count."""
        self.recording.replay(blocks, scalars)
        for program in self._programs:
            self._counter.add(program)


class CountedLoader(Loader):
    """A loader whose programs count their launches."""

    def __init__(self, loader: Loader, counter: LaunchCounter) -> None:
        self.loader, self.counter = loader, counter

    def load(self, name: str, binary: bytes) -> Program:
        """The program, counted."""
        program = self.loader.load(name, binary)
        self.counter.loaded(program)
        return CountedProgram(program, self.counter)


class CountedRecordingLoader(CountedLoader):
    """The same for a loader that records."""

    def record(self, calls: Sequence[RecordedCall], support: Mapping[str, bytes]) -> Recording:
        """The recording of the programs themselves, counted."""
        plain = [call._replace(program=_plain(call.program)) for call in calls]
        recording = self.loader.record(plain, support)
        return CountedRecording(recording, [call.program for call in plain], self.counter)


def _plain(program: Program) -> Program:
    return program.program if isinstance(program, CountedProgram) else program


def count_launches(opened: OpenedDevice) -> LaunchCounter:
    """Wrap the loaders of a device that has loaded nothing yet; asked again, the same counter."""
    loaders: Any = opened.loaders
    first = next(iter(loaders.values()))
    if isinstance(first, CountedLoader):
        return first.counter
    counter = LaunchCounter(opened)
    for binary_format, loader in list(loaders.items()):
        kind = CountedRecordingLoader if offers(loader, "record") else CountedLoader
        loaders[binary_format] = kind(loader, counter)
    return counter
