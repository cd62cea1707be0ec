"""Runs a compiled LINEAR: bound once, then replayed as a plain loop that looks nothing up."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from core.foundation.errors import UnsupportedError
from core.foundation.settings import settings
from core.ir import AddressSpace, Op, UOp, storage_of
from core.plugin.interfaces import Recording
from core.plugin.opening import OpenedDevice
from core.runtime.command_list import record
from core.runtime.copies import PairCopy, pair_copy
from core.runtime.counters import GlobalCounters
from core.runtime.device import open_device
from core.runtime.launch import Launch, Place, bind_launch, launch_lock, place_of
from core.runtime.memory import block_cache
from core.schedule.plan_memory import FIRST_ARENA


@dataclass
class Transfer:
    """One bound COPY."""

    copy: PairCopy
    destination: Place
    source: Place

    def run(self, blocks: Sequence[Any], values: Mapping[int, Any], *, wait: bool) -> float | None:
        """Copy between the blocks of the schedule's arguments."""
        to, start = self.destination, self.source
        started = time.perf_counter()
        self.copy(blocks[to.slot], to.offset, blocks[start.slot], start.offset, to.size_bytes)
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
                param = storage_of(argument)
                if param.arg.slot >= FIRST_ARENA and param.arg.slot not in arenas:
                    opened = open_device(param.arg.device or default_device)
                    arenas[param.arg.slot] = Arena(param.arg.slot, param.size_bytes, opened)
            self.steps.append(self._bind(call, default_device))
        self.arenas = [arenas[slot] for slot in sorted(arenas)]
        self._caches = [(block_cache(a.opened), a.size_bytes) for a in self.arenas]
        launches = [step for step in self.steps if isinstance(step, Launch)]
        self._flops = sum(step.info.flops for step in launches)
        self._bytes = sum(step.info.bytes_moved for step in launches)
        self._lock = launch_lock(*(step.opened for step in launches))
        self.parts = _recorded(self.steps)

    def _bind(self, call: UOp, default_device: str) -> Launch | Transfer:
        body, arguments = call.src[0], call.src[1:]
        devices = [open_device(storage_of(a).arg.device or default_device) for a in arguments
                   if storage_of(a).arg.space is not AddressSpace.ALU]
        if body.op is Op.COPY:
            return Transfer(pair_copy(devices[0], devices[1]), *(
                place_of(a, self.argument_count) for a in arguments))
        if body.op is not Op.PROGRAM:
            raise UnsupportedError(f"a CALL of {body.op.name} cannot be run yet")
        return bind_launch(call, devices[0], self.argument_count)

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
        with self._lock:
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
