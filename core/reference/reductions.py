"""ADD, MAX and MUL over axes, in parts that can be combined.

The result depends on the order of elements as little as is possible: integers wrap, a sum of
floats is taken in float64, one of float64 in twice its precision, and rounded once at the end.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from core.ir import DType, Op, dtypes
from core.reference.floats import larger, two_sum
from core.reference.formats import HELD, Array, round_to, smallest

_DOUBLES: Final = (dtypes.float64, dtypes.weak_float)
_BOOLEAN: Final[dict[Op, Any]] = {
    Op.ADD: np.logical_or, Op.MAX: np.logical_or, Op.MUL: np.logical_and,
}
_INTEGER: Final[dict[Op, Any]] = {Op.ADD: np.add, Op.MAX: np.maximum, Op.MUL: np.multiply}


class Partial(NamedTuple):
    """The reduction of some of the elements; for sums of doubles with what rounding lost."""

    total: Array
    error: Array | None = None


def neutral(op: Op, dtype: DType) -> Any:
    """The value that changes nothing: what a reduction of nothing gives."""
    if op is Op.MAX:
        return smallest(dtype)
    return 0 if op is Op.ADD else 1


def _maximum(array: Array, axis: tuple[int, ...], dtype: DType) -> Array:
    result = np.maximum.reduce(array, axis=axis, initial=smallest(dtype))
    positive = np.any((array == 0) & ~np.signbit(array), axis=axis)
    zero = np.where(positive, array.dtype.type(0.0), array.dtype.type(-0.0))
    return np.asarray(np.where(result == 0, zero, result))


def _precise_sum(array: Array, axis: tuple[int, ...]) -> Partial:
    """A sum of doubles as a tree of exact sums of two."""
    kept = [k for k in range(array.ndim) if k not in axis]
    shape = tuple(array.shape[k] for k in kept)
    count = int(np.prod([array.shape[k] for k in axis], dtype=np.int64))
    total = array.transpose([*axis, *kept]).reshape((count, *shape))
    error = np.zeros_like(total)
    if not count:
        return Partial(np.zeros(shape), np.zeros(shape))
    while len(total) > 1:
        half = len(total) // 2
        combined, lost = two_sum(total[:half], total[half:2 * half])
        lost = lost + error[:half] + error[half:2 * half]
        total = np.concatenate([combined, total[2 * half:]])
        error = np.concatenate([lost, error[2 * half:]])
    return Partial(total[0], error[0])


def reduce_part(
    op: Op, dtype: DType, array: Array, valid: Array | None, axis: tuple[int, ...]
) -> Partial:
    """Reduce some axes; what is not valid is skipped."""
    if valid is not None:
        array = np.where(valid, array, array.dtype.type(neutral(op, dtype)))
    if dtype is dtypes.bool:
        return Partial(_BOOLEAN[op].reduce(array, axis=axis))
    if not dtype.is_float:
        initial = neutral(op, dtype)
        return Partial(_INTEGER[op].reduce(array, axis=axis, dtype=array.dtype, initial=initial))
    if op is Op.MAX:
        return Partial(_maximum(array, axis, dtype))
    with np.errstate(all="ignore"):
        wide = array.astype(np.float64)
        if op is Op.MUL:
            return Partial(np.multiply.reduce(wide, axis=axis))
        if dtype in _DOUBLES:
            return _precise_sum(wide, axis)
        return Partial(np.add.reduce(wide, axis=axis))


def combine(op: Op, dtype: DType, a: Partial, b: Partial) -> Partial:
    """The reduction of the elements of both."""
    with np.errstate(all="ignore"):
        if a.error is not None and b.error is not None:
            total, lost = two_sum(a.total, b.total)
            return Partial(total, lost + a.error + b.error)
        if dtype is dtypes.bool:
            return Partial(_BOOLEAN[op](a.total, b.total))
        if op is Op.MAX:
            return Partial(larger(a.total, b.total) if dtype.is_float
                           else np.maximum(a.total, b.total))
        return Partial(_INTEGER[op](a.total, b.total))


def finish(op: Op, dtype: DType, part: Partial) -> Array:
    """The held result, rounded once."""
    total = np.asarray(part.total)
    if not dtype.is_float:
        return total.astype(HELD[dtype], copy=False)
    with np.errstate(all="ignore"):
        if part.error is not None:
            # Beside an infinity or a NaN there is no error.
            total = total + np.where(np.isfinite(part.error), part.error, 0.0)
        if op is Op.ADD:
            total = total + 0.0  # sums start from +0
        return round_to(total, dtype)
