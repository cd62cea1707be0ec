"""plan-memory: intermediate values of a LINEAR share one arena per device.

    CALL(kernel, PARAM 7, ...) → CALL(kernel, BITCAST(SHRINK(arena, offset, bytes)), ...)

Lifetimes are those of the final order. Slots are 64-byte aligned; a slot is free again after the
last reader of its value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from core.foundation.offset_allocator import OffsetAllocator
from core.ir import ParamSlot, UOp, dtypes


def plan_memory(calls: Sequence[UOp], arguments: int) -> list[UOp]:
    """Replace intermediate PARAMs (slot >= arguments) by slices of arenas.

    Args:
        calls: CALLs in the order in which they run.
        arguments: Number of arguments of the schedule itself.

    Returns:
        The CALLs with arena PARAMs: one per device, slots from `arguments` on, sized in bytes.
    """
    last: dict[UOp, int] = {}
    for position, call in enumerate(calls):
        for storage in call.src[1:]:
            if _is_intermediate(storage, arguments):
                last[storage] = position
    allocators: dict[Any, OffsetAllocator] = {}
    offsets: dict[UOp, int] = {}
    for position, call in enumerate(calls):
        mine = [s for s in dict.fromkeys(call.src[1:]) if _is_intermediate(s, arguments)]
        for storage in mine:
            if storage not in offsets:
                allocator = allocators.setdefault(storage.arg.device, OffsetAllocator())
                offsets[storage] = allocator.allocate(max(storage.size_bytes, 1))
        for storage in mine:
            if last[storage] == position:
                allocators[storage.arg.device].free(offsets[storage])
    arenas = {
        device: UOp.param(arguments + k, dtypes.uint8, (allocator.high_water_bytes,), device)
        for k, (device, allocator) in enumerate(allocators.items())
    }
    mapping = {s: _slice(arenas[s.arg.device], offset, s) for s, offset in offsets.items()}
    return [c.replace(src=(c.src[0], *(mapping.get(s, s) for s in c.src[1:]))) for c in calls]


def _is_intermediate(storage: UOp, arguments: int) -> bool:
    return isinstance(storage.arg, ParamSlot) and storage.arg.slot >= arguments


def _slice(arena: UOp, offset: int, storage: UOp) -> UOp:
    """The bytes of one value in an arena, in its dtype."""
    return arena.shrink((offset,), (storage.size_bytes,)).bitcast(storage.dtype)
