"""Reductions along axes, and scans.

Sums of float16, bfloat16 and fp8 accumulate in float32; sums of bool and small integers give int32
or uint32. A reduction over no elements gives 0, 1, False, or NaN for a mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Self

from core.foundation.errors import ShapeError
from core.frontend.broadcasting import (
    as_axes,
    as_axis,
    back_from_front,
    broadcast,
    elementwise,
    front,
    show,
)
from core.frontend.conversion import accumulator, as_dtype, default_int, sum_result
from core.frontend.iota import tabulate
from core.frontend.operations.arithmetic import mirrored
from core.frontend.operations.movement import MovementOperations
from core.ir import Op, UOp, dtypes, neutral_element

# A scan of more elements than this goes in two levels: within parts, then over their totals.
_SCAN_PART = 32


class ReductionOperations(MovementOperations):
    """Reductions. `axis` is an axis, several, or None for all; `keepdim` leaves extent 1."""

    __slots__ = ()

    def _reduced(self, op: Op, axis: Any, keepdim: bool) -> Self:
        axes = as_axes(axis, self.shape)
        return self._of(kept(reduced(self.uop, op, axes), self.shape, axes, keepdim))

    def sum(self, axis: Any = None, keepdim: bool = False, dtype: Any = None) -> Self:
        """Sum. `dtype` is that of the result and, if wide enough, of the accumulator."""
        return self._accumulated(Op.ADD, axis, keepdim, dtype)

    def prod(self, axis: Any = None, keepdim: bool = False, dtype: Any = None) -> Self:
        """Product."""
        return self._accumulated(Op.MUL, axis, keepdim, dtype)

    def _accumulated(self, op: Op, axis: Any, keepdim: bool, dtype: Any) -> Self:
        target = sum_result(self.dtype) if dtype is None else as_dtype(dtype)
        wide = accumulator(target if dtype is not None else self.dtype)
        return self.cast(wide)._reduced(op, axis, keepdim).cast(target)

    def max(self, axis: Any = None, keepdim: bool = False) -> Self:
        """Largest element; NaN wins. The gradient is shared evenly among equal ones.

        Raises:
            ShapeError: There is none.
        """
        self._needs_elements("max", axis)
        return self._reduced(Op.MAX, axis, keepdim)

    def min(self, axis: Any = None, keepdim: bool = False) -> Self:
        """Smallest element; NaN wins.

        Raises:
            ShapeError: There is none.
        """
        self._needs_elements("min", axis)
        found = self._of(mirrored(self.uop))._reduced(Op.MAX, axis, keepdim)
        return self._of(mirrored(found.uop))

    def _needs_elements(self, name: str, axis: Any) -> None:
        axes = as_axes(axis, self.shape)
        if any(self.shape[a] == 0 for a in axes):
            raise ShapeError(f"{name} over no elements: shape {show(self.shape)}, axes {axes}")

    def any(self, axis: Any = None, keepdim: bool = False) -> Self:
        """Whether one element is nonzero."""
        return self.cast(dtypes.bool)._reduced(Op.MAX, axis, keepdim)

    def all(self, axis: Any = None, keepdim: bool = False) -> Self:
        """Whether every element is nonzero."""
        return self.logical_not().any(axis, keepdim).logical_not()

    def argmax(self, axis: int | None = None, keepdim: bool = False) -> Self:
        """Index of the first largest element; NaN counts as largest."""
        return self._first_largest(self.uop, axis, keepdim, "argmax")

    def argmin(self, axis: int | None = None, keepdim: bool = False) -> Self:
        """Index of the first smallest element; NaN counts as smallest."""
        return self._first_largest(mirrored(self.uop), axis, keepdim, "argmin")

    def _first_largest(self, value: UOp, axis: int | None, keepdim: bool, name: str) -> Self:
        self._needs_elements(name, axis)
        shape, index = self.shape, default_int()
        if axis is None:
            flat = self._of(value.reshape((prod(shape),)))
            found = flat._first_largest(flat.uop, 0, keepdim=False, name=name)
            return found.reshape((1,) * len(shape)) if keepdim else found
        if not shape:
            return self._of(UOp.const(0, index))
        at = as_axis(axis, shape)
        largest = broadcast(kept(reduced(value, Op.MAX, (at,)), shape, (at,), True), shape)
        is_largest = value.eq(largest)
        if value.dtype.is_float:
            is_largest = is_largest | value.ne(value)
        # The first one is that with the most elements after it.
        left = tabulate(lambda r: (UOp.const(shape[at]) - r).cast(index), shape[at])
        left = broadcast(left.reshape([shape[at] if a == at else 1 for a in range(len(shape))]),
                         shape)
        most = reduced(is_largest.where(left, 0), Op.MAX, (at,))
        return self._of(kept(most.const_like(shape[at]) - most, shape, (at,), keepdim))

    # -- moments ----------------------------------------------------------------------------

    def mean(self, axis: Any = None, keepdim: bool = False) -> Self:
        """Mean, as a float; NaN over no elements."""
        axes = as_axes(axis, self.shape)
        wide, result = self._working()
        total = wide._reduced(Op.ADD, axes, keepdim)
        return total.div(_count(self.shape, axes)).cast(result)

    def var(self, axis: Any = None, keepdim: bool = False, correction: float = 1) -> Self:
        """Variance: squared distances from the mean over n - correction; NaN if that is 0."""
        return self._var_mean(axis, keepdim, correction)[0]

    def std(self, axis: Any = None, keepdim: bool = False, correction: float = 1) -> Self:
        """Square root of the variance."""
        return self.std_mean(axis, keepdim, correction)[0]

    def var_mean(
        self, axis: Any = None, keepdim: bool = False, correction: float = 1
    ) -> tuple[Self, Self]:
        """Variance and mean."""
        return self._var_mean(axis, keepdim, correction)

    def std_mean(
        self, axis: Any = None, keepdim: bool = False, correction: float = 1
    ) -> tuple[Self, Self]:
        """Standard deviation and mean."""
        wide, result = self._working()
        variance, mean = wide._var_mean(axis, keepdim, correction)
        return variance.sqrt().cast(result), mean.cast(result)

    def _var_mean(self, axis: Any, keepdim: bool, correction: float) -> tuple[Self, Self]:
        axes = as_axes(axis, self.shape)
        wide, result = self._working()
        count = _count(self.shape, axes)
        mean = wide._reduced(Op.ADD, axes, True).div(count)
        distance = wide.sub(mean)
        total = distance.mul(distance)._reduced(Op.ADD, axes, keepdim)
        variance = total.div(max(count - correction, 0.0))
        shape = variance.shape
        return variance.cast(result), self._of(mean.uop.reshape(shape)).cast(result)

    # -- scans ------------------------------------------------------------------------------

    def cumsum(self, axis: int = 0) -> Self:
        """Sums of the elements up to each one."""
        return self._scanned(Op.ADD, axis)

    def cumprod(self, axis: int = 0) -> Self:
        """Products of the elements up to each one."""
        return self._scanned(Op.MUL, axis)

    def cummax(self, axis: int = 0) -> Self:
        """Largest of the elements up to each one; NaN stays from its place on."""
        return self._of(scan(self.uop, Op.MAX, as_axis(axis, self.shape)))

    def cummin(self, axis: int = 0) -> Self:
        """Smallest of the elements up to each one; NaN stays from its place on."""
        found = scan(mirrored(self.uop), Op.MAX, as_axis(axis, self.shape))
        return self._of(mirrored(found))

    def _scanned(self, op: Op, axis: int) -> Self:
        at = as_axis(axis, self.shape)
        wide = self.cast(accumulator(self.dtype))
        return self._of(scan(wide.uop, op, at)).cast(sum_result(self.dtype))

    # -- softmax ----------------------------------------------------------------------------

    def softmax(self, axis: int = -1) -> Self:
        """exp(x) over its sum along an axis; the largest element is subtracted first."""
        wide, result = self._working()
        e, total = wide._exponentials(axis)
        return e.div(total).cast(result)

    def log_softmax(self, axis: int = -1) -> Self:
        """Logarithm of `softmax`."""
        wide, result = self._working()
        shifted = wide.sub(wide._largest(axis))
        total = shifted.exp()._reduced(Op.ADD, _axis_or_none(axis, self.shape), True)
        return shifted.sub(total.log()).cast(result)

    def softmin(self, axis: int = -1) -> Self:
        """`softmax` of -x."""
        return self._float().neg().softmax(axis)

    def logsumexp(self, axis: Any = None, keepdim: bool = False) -> Self:
        """log of the sum of exp(x); -inf where all are -inf."""
        wide, result = self._working()
        axes = as_axes(axis, self.shape)
        largest = wide._largest(axes)
        largest = largest.isinf().where(0.0, largest)
        total = wide.sub(largest).exp()._reduced(Op.ADD, axes, keepdim)
        return total.log().add(largest.reshape(total.shape)).cast(result)

    def logcumsumexp(self, axis: int = 0) -> Self:
        """`logsumexp` of the elements up to each one."""
        wide, result = self._working()
        if not self.shape:
            return wide.cast(result)
        at = as_axis(axis, self.shape)
        extent = self.shape[at]
        rows = broadcast(front(wide.uop, [at]).reshape(
            [1, extent, *(s for a, s in enumerate(self.shape) if a != at)]
        ), (extent, extent, *(s for a, s in enumerate(self.shape) if a != at)))
        mask = tabulate(lambda i, j: j <= i, extent, extent)
        mask = broadcast(mask.reshape([extent, extent, *(1 for _ in self.shape[1:])]), rows.shape)
        seen = self._of(mask.where(rows, -float("inf")))
        found = seen.logsumexp(1)
        return self._of(back_from_front(found.uop, at)).cast(result)

    def _largest(self, axis: Any) -> Self:
        """Largest element along axes, kept, through which no gradient passes."""
        axes = as_axes(axis, self.shape)
        value = kept(reduced(self.uop, Op.MAX, axes), self.shape, axes, True)
        return self._of(UOp(Op.DETACH, (value,)))

    def _exponentials(self, axis: Any) -> tuple[Self, Self]:
        e = self.sub(self._largest(axis)).exp()
        return e, e._reduced(Op.ADD, _axis_or_none(axis, self.shape), True)


def _axis_or_none(axis: Any, shape: tuple[Any, ...]) -> tuple[int, ...]:
    return as_axes(axis, shape)


def _count(shape: tuple[Any, ...], axes: Sequence[int]) -> float:
    return float(prod(shape[a] for a in axes))


def reduced(uop: UOp, op: Op, axes: Sequence[int]) -> UOp:
    """A reduction over axes, which go."""
    if not axes:
        return uop
    return front(uop, axes).reduce(op, axes=len(axes))


def kept(uop: UOp, shape: tuple[Any, ...], axes: Sequence[int], keepdim: bool) -> UOp:
    """The result of a reduction with its axes back at extent 1, if wanted."""
    if not keepdim:
        return uop
    return uop.reshape([1 if a in axes else s for a, s in enumerate(shape)])


def scan(uop: UOp, op: Op, axis: int) -> UOp:
    """Inclusive scan along an axis, in two levels."""
    if not uop.shape or uop.shape[axis] == 0:
        return uop
    return back_from_front(_scan_front(front(uop, [axis]), op), axis)


def _scan_front(uop: UOp, op: Op) -> UOp:
    """Scan along the first axis: within parts, then the totals of the parts before are added."""
    extent, rest = uop.shape[0], uop.shape[1:]
    if extent <= 2 * _SCAN_PART:
        return _scan_part(uop.reshape((1, *uop.shape)), op).reshape(uop.shape)
    parts = -(-extent // _SCAN_PART)
    whole = parts * _SCAN_PART
    fill = uop.const_like(neutral_element(op, uop.dtype))
    if whole != extent:
        mask = _as_first(tabulate(lambda r: r < extent, whole), (whole, *rest))
        offset = (0,) * len(uop.shape)
        uop = elementwise(Op.WHERE, mask, uop.pad(offset, (whole, *rest)), fill)
    inner = _scan_part(uop.reshape((parts, _SCAN_PART, *rest)), op)
    totals = inner.shrink((0, _SCAN_PART - 1, *(0 for _ in rest)), (parts, 1, *rest))
    before = _scan_front(totals.reshape((parts, *rest)), op)
    # Part k starts from the scan of the totals up to k - 1.
    moved = before.shrink((0,) * (len(rest) + 1), (parts - 1, *rest))
    moved = moved.pad((1, *(0 for _ in rest)), (parts, *rest))
    first = _as_first(tabulate(lambda r: r.eq(0), parts), (parts, *rest))
    start = elementwise(Op.WHERE, first, fill, moved)
    start = broadcast(start.reshape((parts, 1, *rest)), inner.shape)
    result = elementwise(op, start, inner).reshape((whole, *rest))
    return result.shrink((0,) * (len(rest) + 1), (extent, *rest))


def _as_first(vector: UOp, shape: tuple[Any, ...]) -> UOp:
    return broadcast(vector.reshape((shape[0], *(1 for _ in shape[1:]))), shape)


def _scan_part(uop: UOp, op: Op) -> UOp:
    """Scan along axis 1 of (parts, size, ...): each element reduces those up to it."""
    parts, size, *rest = uop.shape
    pairs = (size, parts, size, *rest)  # (j, part, i, ...): element j seen from i
    by_j = front(uop, [1]).reshape((size, parts, 1, *rest))
    mask = tabulate(lambda j, i: j <= i, size, size).reshape((size, 1, size, *(1 for _ in rest)))
    fill = uop.const_like(neutral_element(op, uop.dtype))
    seen = elementwise(Op.WHERE, broadcast(mask, pairs), broadcast(by_j, pairs), fill)
    return seen.reduce(op, axes=1)



