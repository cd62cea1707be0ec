"""Reductions and running totals."""

from __future__ import annotations

from builtins import bool as bool_
from typing import Any

from core.array_api.elementwise import not_equal
from core.array_api.manipulation import axis_in
from core.foundation.errors import DTypeError, ShapeError
from core.frontend import Tensor
from core.frontend.conversion import default_int
from core.ir import DType, dtypes

Axis = int | tuple[int, ...] | None


def _total(x: Tensor) -> DType:
    """The dtype of sums of integers: the default one, of the same signedness, or x's if wider."""
    if not x.dtype.is_integer and x.dtype is not dtypes.bool:
        return x.dtype
    default = default_int()
    if x.dtype.kind == "unsigned":
        default = dtypes.uint64 if default is dtypes.int64 else dtypes.uint32
    return x.dtype if x.dtype.bits > default.bits else default


def _number(name: str, x: Tensor) -> None:
    if x.dtype is dtypes.bool:
        raise DTypeError(f"{name} is not defined for bool arrays")


def sum(  # noqa: A001 - the standard's name
    x: Tensor, /, *, axis: Axis = None, dtype: DType | None = None, keepdims: bool_ = False
) -> Tensor:
    """Sum along axes; of small integers in the default integer dtype."""
    wanted = dtype or _total(x)
    return x.cast(wanted).sum(_axes(axis, x), keepdims, dtype=wanted).cast(wanted)


def prod(
    x: Tensor, /, *, axis: Axis = None, dtype: DType | None = None, keepdims: bool_ = False
) -> Tensor:
    """Product along axes; of small integers in the default integer dtype."""
    wanted = dtype or _total(x)
    return x.cast(wanted).prod(_axes(axis, x), keepdims, dtype=wanted).cast(wanted)


def max(  # noqa: A001 - the standard's name
    x: Tensor, /, *, axis: Axis = None, keepdims: bool_ = False
) -> Tensor:
    """Largest element along axes; NaN where one is NaN."""
    _number("max", x)
    return x.max(_axes(axis, x), keepdims)


def min(  # noqa: A001 - the standard's name
    x: Tensor, /, *, axis: Axis = None, keepdims: bool_ = False
) -> Tensor:
    """Smallest element along axes; NaN where one is NaN."""
    _number("min", x)
    return x.min(_axes(axis, x), keepdims)


def mean(x: Tensor, /, *, axis: Axis = None, keepdims: bool_ = False) -> Tensor:
    """Mean along axes."""
    return x.mean(_axes(axis, x), keepdims)


def var(
    x: Tensor, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool_ = False
) -> Tensor:
    """Mean square of the distance from the mean, over the count less `correction`."""
    return x.var(_axes(axis, x), keepdims, correction)


def std(
    x: Tensor, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool_ = False
) -> Tensor:
    """Root of `var`."""
    return x.std(_axes(axis, x), keepdims, correction)


def all(  # noqa: A001 - the standard's name
    x: Tensor, /, *, axis: Axis = None, keepdims: bool_ = False
) -> Tensor:
    """Whether all elements along axes are true."""
    return x.all(_axes(axis, x), keepdims)


def any(  # noqa: A001 - the standard's name
    x: Tensor, /, *, axis: Axis = None, keepdims: bool_ = False
) -> Tensor:
    """Whether one element along axes is true."""
    return x.any(_axes(axis, x), keepdims)


def count_nonzero(x: Tensor, /, *, axis: Axis = None, keepdims: bool_ = False) -> Tensor:
    """Number of elements along axes that are not zero, in the default integer dtype."""
    found = x if x.dtype is dtypes.bool else not_equal(x, 0)
    return found.cast(default_int()).sum(_axes(axis, x), keepdims).cast(default_int())


def cumulative_sum(
    x: Tensor, /, *, axis: int | None = None, dtype: DType | None = None,
    include_initial: bool_ = False,
) -> Tensor:
    """Sums of the elements up to each one; with a zero in front if `include_initial`."""
    value, place = _running(x, axis, dtype)
    return _with_initial(value.cumsum(place).cast(value.dtype), place, 0, include_initial)


def cumulative_prod(
    x: Tensor, /, *, axis: int | None = None, dtype: DType | None = None,
    include_initial: bool_ = False,
) -> Tensor:
    """Products of the elements up to each one; with a one in front if `include_initial`."""
    value, place = _running(x, axis, dtype)
    return _with_initial(value.cumprod(place).cast(value.dtype), place, 1, include_initial)


def _running(x: Tensor, axis: int | None, dtype: DType | None) -> tuple[Tensor, int]:
    if axis is None and x.ndim != 1:
        raise ShapeError(f"a running total of shape {x.shape} needs an axis")
    return x.cast(dtype or _total(x)), axis_in(axis or 0, x.ndim)


def _with_initial(value: Tensor, axis: int, initial: int, wanted: bool_) -> Tensor:
    if not wanted:
        return value
    shape = tuple(1 if k == axis else n for k, n in enumerate(value.shape))
    first = Tensor.full(shape, initial, dtype=value.dtype, device=value.device)
    return first.cat(value, dim=axis)


def diff(
    x: Tensor, /, *, axis: int = -1, n: int = 1, prepend: Tensor | None = None,
    append: Tensor | None = None,
) -> Tensor:
    """Differences of neighbours along an axis, `n` times over."""
    place = axis_in(axis, x.ndim)
    if n < 0:
        raise ValueError(f"diff {n} times over")
    parts = [part for part in (prepend, x, append) if part is not None]
    result = parts[0].cat(*parts[1:], dim=place) if len(parts) > 1 else x
    key: tuple[Any, ...] = (slice(None),) * place
    for _ in range(n):
        high, low = result[(*key, slice(1, None))], result[(*key, slice(None, -1))]
        result = high ^ low if x.dtype is dtypes.bool else high - low
    return result.clone() if result is x else result


def _axes(axis: Axis, x: Tensor) -> Any:
    """Axes as Tensor takes them; an empty tuple reduces nothing."""
    if axis is None:
        return None
    return tuple(axis_in(a, x.ndim) for a in (axis if isinstance(axis, tuple) else (axis,)))


