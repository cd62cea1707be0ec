"""Shapes as users mean them: axes counted from the end, broadcasting, -1 in a reshape.

The IR proves nothing and broadcasts only rank 0 (`core.ir.shape`), so the frontend makes the
operands of an elementwise op equal in shape here.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

from core.foundation.errors import IndexOutOfRangeError, ShapeError
from core.ir import Op, UOp, broadcast_shapes, same_shape

Shape = tuple[Any, ...]
LARGEST_SIZE = 1 << 62


def broadcast(value: UOp, shape: Shape) -> UOp:
    """A value repeated along new axes and along axes of extent 1, as in numpy.

    RESHAPE drops the axes of extent 1, EXPAND puts the repeated axes in front, PERMUTE moves them
    into place.

    Raises:
        ShapeError: The value's shape does not broadcast to `shape`.
    """
    old = value.shape
    if old == shape:
        return value
    lead = len(shape) - len(old)
    try:
        fits = lead >= 0 and same_shape(broadcast_shapes(old, shape), shape)
    except ShapeError:
        fits = False
    if not fits:
        raise ShapeError(f"a tensor of shape {show(old)} does not broadcast to {show(shape)}")
    new: list[int] = []
    kept: list[int] = []
    for axis, extent in enumerate(shape):
        repeated = axis < lead or (old[axis - lead] == 1 and extent != 1)
        (new if repeated else kept).append(axis)
    inner = value.reshape([shape[a] for a in kept]).expand([shape[a] for a in new])
    return inner.permute(inverse(new + kept))


def inverse(order: Sequence[int]) -> tuple[int, ...]:
    """The permutation that undoes `order`."""
    result = [0] * len(order)
    for position, axis in enumerate(order):
        result[axis] = position
    return tuple(result)


def elementwise(op: Op, *operands: UOp) -> UOp:
    """An elementwise op of operands of one dtype, broadcast; scalars stay of rank 0."""
    first = operands[0].shape
    if all(o.shape == first for o in operands):
        return UOp(op, operands)
    shape: Shape = ()
    for operand in operands:
        if operand.shape:
            shape = broadcast_shapes(shape, operand.shape)
    return UOp(op, tuple([aligned(o, shape) for o in operands]))


def aligned(value: UOp, shape: Shape) -> UOp:
    """A value in `shape`, or of rank 0 where it holds one element only."""
    if value.shape == shape or not value.shape:
        return value
    if all(extent == 1 for extent in value.shape):
        return value.reshape(())
    return broadcast(value, shape)


def together(a: UOp, b: UOp) -> tuple[UOp, UOp]:
    """Two operands in the shape that they broadcast to."""
    shape = broadcast_shapes(a.shape, b.shape)
    return broadcast(a, shape), broadcast(b, shape)


def along(value: UOp, axis: int, rank: int) -> UOp:
    """A vector as a value of `rank` axes whose only axis longer than 1 is `axis`."""
    return value.reshape([value.shape[0] if a == axis else 1 for a in range(rank)])


def front(value: UOp, axes: Sequence[int]) -> UOp:
    """The given axes first, in the order given, then the others."""
    return value.permute((*axes, *(a for a in range(len(value.shape)) if a not in axes)))


def back_from_front(value: UOp, axis: int) -> UOp:
    """Undo `front(value, [axis])`."""
    rank = len(value.shape)
    return value.permute(inverse([axis, *(a for a in range(rank) if a != axis)]))


def show(shape: Shape) -> str:
    """A shape for messages; symbolic sizes by name."""
    parts = [str(d) if isinstance(d, int) else "n" for d in shape]
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


def as_axis(axis: Any, shape: Shape, extra: int = 0) -> int:
    """An axis counted from the front; a scalar has axis 0 and -1, as in torch.

    Args:
        axis: An integer, negative from the end.
        shape: Shape that it is an axis of.
        extra: Axes that may be added (1 for unsqueeze and stack).

    Raises:
        IndexOutOfRangeError: There is no such axis.
    """
    try:
        number = operator.index(axis)
    except TypeError:
        raise TypeError(f"an axis is an integer, not {axis!r}") from None
    rank = max(len(shape) + extra, 1)
    if not -rank <= number < rank:
        raise IndexOutOfRangeError(
            f"axis {number} of a tensor of shape {show(shape)}: axes go from {-rank} to {rank - 1}"
        )
    return number % rank


def as_axes(axis: Any, shape: Shape) -> tuple[int, ...]:
    """Axes to reduce: None means all, () none.

    Raises:
        IndexOutOfRangeError: There is no such axis.
        ShapeError: An axis is given twice.
    """
    if axis is None:
        return tuple(range(len(shape)))
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = tuple(as_axis(a, shape) for a in given)
    if len(set(axes)) != len(axes):
        raise ShapeError(f"an axis is given twice: {axis}")
    return tuple(sorted(a for a in axes if a < len(shape)))


def as_shape(sizes: Sequence[Any]) -> Shape:
    """A shape from f(2, 3) or f((2, 3)).

    Raises:
        ShapeError: A size is negative, or there are more elements than memory can be addressed.
    """
    if len(sizes) == 1 and isinstance(sizes[0], Iterable):
        sizes = tuple(sizes[0])
    result = tuple([s if isinstance(s, UOp) else as_size(s) for s in sizes])
    check_size(result)
    return result


def as_size(size: Any) -> int:
    """One size.

    Raises:
        TypeError: It is no integer.
        ShapeError: It is negative.
    """
    try:
        number = operator.index(size)
    except TypeError:
        raise TypeError(f"a size is an integer, not {size!r}") from None
    if number < 0:
        raise ShapeError(f"a size cannot be negative: {number}")
    return number


def check_size(shape: Shape) -> None:
    """Refuse shapes whose elements cannot be counted.

    Raises:
        ShapeError: More than 2**62 elements.
    """
    if prod(d for d in shape if isinstance(d, int)) > LARGEST_SIZE:
        raise ShapeError(f"shape {show(shape)} has more elements than can be addressed")


def as_reshape(sizes: Sequence[Any], old: Shape) -> Shape:
    """The shape that a reshape asks for, -1 replaced.

    Raises:
        ShapeError: It does not hold as many elements as `old`.
    """
    if len(sizes) == 1 and isinstance(sizes[0], Iterable):
        sizes = tuple(sizes[0])
    wanted: list[Any] = [s if isinstance(s, UOp) else operator.index(s) for s in sizes]
    unknown = [k for k, s in enumerate(wanted) if isinstance(s, int) and s < 0]
    if any(wanted[k] != -1 for k in unknown) or len(unknown) > 1:
        raise ShapeError(f"cannot reshape to {tuple(wanted)}: one size may be -1, none less")
    if any(isinstance(s, UOp) for s in (*wanted, *old)):
        return tuple(wanted)
    have, named = prod(old), prod(s for s in wanted if s != -1)
    if unknown:
        if named == 0 or have % named:
            raise ShapeError(f"cannot reshape {show(old)} to {show(tuple(wanted))}: "
                             f"{have} elements are no multiple of {named}")
        wanted[unknown[0]] = have // named
    elif have != named:
        raise ShapeError(f"cannot reshape {show(old)} of {have} elements to "
                         f"{show(tuple(wanted))} of {named}")
    return tuple(wanted)
