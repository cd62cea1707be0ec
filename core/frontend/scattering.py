"""Writing at places that data says.

The one place where scatters are expressed. They are sums and choices over all updates, in order;
stored by a kernel of its own, such a reduction becomes a loop over the updates (the pass
scatter-updates), without that the work is places x updates.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from core.frontend.broadcasting import broadcast, elementwise
from core.frontend.conversion import working
from core.frontend.derivative import with_derivative
from core.frontend.iota import iota
from core.ir import Op, UOp, broadcast_shapes, dtypes

# Pairs of updates and places that are compared one by one in the kernel that wants the result.
_TINY: Final = 4096


def scatter_add(shape: tuple[int, ...], indices: Sequence[UOp], updates: UOp) -> UOp:
    """Sums of the updates at each place of zeros of `shape`.

    Args:
        shape: Shape of the result: the indexed axes, then the others.
        indices: Integer values that broadcast together, one per indexed axis; negative ones count
            from the end, those out of range are dropped.
        updates: Of the indices' common shape, then the other axes.
    """
    matches, flat = _matches(shape, indices, updates)
    chosen = elementwise(Op.WHERE, matches, flat, updates.const_like(0))
    return _over_updates(chosen, Op.ADD)


def last_update(shape: tuple[int, ...], indices: Sequence[UOp]) -> UOp:
    """For each place, the number of the last update that names it (row-major), or -1; int32."""
    matches, numbers = _matches(shape, indices, None)
    chosen = elementwise(Op.WHERE, matches, numbers, UOp.const(-1, dtypes.int32))
    return _over_updates(chosen, Op.MAX)


def _over_updates(chosen: UOp, op: Op) -> UOp:
    """The reduction over the first axis, stored by a kernel of its own unless it is tiny.

    Sums of small floats are stored as they are summed, and rounded by whoever reads them.
    """
    narrow = chosen.dtype
    wide = narrow if op is Op.MAX or not narrow.is_float else working(narrow)
    value = chosen.cast(wide).reduce(op, axes=1)
    return (value if prod(chosen.shape) < _TINY else value.contiguous()).cast(narrow)


def _matches(
    shape: tuple[int, ...], indices: Sequence[UOp], updates: UOp | None
) -> tuple[UOp, UOp]:
    """(update, place) pairs that match, and the updates (or their numbers) beside them."""
    common: tuple[int, ...] = ()
    for index in indices:
        common = broadcast_shapes(common, index.shape)
    count, rank = prod(common), len(shape)
    rest = shape[len(indices):]
    pairs = (count, *shape)
    matches: UOp | None = None
    for axis, index in enumerate(indices):
        extent = shape[axis]
        place = wrapped(broadcast(index, common).reshape((count,)), extent)
        left = broadcast(place.reshape((count, *(1 for _ in shape))), pairs)
        right = iota(extent, place.dtype).reshape([extent if a == axis else 1
                                                   for a in range(rank)])
        equal = left.eq(broadcast(right, pairs))
        matches = equal if matches is None else matches & equal
    assert matches is not None
    if updates is None:
        numbers = iota(count, dtypes.int32).reshape((count, *(1 for _ in shape)))
        return matches, broadcast(numbers, pairs)
    flat = updates.reshape((count, *(1 for _ in indices), *rest))
    return matches, broadcast(flat, pairs)


def wrapped(index: UOp, extent: int) -> UOp:
    """An index as machine integers, negative ones counted from the end."""
    if index.op is Op.CAST and index.dtype is dtypes.weak_int:
        index = index.src[0]
    if not index.dtype.is_machine_integer or index.dtype.bits < 32:
        index = index.cast(dtypes.int32)
    if not index.dtype.is_signed:
        return index
    return (index < 0).where(index + extent, index)


def zeros_out_of_range(found: UOp, indices: Sequence[UOp], shape: tuple[int, ...]) -> UOp:
    """What a gather found, 0 where an index leaves its axis: Invalid may not be stored."""
    inside: UOp | None = None
    front: tuple[int, ...] = ()
    for index, extent in zip(indices, shape, strict=False):
        front = broadcast_shapes(front, index.shape)
        if index.op is not Op.CAST:
            continue  # a table of the frontend's own: in range
        place = wrapped(index, extent)
        test = (place < extent) if not place.dtype.is_signed else (place >= 0) & (place < extent)
        inside = test if inside is None else elementwise(Op.AND, inside, test)
    if inside is None:
        return found
    wide = broadcast(inside, front)
    wide = wide.reshape((*front, *(1 for _ in found.shape[len(front):])))
    return broadcast(wide, found.shape).where(found, 0)


def gathered_along(x: UOp, axis: int, index: UOp) -> UOp:
    """x[..., index[..., i, ...], ...]; the other axes are equal in extent."""
    rank = len(x.shape)
    tables = []
    for a, extent in enumerate(x.shape):
        if a == axis:
            tables.append(index.cast(dtypes.weak_int))
        else:
            tables.append(iota(extent).reshape([extent if b == a else 1 for b in range(rank)]))
    value = zeros_out_of_range(x.index(*tables), tables, x.shape)

    def rule(g: UOp, value: UOp, x: UOp) -> tuple[UOp]:
        return (added_along(x.shape, axis, index, g),)

    return with_derivative(value, (x,), rule)


def added_along(shape: tuple[int, ...], axis: int, index: UOp, updates: UOp) -> UOp:
    """The adjoint of `gathered_along`: sums of the updates that name each place."""
    matches = _matches_along(shape, axis, index)
    wide = broadcast(_updates_first(updates, axis), matches.shape)
    total = _over_updates(elementwise(Op.WHERE, matches, wide, wide.const_like(0)), Op.ADD)
    value = _from_front(total, axis)

    def rule(g: UOp, value: UOp, updates: UOp) -> tuple[UOp]:
        return (gathered_along(g, axis, index),)

    return with_derivative(value, (updates,), rule)


def reduced_along(
    shape: tuple[int, ...], axis: int, index: UOp, updates: UOp, op: Op
) -> tuple[UOp, UOp]:
    """The updates that name each place along an axis, combined; and how many they are, int32."""
    matches = _matches_along(shape, axis, index)
    wide = broadcast(_updates_first(updates, axis), matches.shape)
    neutral = {Op.ADD: 0, Op.MUL: 1, Op.MAX: updates.dtype.minimum}[op]
    chosen = elementwise(Op.WHERE, matches, wide, wide.const_like(neutral))
    one = UOp.const(1, dtypes.int32)
    count = _over_updates(elementwise(Op.WHERE, matches, one, one.const_like(0)), Op.ADD)
    return _from_front(_over_updates(chosen, op), axis), _from_front(count, axis)


def last_along(shape: tuple[int, ...], axis: int, index: UOp) -> UOp:
    """For each place, the number along `axis` of the last update that names it, or -1; int32."""
    matches = _matches_along(shape, axis, index)
    numbers = iota(matches.shape[0], dtypes.int32)
    numbers = broadcast(numbers.reshape((matches.shape[0], *(1 for _ in shape))), matches.shape)
    chosen = elementwise(Op.WHERE, matches, numbers, UOp.const(-1, dtypes.int32))
    return _from_front(_over_updates(chosen, Op.MAX), axis)


def _matches_along(shape: tuple[int, ...], axis: int, index: UOp) -> UOp:
    """Whether update k names place i: (k, i, other axes)."""
    extent, count = shape[axis], index.shape[axis]
    others = [n for a, n in enumerate(shape) if a != axis]
    pairs = (count, extent, *others)
    left = broadcast(_updates_first(wrapped(index, extent), axis), pairs)
    right = iota(extent, left.dtype).reshape((extent, *(1 for _ in others)))
    return left.eq(broadcast(right, pairs))


def _updates_first(x: UOp, axis: int) -> UOp:
    """(..., k, ...) → (k, 1, other axes)."""
    moved = x.permute((axis, *(a for a in range(len(x.shape)) if a != axis)))
    return moved.reshape((moved.shape[0], 1, *moved.shape[1:]))


def _from_front(x: UOp, axis: int) -> UOp:
    order = list(range(1, len(x.shape)))
    order.insert(axis, 0)
    return x.permute(order)
