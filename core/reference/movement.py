"""Movement ops on values; the axes of ranges stay in front."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from core.foundation.errors import IndexOutOfRangeError, ShapeError
from core.ir import Op, UOp
from core.reference import formats
from core.reference.formats import Array
from core.reference.values import AxisOrder, Value, conjunction, full_mask, spread


def dims_of(value: Value) -> tuple[int, ...]:
    """The integers of a shape source.

    Raises:
        ShapeError: It depends on a range: no array has such a shape.
    """
    if value.axes:
        raise ShapeError("a shape or an offset depends on a range")
    return tuple(int(n) for n in value.array)


def _both(value: Value, move: Callable[[Array], Array]) -> Value:
    """The same movement of array and validity."""
    mask = full_mask(value)
    return Value(move(value.array), None if mask is None else move(mask), value.axes)


def _permute(node: UOp, src: Sequence[Value]) -> Value:
    lead = len(src[0].axes)
    order = (*range(lead), *(lead + k for k in node.arg))
    return _both(src[0], lambda a: a.transpose(order))


def _flip(node: UOp, src: Sequence[Value]) -> Value:
    steps = [slice(None)] * len(src[0].axes)
    steps += [slice(None, None, -1 if flag else 1) for flag in node.arg]
    return _both(src[0], lambda a: a[tuple(steps)])


def _reshape(node: UOp, src: Sequence[Value]) -> Value:
    lead, shape = src[0].array.shape[:len(src[0].axes)], dims_of(src[1])
    return _both(src[0], lambda a: a.reshape(lead + shape))


def _expand(node: UOp, src: Sequence[Value]) -> Value:
    count, new = len(src[0].axes), dims_of(src[1])

    def move(a: Array) -> Array:
        lead, own = a.shape[:count], a.shape[count:]
        return np.broadcast_to(a.reshape(lead + (1,) * len(new) + own), lead + new + own)

    return _both(src[0], move)


def _box(
    count: int, offset: Sequence[int], inner: Sequence[int], outer: Sequence[int], name: str
) -> tuple[slice, ...]:
    """Slices of a box, behind the axes of ranges."""
    for at, m, n in zip(offset, inner, outer, strict=True):
        if not 0 <= at <= at + m <= n:
            raise ShapeError(f"{name}: a box of {tuple(inner)} at {tuple(offset)} leaves "
                             f"{tuple(outer)}")
    return (slice(None),) * count + tuple(
        slice(at, at + m) for at, m in zip(offset, inner, strict=True))


def _pad(node: UOp, src: Sequence[Value]) -> Value:
    value, offset, shape = src[0], dims_of(src[1]), dims_of(src[2])
    place = _box(len(value.axes), offset, value.shape, shape, "PAD")
    full = value.array.shape[:len(value.axes)] + shape
    array, valid = np.zeros(full, value.array.dtype), np.zeros(full, np.bool_)
    array[place] = value.array
    mask = full_mask(value)
    valid[place] = True if mask is None else mask
    return Value(array, valid, value.axes)


def _shrink(node: UOp, src: Sequence[Value]) -> Value:
    offset, shape = dims_of(src[1]), dims_of(src[2])
    place = _box(len(src[0].axes), offset, shape, src[0].shape, "SHRINK")
    return _both(src[0], lambda a: a[place])


def _bitcast(node: UOp, src: Sequence[Value]) -> Value:
    value, old, new = src[0], node.src[0].dtype, node.dtype
    mask: Any = full_mask(value)
    if mask is not None and new.itemsize < old.itemsize:
        mask = np.repeat(mask, old.itemsize // new.itemsize, axis=-1)
    elif mask is not None and new.itemsize > old.itemsize:
        mask = mask.reshape((*mask.shape[:-1], -1, new.itemsize // old.itemsize)).all(axis=-1)
    return Value(formats.bitcast(value.array, old, new), mask, value.axes)


MOVES: Final[dict[Op, Callable[[UOp, Sequence[Value]], Value]]] = {
    Op.PERMUTE: _permute, Op.FLIP: _flip, Op.RESHAPE: _reshape, Op.EXPAND: _expand, Op.PAD: _pad,
    Op.SHRINK: _shrink, Op.BITCAST: _bitcast,
}


def stack(values: Sequence[Value], order: AxisOrder) -> Value:
    """Values along a new leading dimension."""
    if not values:
        return Value(np.zeros(0, np.int64))
    axes = order.union(v.axes for v in values)
    arrays = np.broadcast_arrays(*(spread(v.array, v.axes, axes, v.rank) for v in values))
    valid: Any = None
    if any(v.valid is not None for v in values):
        masks = [np.asarray(True) if v.valid is None else spread(v.valid, v.axes, axes, v.rank)
                 for v in values]
        wide = [np.broadcast_to(m, a.shape) for m, a in zip(masks, arrays, strict=True)]
        valid = np.asarray(np.stack(wide, axis=len(axes)))
    return Value(np.stack(arrays, axis=len(axes)), valid, axes)


def gather(
    value: Value, indices: Sequence[Value], order: AxisOrder, strict: str | None = None
) -> Value:
    """INDEX of a value, from the left.

    Args:
        value: What is indexed.
        indices: Integers; those of higher rank are broadcast together and stand in front.
        order: The order of axes.
        strict: Where given, an index that is there must lie in range; the name of what is
            indexed, for the message. Else negative ones count from the end, and what is out of
            range is not there.
    """
    axes = order.union([value.axes, *(i.axes for i in indices)])
    rank = max((i.rank for i in indices), default=0)
    places: list[Any] = []
    masks: list[Array] = []
    for loop, n in zip(value.axes, value.array.shape, strict=False):
        places.append(spread(np.arange(n), (loop,), axes, rank))
    for position, index in enumerate(indices):
        extent = value.shape[position]
        place = spread(index.array, index.axes, axes, rank)
        there = None if index.valid is None else spread(index.valid, index.axes, axes, rank)
        if there is not None:
            masks.append(there)
        inside = _in_range(place, extent, from_end=strict is None)
        if not inside.all():
            _check_strict(place, there, inside, extent, strict)
            masks.append(inside)
        signed = place.astype(np.int64)
        signed = np.where(signed < 0, signed + extent, signed)
        places.append(np.where(inside if there is None else inside & there, signed, 0))
    rest = (1,) * (value.rank - len(indices))
    valid = conjunction(masks)
    if valid is not None:
        valid = valid.reshape(valid.shape + rest)
    if any(n == 0 for n in value.shape[:len(indices)]):  # nothing to read, and nothing is there
        front = np.broadcast_shapes(*(p.shape for p in places))
        full = front + value.shape[len(indices):]
        return Value(np.zeros(full, value.array.dtype), np.zeros(full, np.bool_), axes)
    at = tuple(places)
    mask = full_mask(value)
    if mask is not None:
        valid = mask[at] if valid is None else mask[at] & valid
    return Value(np.asarray(value.array[at]), None if valid is None else np.asarray(valid), axes)


def _in_range(place: Array, extent: int, *, from_end: bool) -> Array:
    low = -extent if from_end and place.dtype.kind == "i" else 0
    return np.asarray((place >= low) & (place < extent))


def _check_strict(
    place: Array, there: Array | None, inside: Array, extent: int, name: str | None
) -> None:
    wrong = ~inside if there is None else ~inside & there
    if name is not None and wrong.any():
        index = int(np.broadcast_to(place, wrong.shape)[wrong].flat[0])
        raise IndexOutOfRangeError(f"{name} has {extent} elements along this axis; read at {index}")
