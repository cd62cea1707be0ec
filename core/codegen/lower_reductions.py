"""lower-reductions: REDUCE becomes an accumulator in registers, its start, its loop and its end.

    REDUCE(x, k)  →  a = BUFFER REG
                     start: a[u'] = neutral              for u' in the open tile
                     loop:  a[u'] = a[u'] op x(k, u')    for k, for u'
                     value: a[u]                         after the loop

Open UPCAST, LANE and UNROLL ranges become axes of the accumulator, closed over copies of
themselves: so a register tile shares one loop. A reduce range of type UNROLL is folded into the
statement; of type UPCAST or LANE it is an axis of partial results, combined after the loop
(a reduction may be split into partial sums).
"""

from __future__ import annotations

from itertools import count, product

from core.codegen.loop_nest import LoopNest, is_expanded, trip_count
from core.ir import (
    AddressSpace,
    AxisType,
    BufferSlot,
    DType,
    Op,
    UOp,
    map_graph,
    neutral_element,
    open_ranges,
)
from core.ir import substitute as substitute_nodes
from core.simplify import simplify


def private_buffer(number: int, dtype: DType, size: int, space: AddressSpace) -> UOp:
    """REG or LOCAL storage of a kernel."""
    return UOp(Op.BUFFER, (UOp.dims((size,)),), BufferSlot(number, dtype, None, space))


def tile_order(ranges: frozenset[UOp]) -> list[UOp]:
    """Open tile ranges in the order of their axes in storage: the lanes innermost."""
    return sorted(ranges, key=lambda r: (r.arg.axis_type is AxisType.LANE, r.arg.id))


def tile_position(ranges: list[UOp]) -> tuple[UOp, int]:
    """Row-major position in a tile, and the number of its elements."""
    position, stride = UOp.const(0), 1
    for r in reversed(ranges):
        position = r * stride + position
        stride *= trip_count(r) or 1
    return position, stride


class _Reducer:
    def __init__(self, nest: LoopNest, *, fused: bool) -> None:
        self.fused = fused
        self.numbers = count(nest.next_number)
        self.buffers = count()

    def copies(self, ranges: list[UOp]) -> dict[UOp, UOp]:
        """Fresh ranges of the same extents and types."""
        return {r: UOp.range(r.src[0], next(self.numbers), r.arg.axis_type) for r in ranges}

    def lower(self, node: UOp) -> UOp:
        op, value, ranges = node.arg.op, node.src[0], node.src[1:]
        opened = open_ranges(node)
        tile = tile_order(frozenset(r for r in opened if is_expanded(r)))
        partial = tile_order(frozenset(
            r for r in ranges if r.arg.axis_type in (AxisType.UPCAST, AxisType.LANE)))
        unrolled = [r for r in ranges if r.arg.axis_type is AxisType.UNROLL]
        loops = [r for r in ranges if not is_expanded(r)]
        fresh = self.copies(tile)
        axes = tile_order(frozenset([*fresh.values(), *partial]))
        position, size = tile_position(axes)
        accumulator = private_buffer(next(self.buffers), node.dtype, size, AddressSpace.REG)
        outer = sorted((r for r in opened if not is_expanded(r)), key=lambda r: r.arg.id)
        place = accumulator.after(*outer).index(position)
        start = place.store(node.const_like(neutral_element(op, node.dtype))).end(*axes)
        inside = accumulator.after(start, *loops).index(position)
        result = inside.load()
        moved = substitute_nodes(value, fresh)
        for part in _copies_of(moved, unrolled):
            result = self.accumulate(op, result, part)
        loop = inside.store(result).end(*loops, *axes)
        original = substitute_nodes(position, {new: old for old, new in fresh.items()})
        return self._combined(node, accumulator.after(loop), partial, original)

    def accumulate(self, op: Op, total: UOp, part: UOp) -> UOp:
        """One step of a reduction; rule multiply-accumulate: a sum of products is fused."""
        if self.fused and op is Op.ADD and part.op is Op.MUL and part.dtype.is_float:
            return UOp(Op.MULACC, (*part.src, total))
        return total.alu(op, part)

    @staticmethod
    def _combined(node: UOp, storage: UOp, partial: list[UOp], position: UOp) -> UOp:
        """The value after the loop: partial results combined as a tree."""
        lane = next((r for r in partial if r.arg.axis_type is AxisType.LANE), None)
        separate = [r for r in partial if r is not lane]
        first = {} if lane is None else {lane: UOp.const(0)}
        parts = []
        for chosen in product(*(range(trip_count(r) or 1) for r in separate)):
            at = substitute_nodes(position, first | dict(
                zip(separate, map(UOp.const, chosen), strict=True)))
            place = storage.index(at) if lane is None else storage.lanes(at, trip_count(lane) or 1)
            parts.append(place.load())
        while len(parts) > 1:
            pairs = [a.alu(node.arg.op, b) for a, b in zip(parts[::2], parts[1::2], strict=False)]
            parts = pairs + ([parts[-1]] if len(parts) % 2 else [])
        return parts[0] if lane is None else parts[0].reduce(node.arg.op, axes=1)


def _copies_of(value: UOp, ranges: list[UOp]) -> list[UOp]:
    """A value at every point of some ranges, in order."""
    return [
        substitute_nodes(value, dict(zip(ranges, map(UOp.const, chosen), strict=True)))
        for chosen in product(*(range(trip_count(r) or 1) for r in ranges))
    ]


def lower_reductions(sink: UOp, *, fused: bool) -> UOp:
    """Lower every REDUCE over ranges; a reduction of a vector's lanes stays.

    Args:
        sink: The kernel.
        fused: Whether sums of products use MULACC (one of the three rules that may change
            rounding: the product is not rounded).
    """
    reducer = _Reducer(LoopNest(sink), fused=fused)

    def visit(node: UOp, original: UOp) -> UOp:
        if node.op is Op.REDUCE and len(node.src) > 1:
            return reducer.lower(node)
        return node

    return simplify(map_graph(sink, visit))



