"""The value of one node from those of its sources: what tensor graphs and kernels share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from core.foundation.errors import UnsupportedError
from core.ir import ELEMENTWISE, Op, UOp
from core.reference.elementwise import elementwise
from core.reference.formats import HELD, held
from core.reference.movement import MOVES, gather, stack
from core.reference.reductions import Partial, finish, reduce_part
from core.reference.values import Axes, AxisOrder, Value, aligned, axes_first, spread, with_axes

_SAME: Final = frozenset({
    Op.DETACH, Op.CONTIGUOUS_BACKWARD, Op.CONTIGUOUS, Op.COPY, Op.AFTER})


class Context:
    """What the value of a node may depend on besides its sources.

    Attributes:
        order: The order of ranges as axes.
        lengths: How many positions of each range are computed at once.
    """

    def __init__(self, order: AxisOrder | None = None) -> None:
        self.order = order or AxisOrder()
        self.lengths: dict[UOp, int] = {}

    def loop(self, node: UOp, start: int, stop: int) -> Value:
        """The positions [start, stop) of a RANGE, as an axis of its own."""
        self.lengths[node] = stop - start
        return Value(np.arange(start, stop).astype(HELD[node.dtype]), None, (node,))


def constant_value(node: UOp) -> Value:
    """The value of a CONST."""
    if node.is_invalid:
        return Value(np.zeros((), HELD[node.dtype]), np.asarray(False))
    return Value(held(node.value, node.dtype))


def elementwise_value(node: UOp, sources: Sequence[Value], context: Context) -> Value:
    """The value of an elementwise op; it is there where all operands are."""
    axes, arrays, valid = aligned(sources, context.order)
    if node.op is not Op.WHERE:
        dtypes = [s.dtype for s in node.src]
        return Value(elementwise(node.op, arrays, dtypes, node.dtype), valid, axes)
    result = np.where(*arrays)
    if valid is None:
        return Value(result, None, axes)
    # WHERE may remove what is not there: the branch not taken does not count.
    rank = result.ndim - len(axes)
    condition, yes, no = (
        np.True_ if s.valid is None else spread(s.valid, s.axes, axes, rank) for s in sources)
    chosen = np.asarray(condition & np.where(arrays[0], yes, no))
    return Value(result, None if chosen.all() else chosen, axes)


def reduce_ranges(node: UOp, value: Value, context: Context) -> tuple[Partial, Axes]:
    """A REDUCE of the positions that are computed at once, and the axes that are left."""
    ranges = tuple(r for r in node.src[1:] if r in context.lengths)
    wide = with_axes(value, ranges, context.lengths, context.order)
    array, mask, kept = axes_first(wide, ranges)
    axis = tuple(range(len(kept), len(kept) + len(ranges) + node.arg.axes))
    return reduce_part(node.arg.op, node.dtype, array, mask, axis), kept


def finished(node: UOp, part: Partial, axes: Axes) -> Value:
    """The value of a REDUCE from its last partial result."""
    return Value(finish(node.arg.op, node.dtype, part), None, axes)


def stage_value(node: UOp, value: Value, context: Context) -> Value:
    """A value tabulated over ranges, which become the leading dimensions."""
    ranges = node.src[1:]
    array, mask, kept = axes_first(
        with_axes(value, ranges, context.lengths, context.order), ranges)
    return Value(array, mask, kept)


def node_value(node: UOp, sources: Sequence[Value], context: Context) -> Value:
    """The value of a node that needs no storage.

    Raises:
        UnsupportedError: The op has no value that numpy could hold.
    """
    op = node.op
    if op in ELEMENTWISE:
        return elementwise_value(node, sources, context)
    if op is Op.CONST:
        return constant_value(node)
    if op in MOVES:
        return MOVES[op](node, sources)
    if op is Op.INDEX:
        return gather(sources[0], sources[1:], context.order)
    if op is Op.STACK:
        return stack(sources, context.order)
    if op is Op.REDUCE:
        return finished(node, *reduce_ranges(node, sources[0], context))
    if op is Op.RANGE:
        return context.loop(node, 0, int(sources[0].array))
    if op is Op.STAGE:
        return stage_value(node, sources[0], context)
    if op in _SAME:
        return sources[0]
    raise UnsupportedError(f"the reference has no value for {op.name}")
