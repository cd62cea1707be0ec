"""A list of kernel calls as one table of addresses, run by one native call."""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Final

from core.plugin import RecordedCall, Recording, replay_table
from core.render import slot_word
from core_plugin_cpu.pool import SIGNATURE, ThreadPool

_SLOT: Final = 8


class HostRecording(Recording):
    """Calls whose arguments are written into one array, then run.

    Args:
        calls: The calls, whose programs have an `address`.
        pool: Runs them.
    """

    def __init__(self, calls: Sequence[RecordedCall], pool: ThreadPool) -> None:
        self._pool = pool
        self._programs = [call.program for call in calls]  # keeps their code in memory
        self._lock = threading.Lock()
        self._blocks = tuple(chain.from_iterable(call.blocks for call in calls))
        self._offsets = tuple(chain.from_iterable(call.offsets for call in calls))
        self._scalars = tuple(chain.from_iterable(call.scalars for call in calls))
        self._layout(calls)

    def _layout(self, calls: Sequence[RecordedCall]) -> None:
        count = sum(len(call.blocks) + len(call.scalars) for call in calls)
        self._arguments = (ctypes.c_uint64 * max(count, 1))()
        start = ctypes.addressof(self._arguments)
        rows, position = [], 0
        self._order: list[tuple[bool, int]] = []  # (is a scalar, its number among them)
        buffer = scalar = 0
        for call in calls:
            shared = call.items > 1 and self._pool.size > 1
            rows.append(replay_table.ROW.pack(
                call.program.address, start + position * _SLOT,  # type: ignore[attr-defined]
                call.items, call.share if shared else 0, int(call.meet), 0))
            self._order += [(False, buffer + k) for k in range(len(call.blocks))]
            self._order += [(True, scalar + k) for k in range(len(call.scalars))]
            buffer, scalar = buffer + len(call.blocks), scalar + len(call.scalars)
            position += len(call.blocks) + len(call.scalars)
        self._rows = b"".join(rows)
        self._shared = any(call.items > 1 for call in calls) and self._pool.size > 1
        self._pack = struct.Struct(f"{count}Q").pack_into
        only = calls[0]
        self._single = None if len(calls) > 1 or self._shared else SIGNATURE(
            only.program.address)  # type: ignore[attr-defined]
        self._single_items = only.items

    def replay(self, blocks: Sequence[Any], scalars: Mapping[int, int | float]) -> None:
        """Write the addresses into the table and run the calls."""
        values: list[int] = [
            blocks[k].address + offset
            for k, offset in zip(self._blocks, self._offsets, strict=True)]
        if self._scalars:
            numbers = [slot_word(scalars[k]) for k in self._scalars]
            values = [numbers[k] if is_scalar else values[k] for is_scalar, k in self._order]
        with self._lock:
            self._pack(self._arguments, 0, *values)
            if self._single is not None:
                self._single(ctypes.addressof(self._arguments), 0, self._single_items, 0)
            else:
                self._pool.run(self._rows, shared=self._shared)
