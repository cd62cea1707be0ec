"""What an index between brackets means, as numpy reads it."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from core.foundation.errors import IndexOutOfRangeError, ShapeError
from core.frontend.broadcasting import broadcast, show
from core.frontend.iota import tabulate
from core.frontend.windows import Relation, back, forward
from core.ir import UOp, dtypes


@dataclass(frozen=True, slots=True)
class Line:
    """What is chosen of one axis: start, start + step, ...; `keeps` is False for an integer."""

    start: int
    step: int
    count: int
    keeps: bool = True

    def takes_all_of(self, extent: int) -> bool:
        """Whether the axis stays as it is."""
        return self.start == 0 and self.step == 1 and self.count == extent


@dataclass(frozen=True, slots=True)
class Gather:
    """An axis indexed by integers that are data."""

    index: UOp


class Key(NamedTuple):
    """An index in normal form.

    Attributes:
        axes: Per axis of the tensor a Line or a Gather.
        order: Result axes in the order of the brackets: the number of an axis, or None for a new
            axis.
    """

    axes: tuple[Line | Gather, ...]
    order: tuple[int | None, ...]

    @property
    def is_basic(self) -> bool:
        """Integers, slices, None and Ellipsis only."""
        return all(isinstance(a, Line) for a in self.axes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of what a basic index chooses."""
        result = []
        for place in self.order:
            line = None if place is None else self.axes[place]
            if line is None:
                result.append(1)
            elif isinstance(line, Line) and line.keeps:
                result.append(line.count)
        return tuple(result)


def normal_key(items: Sequence[Any], shape: tuple[int, ...]) -> Key:
    """Normal form of an index whose items are integers, slices, None, Ellipsis and Gathers.

    Raises:
        IndexOutOfRangeError: Too many items, or an integer outside of its axis.
        TypeError: An item is no index.
    """
    named = sum(1 for item in items if item is not None and item is not Ellipsis)
    if named > len(shape):
        raise IndexOutOfRangeError(f"{named} indices for a tensor of shape {show(shape)}")
    dots = [k for k, item in enumerate(items) if item is Ellipsis]
    if len(dots) > 1:
        raise IndexOutOfRangeError("an index has at most one Ellipsis")
    at = dots[0] if dots else len(items)
    full: list[Any] = [*items[:at], *[slice(None)] * (len(shape) - named), *items[at + 1:]]
    axes: list[Line | Gather] = []
    order: list[int | None] = []
    for item in full:
        if item is None:
            order.append(None)
            continue
        order.append(len(axes))
        axes.append(_line(item, shape[len(axes)], len(axes), shape))
    return Key(tuple(axes), tuple(order))


def _line(item: Any, extent: int, axis: int, shape: tuple[int, ...]) -> Line | Gather:
    if isinstance(item, Gather):
        return item
    if isinstance(item, slice):
        try:
            places = range(*item.indices(extent))
        except TypeError:
            raise TypeError(f"a slice is made of integers, not {item}") from None
        if not places:
            return Line(0, 1, 0)
        return Line(places.start, 1 if len(places) == 1 else places.step, len(places))
    try:
        number = operator.index(item)
    except TypeError:
        raise TypeError(f"{item!r} is no index: use integers, slices, None, ..., or integer or "
                        "bool tensors") from None
    if not -extent <= number < extent:
        raise IndexOutOfRangeError(f"index {number} leaves axis {axis} of a tensor of shape "
                                   f"{show(shape)}")
    return Line(number % extent, 1, 1, keeps=False)


def _relation(line: Line, size: int) -> Relation:
    return Relation(abs(line.step), 1, 0, line.count, 1, size)


def _span(line: Line) -> tuple[int, int]:
    """First place and extent of the part of an axis that a line touches."""
    last = line.start + (line.count - 1) * line.step
    return min(line.start, last), abs(last - line.start) + 1 if line.count else 0


def _swap_front(value: UOp, axis: int) -> UOp:
    order = list(range(len(value.shape)))
    order[0], order[axis] = order[axis], order[0]
    return value.permute(order)


def take(value: UOp, key: Key) -> UOp:
    """The part of a value that the Lines of a key choose; axes of Gathers stay whole."""
    lines = [a if isinstance(a, Line) else Line(0, 1, n)
             for a, n in zip(key.axes, value.shape, strict=True)]
    spans = [_span(line) if line.count else (0, 0) for line in lines]
    result = value.shrink([s for s, _ in spans], [n for _, n in spans])
    result = result.flip([line.step < 0 for line in lines])
    for axis, line in enumerate(lines):
        if abs(line.step) > 1:
            moved = _swap_front(result, axis)
            chosen = forward(moved, _relation(line, moved.shape[0]))
            result = _swap_front(chosen.reshape((line.count, *moved.shape[1:])), axis)
    return result.reshape([
        1 if place is None else result.shape[place] for place in key.order
        if place is None or not isinstance(key.axes[place], Line) or lines[place].keeps
    ])


def put(value: UOp, key: Key, old: UOp) -> UOp:
    """`old` with the part that a basic key chooses replaced by a value of the part's shape.

    Raises:
        ShapeError: The value does not broadcast to the part.
    """
    shape, part = old.shape, key.shape
    lead = len(value.shape) - len(part)
    if lead > 0 and all(n == 1 for n in value.shape[:lead]):
        value = value.reshape(value.shape[lead:])
    try:
        value = broadcast(value, part)
    except ShapeError:
        raise ShapeError(f"a value of shape {show(value.shape)} does not fit the part of shape "
                         f"{show(part)}") from None
    lines = [a for a in key.axes if isinstance(a, Line)]
    if all(line.takes_all_of(n) for line, n in zip(lines, shape, strict=True)):
        return value.reshape(shape)
    if 0 in part:
        return old
    result = value.reshape([line.count for line in lines])
    for axis, line in enumerate(lines):
        if abs(line.step) > 1:
            moved = _swap_front(result, axis)
            spread = back(moved, _relation(line, _span(line)[1]))
            result = _swap_front(spread.reshape(spread.shape[1:]), axis)
    result = result.flip([line.step < 0 for line in lines])
    result = result.pad([_span(line)[0] for line in lines], shape)
    return _chosen(lines, shape).where(result, old)


def _chosen(lines: Sequence[Line], shape: tuple[int, ...]) -> UOp:
    """Whether each place is one that the lines choose; in `shape`."""
    axes = [a for a, line in enumerate(lines) if not line.takes_all_of(shape[a])]

    def condition(*ranges: UOp) -> UOp:
        result = UOp.const(True, dtypes.bool)
        for axis, r in zip(axes, ranges, strict=True):
            start, size = _span(lines[axis])
            step = abs(lines[axis].step)
            tests = [r >= start] if start else []
            tests += [r < start + size] if start + size < shape[axis] else []
            tests += [((r - start) % step).eq(0)] if step > 1 else []
            for test in tests:
                result = test if result.op.name == "CONST" else result & test
        return result

    mask = tabulate(condition, *(shape[a] for a in axes))
    return broadcast(mask.reshape([n if a in axes else 1 for a, n in enumerate(shape)]), shape)
