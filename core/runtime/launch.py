"""One launch of a program, bound: which bytes of which arguments it reads and writes."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from threading import RLock
from typing import Any, Final

from core.foundation.errors import DeviceError
from core.foundation.fork import survive_fork
from core.ir import Op, ProgramInfo, UOp, largest_bytes, storage_of
from core.plugin.interfaces import Program, Recording
from core.plugin.opening import OpenedDevice
from core.runtime.command_list import record
from core.schedule.plan_memory import FIRST_ARENA

_one_at_a_time: Final = survive_fork(RLock())
_unlocked: Final = nullcontext()


def launch_lock(*devices: OpenedDevice) -> AbstractContextManager[Any]:
    """What to hold while something is launched: a lock where a device does not take several."""
    return _unlocked if all(d.target.thread_safe for d in devices) else _one_at_a_time


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
        if self.recording is not None and not (wait and self.opened.target.timestamps):
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


def bind_launch(call: UOp, opened: OpenedDevice, argument_count: int) -> Launch:
    """A CALL of a compiled program, its program loaded.

    Args:
        call: CALL(PROGRAM with a binary, arguments...).
        opened: The device that runs it.
        argument_count: Arguments of the schedule, behind which the arenas stand.
    """
    body, arguments = call.src[0], call.src[1:]
    info = body.arg
    places = tuple(place_of(arguments[slot], argument_count) for slot in info.buffers)
    scalars = tuple(storage_of(arguments[slot]).arg.slot for slot in info.scalars)
    return Launch(load_program(opened, body), places, scalars, info, opened,
                  _three(info.global_size), _three(info.local_size or (1,)))


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
