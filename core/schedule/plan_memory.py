"""plan-memory: intermediate values of a LINEAR share one arena per device.

    CALL(kernel, PARAM 7, ...) → CALL(kernel, BITCAST(SHRINK(arena, offset, bytes)), ...)

Lifetimes are those of the final order. Slots are 64-byte aligned; a slot is free again after the
last reader of its value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from core.foundation.offset_allocator import OffsetAllocator
from core.ir import ParamSlot, UOp, dtypes

#: Slots of intermediate values and arenas begin behind those of any arguments. Their number would
#: not do: the last ones may have gone from the graph, but not from the CALL.
FIRST_ARENA: Final = 1 << 20


def plan_memory(calls: Sequence[UOp]) -> list[UOp]:
    """Replace intermediate PARAMs (slot >= FIRST_ARENA) by slices of arenas.

    Args:
        calls: CALLs in the order in which they run.

    Returns:
        The CALLs with arena PARAMs: one per device, slots from FIRST_ARENA on, sized in bytes.
    """
    last: dict[UOp, int] = {}
    for position, call in enumerate(calls):
        for storage in call.src[1:]:
            if _is_intermediate(storage):
                last[storage] = position
    allocators: dict[Any, OffsetAllocator] = {}
    offsets: dict[UOp, int] = {}
    for position, call in enumerate(calls):
        mine = [s for s in dict.fromkeys(call.src[1:]) if _is_intermediate(s)]
        for storage in mine:
            if storage not in offsets:
                allocator = allocators.setdefault(storage.arg.device, OffsetAllocator())
                offsets[storage] = allocator.allocate(max(storage.size_bytes, 1))
        for storage in mine:
            if last[storage] == position:
                allocators[storage.arg.device].free(offsets[storage])
    arenas = {
        device: UOp.param(FIRST_ARENA + k, dtypes.uint8, (allocator.high_water_bytes,), device)
        for k, (device, allocator) in enumerate(allocators.items())
    }
    mapping = {s: _slice(arenas[s.arg.device], offset, s) for s, offset in offsets.items()}
    return [c.replace(src=(c.src[0], *(mapping.get(s, s) for s in c.src[1:]))) for c in calls]


def _is_intermediate(storage: UOp) -> bool:
    return isinstance(storage.arg, ParamSlot) and storage.arg.slot >= FIRST_ARENA


def _slice(arena: UOp, offset: int, storage: UOp) -> UOp:
    """The bytes of one value in an arena, in its dtype."""
    return arena.shrink((offset,), (storage.size_bytes,)).bitcast(storage.dtype)
