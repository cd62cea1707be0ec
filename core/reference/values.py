"""Values as arrays: which axes are loops, which are dimensions, and what is there.

A value that depends on RANGEs is held for all their positions at once: its array has one axis for
each of those ranges, in an order that is the same for all values, and then its own dimensions. It
takes no axis of a range on which it does not depend.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np

from core.ir import UOp
from core.reference.formats import Array

Axes = tuple[UOp, ...]


class Value(NamedTuple):
    """What a node stands for.

    Attributes:
        array: One axis per entry of `axes`, then the dimensions of the node's shape.
        valid: Where the value is there, broadcastable to `array`; None is everywhere. What the
            array holds elsewhere means nothing.
        axes: The RANGEs on which the value depends.
    """

    array: Array
    valid: Array | None = None
    axes: Axes = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions without the axes of ranges."""
        return self.array.shape[len(self.axes):]

    @property
    def rank(self) -> int:
        """Number of dimensions without the axes of ranges."""
        return self.array.ndim - len(self.axes)

    def filled(self) -> Array:
        """The array with 0 where the value is not there."""
        if self.valid is None:
            return self.array
        return np.where(self.valid, self.array, self.array.dtype.type(0))


class AxisOrder:
    """The one order of ranges as axes: outer loops first where the caller names them so."""

    def __init__(self, ranges: Iterable[UOp] = ()) -> None:
        self._position = {r: k for k, r in enumerate(dict.fromkeys(ranges))}

    def key(self, loop: UOp) -> int:
        """Position of a range; one not seen before comes after all others."""
        return self._position.setdefault(loop, len(self._position))

    def union(self, groups: Iterable[Axes]) -> Axes:
        """All ranges of some values, in order."""
        distinct = list(dict.fromkeys(groups))
        if len(distinct) == 1:
            return distinct[0]
        return tuple(sorted({r for axes in distinct for r in axes}, key=self.key))


def spread(array: Array, own: Axes, axes: Axes, rank: int) -> Array:
    """A view with an axis of size 1 for each range that it lacks, and `rank` dimensions.

    Args:
        array: Axes `own`, then dimensions, which are aligned on the right.
        own: Ranges of the array.
        axes: Ranges wanted: all of `own`, in the same order, and others.
        rank: Dimensions wanted.
    """
    sizes = dict(zip(own, array.shape, strict=False))
    tail = array.shape[len(own):]
    lead = tuple(sizes.get(r, 1) for r in axes)
    return array.reshape(lead + (1,) * (rank - len(tail)) + tail)


def aligned(values: Sequence[Value], order: AxisOrder) -> tuple[Axes, list[Array], Array | None]:
    """Values as arrays that broadcast together, and where all of them are there.

    Returns:
        The common axes; the arrays; the common validity.
    """
    axes = order.union(v.axes for v in values)
    rank = max(v.rank for v in values)
    arrays = [spread(v.array, v.axes, axes, rank) for v in values]
    return axes, arrays, conjunction(
        [spread(v.valid, v.axes, axes, rank) for v in values if v.valid is not None])


def conjunction(masks: Sequence[Array]) -> Array | None:
    """Where every mask holds; None where there is none."""
    return reduce(np.logical_and, masks) if masks else None


def full_mask(value: Value) -> Array | None:
    """Validity in the full shape of the array."""
    return None if value.valid is None else np.broadcast_to(value.valid, value.array.shape)


def with_axes(value: Value, axes: Axes, lengths: dict[UOp, int], order: AxisOrder) -> Value:
    """The value with an axis, along which it repeats, for each range that it lacks."""
    union = order.union((value.axes, axes))
    if union == value.axes:
        return value
    array = spread(value.array, value.axes, union, value.rank)
    shape = tuple(n if r in value.axes else lengths[r]
                  for r, n in zip(union, array.shape, strict=False)) + value.shape
    mask = full_mask(value)
    if mask is not None:
        mask = np.broadcast_to(spread(mask, value.axes, union, value.rank), shape)
    return Value(np.broadcast_to(array, shape), mask, union)


def axes_first(value: Value, ranges: Axes) -> tuple[Array, Array | None, Axes]:
    """Array and validity with the axes of some ranges moved behind the others.

    The result has the other axes, then `ranges` in the order given, then the dimensions.
    """
    kept = tuple(r for r in value.axes if r not in ranges)
    places = [value.axes.index(r) for r in (*kept, *ranges)]
    places += range(len(value.axes), value.array.ndim)
    mask = full_mask(value)
    return (value.array.transpose(places), None if mask is None else mask.transpose(places), kept)
