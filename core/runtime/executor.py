"""Runs a compiled LINEAR: bound once, then replayed as a plain loop that looks nothing up."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any

from core.foundation.errors import DeviceError, UnsupportedError
from core.foundation.settings import settings
from core.ir import AddressSpace, Op, ProgramInfo, UOp, largest_bytes
from core.plugin.interfaces import Program, Recording
from core.plugin.opening import OpenedDevice
from core.runtime.command_list import record
from core.runtime.copies import Copy, copy_path
from core.runtime.counters import GlobalCounters
from core.runtime.device import open_device
from core.runtime.memory import block_cache
from core.schedule.plan_memory import FIRST_ARENA


@dataclass(frozen=True)
class Place:
    """An argument of a CALL: which argument of the schedule, from which byte on."""

    slot: int
    offset: int
    size_bytes: int


def place_of(argument: UOp, argument_count: int) -> Place:
    """The place that a CALL's argument names: a PARAM, or a SHRINK or BITCAST of one.

    Arenas stand behind the arguments.
    """
    offset, size = 0, largest_bytes(argument)
    node = argument
    while node.op in (Op.SHRINK, Op.BITCAST):
        if node.op is Op.SHRINK:
            offset += int(node.src[1].src[0].value) * node.dtype.itemsize
        node = node.src[0]
    slot = node.arg.slot
    if slot >= FIRST_ARENA:
        slot += argument_count - FIRST_ARENA
    return Place(slot, offset, size)


def param_of(argument: UOp) -> UOp:
    """The PARAM below a CALL's argument."""
    while argument.op in (Op.SHRINK, Op.BITCAST):
        argument = argument.src[0]
    return argument


@dataclass
class Launch:
    """One bound CALL of a program."""

    program: Program
    places: tuple[Place, ...]
    scalars: tuple[int, ...]
    info: ProgramInfo
    opened: OpenedDevice
    global_size: tuple[int, int, int]
    local_size: tuple[int, int, int]

    @cached_property
    def recording(self) -> Recording | None:
        """This launch alone, for devices that record."""
        return record([self])

    def run(self, blocks: Sequence[Any], values: Mapping[int, Any], *, wait: bool) -> float | None:
        """Launch it on the blocks of the schedule's arguments."""
        if self.recording is not None:
            started = time.perf_counter()
            self.recording.replay(blocks, values)
            if wait:
                self.opened.device.synchronize()
            return time.perf_counter() - started if wait else None
        view = self.opened.allocator.view
        buffers = [
            view(blocks[p.slot], p.offset, p.size_bytes) if p.offset else blocks[p.slot]
            for p in self.places
        ]
        scalars = [values[s] for s in self.scalars]
        return self.program(buffers, scalars, self.global_size, self.local_size, wait)


@dataclass
class Transfer:
    """One bound COPY."""

    path: Copy
    destination: Place
    source: Place

    def run(self, blocks: Sequence[Any], values: Mapping[int, Any], *, wait: bool) -> float | None:
        """Copy between the blocks of the schedule's arguments."""
        to, start = self.destination, self.source
        started = time.perf_counter()
        self.path(blocks[to.slot], to.offset, blocks[start.slot], start.offset, to.size_bytes)
        return time.perf_counter() - started


@dataclass
class Arena:
    """Storage of intermediate values, allocated for each run."""

    slot: int
    size_bytes: int
    opened: OpenedDevice


class BoundSchedule:
    """A compiled LINEAR with its programs loaded and its arguments resolved."""

    def __init__(self, linear: UOp, argument_count: int, default_device: str) -> None:
        self.argument_count = argument_count
        self.arenas: list[Arena] = []
        self.steps: list[Launch | Transfer] = []
        arenas: dict[int, Arena] = {}
        for call in linear.src:
            for argument in call.src[1:]:
                param = param_of(argument)
                if param.arg.slot >= FIRST_ARENA and param.arg.slot not in arenas:
                    opened = open_device(param.arg.device or default_device)
                    arenas[param.arg.slot] = Arena(param.arg.slot, param.size_bytes, opened)
            self.steps.append(self._bind(call, default_device))
        self.arenas = [arenas[slot] for slot in sorted(arenas)]
        self._caches = [(block_cache(a.opened), a.size_bytes) for a in self.arenas]
        launches = [step for step in self.steps if isinstance(step, Launch)]
        self._flops = sum(step.info.flops for step in launches)
        self._bytes = sum(step.info.bytes_moved for step in launches)
        self.parts = _recorded(self.steps)

    def _bind(self, call: UOp, default_device: str) -> Launch | Transfer:
        body, arguments = call.src[0], call.src[1:]
        devices = [open_device(param_of(a).arg.device or default_device) for a in arguments
                   if param_of(a).arg.space is not AddressSpace.ALU]
        if body.op is Op.COPY:
            return Transfer(copy_path(devices[0], devices[1]), *(
                place_of(a, self.argument_count) for a in arguments))
        if body.op is not Op.PROGRAM:
            raise UnsupportedError(f"a CALL of {body.op.name} cannot be run yet")
        opened, info = devices[0], body.arg
        program = load_program(opened, body)
        places = tuple(place_of(arguments[slot], self.argument_count) for slot in info.buffers)
        scalars = tuple(param_of(arguments[slot]).arg.slot for slot in info.scalars)
        return Launch(program, places, scalars, info, opened, _three(info.global_size),
                      _three(info.local_size or (1,)))

    def run(self, blocks: Sequence[Any], values: Mapping[int, Any]) -> None:
        """Run every step in order.

        Args:
            blocks: Device block of each argument of the schedule; None for scalars.
            values: Value of each scalar argument, by slot.
        """
        full = list(blocks)
        try:
            for cache, size in self._caches:
                full.append(cache.allocate(size))
            if settings.DEBUG >= 2:
                self._run_shown(full, values)
            else:
                self.launch(full, values)
        finally:
            for (cache, size), block in zip(
                    self._caches, full[self.argument_count:], strict=False):
                cache.free(block, size)
        GlobalCounters.kernel_count += len(self.steps)
        GlobalCounters.global_ops += self._flops
        GlobalCounters.global_mem += self._bytes

    def launch(self, blocks: Sequence[Any], values: Mapping[int, Any]) -> None:
        """Run every step on the blocks of arguments and arenas, without counting."""
        for part in self.parts:
            if isinstance(part, Recording):
                part.replay(blocks, values)
            else:
                part.run(blocks, values, wait=False)

    def _run_shown(self, blocks: Sequence[Any], values: Mapping[int, Any]) -> None:
        """Run step by step and print a line for each (DEBUG=2)."""
        for step in self.steps:
            started = time.perf_counter()
            seconds = step.run(blocks, values, wait=True)
            if seconds is None:
                seconds = time.perf_counter() - started
            GlobalCounters.time_sum_s += seconds
            sys.stderr.write(describe_step(step, seconds) + "\n")


def _recorded(steps: Sequence[Launch | Transfer]) -> list[Launch | Transfer | Recording]:
    """The steps, those that follow each other on a device that records as one."""
    parts: list[Launch | Transfer | Recording] = []
    for launches, group in groupby(steps, key=lambda s: isinstance(s, Launch) and s.opened):
        found = list(group)
        recording = record(found) if launches else None  # type: ignore[arg-type]
        parts += found if recording is None else [recording]
    return parts


def describe_step(step: Launch | Transfer, seconds: float) -> str:
    """One line about a step that ran: name, extent, time, rates."""
    micro = seconds * 1e6
    if isinstance(step, Transfer):
        rate = step.destination.size_bytes / max(seconds, 1e-9) / 1e9
        return f"copy   {step.destination.size_bytes:>12} bytes {micro:10.1f} us {rate:7.1f} GB/s"
    info = step.info
    flops, moved = info.flops / max(seconds, 1e-9) / 1e9, info.bytes_moved / max(seconds, 1e-9)
    return (f"{step.opened.name:6} {info.name:<40} {info.global_size[0]:>6} items "
            f"{micro:10.1f} us {moved / 1e9:7.1f} GB/s {flops:8.1f} GF/s")


def _three(size: tuple[int, ...]) -> tuple[int, int, int]:
    padded = (*size, 1, 1, 1)
    return padded[0], padded[1], padded[2]


_programs: dict[tuple[int, str, bytes], Program] = {}


def load_program(opened: OpenedDevice, program: UOp) -> Program:
    """The loaded program of a PROGRAM with a binary; each binary is loaded once per device."""
    binary = program.src[3].arg
    key = (id(opened.device), program.arg.name, binary)
    found = _programs.get(key)
    if found is None:
        try:
            found = _programs[key] = opened.loader.load(program.arg.name, binary)
        except (DeviceError, KeyboardInterrupt):
            raise
        except Exception as error:
            raise DeviceError(f"{opened.name} cannot load the program {program.arg.name}: {error}",
                              graph=program.src[2].arg) from error
    return found
