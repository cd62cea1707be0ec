"""Searching, sorting, choosing by index, and sets."""

from __future__ import annotations

from typing import Any, NamedTuple

from core.array_api.data_types import result_type
from core.array_api.manipulation import axis_in, broadcast_to
from core.array_api.statistical import count_nonzero
from core.foundation.errors import DTypeError, ShapeError
from core.frontend import Tensor
from core.frontend.conversion import default_int
from core.ir import dtypes

__all__ = [
    "argmax", "argmin", "argsort", "count_nonzero", "nonzero", "searchsorted", "sort", "take",
    "take_along_axis", "unique_all", "unique_counts", "unique_inverse", "unique_values", "where",
]


def _number(name: str, x: Tensor) -> None:
    if x.dtype is dtypes.bool:
        raise DTypeError(f"{name} is not defined for bool arrays")


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Index of the first largest element."""
    _number("argmax", x)
    return _place(x, axis, keepdims, "argmax")


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Index of the first smallest element."""
    _number("argmin", x)
    return _place(x, axis, keepdims, "argmin")


def _place(x: Tensor, axis: int | None, keepdims: bool, name: str) -> Tensor:
    if axis is None:
        found: Tensor = getattr(x.reshape(-1), name)(0)
        return found.reshape((1,) * x.ndim if keepdims else ())
    result: Tensor = getattr(x, name)(axis_in(axis, x.ndim), keepdims)
    return result


def argsort(
    x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True
) -> Tensor:
    """Indices that sort along an axis; equal elements keep their order."""
    return x.argsort(axis_in(axis, x.ndim), descending)


def sort(
    x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True
) -> Tensor:
    """Elements in order along an axis."""
    return x.sort(axis_in(axis, x.ndim), descending)[0]


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """Indices of the elements that are not zero, one array per axis.

    Raises:
        ShapeError: The array has no axes.
    """
    if not x.ndim:
        raise ShapeError("nonzero of an array without axes")
    places = x.nonzero().cast(default_int())
    return tuple(places[:, k] for k in range(x.ndim))


def searchsorted(
    x1: Tensor, x2: Tensor, /, *, side: str = "left", sorter: Tensor | None = None
) -> Tensor:
    """Where elements belong in a sorted array: before equal ones, or after them.

    Args:
        x1: One axis, sorted, or put in order by `sorter`.
        x2: What to look for.
        side: "left" or "right".
        sorter: Indices that sort `x1`.

    Raises:
        ShapeError: `x1` has not one axis.
        ValueError: There is no such side.
    """
    if x1.ndim != 1:
        raise ShapeError(f"searchsorted in an array of shape {x1.shape}: it needs one axis")
    if side not in {"left", "right"}:
        raise ValueError(f"side is 'left' or 'right', not {side!r}")
    ordered = x1 if sorter is None else x1[sorter]
    dtype = result_type(x1, x2)
    ordered, wanted = ordered.cast(dtype), x2.cast(dtype).unsqueeze(x2.ndim)
    # Each place is the number of elements before it; NaN is after all others.
    if side == "left":
        before = ordered < wanted
        if dtype.is_float:
            before |= wanted.isnan() & ~ordered.isnan()
    else:
        before = ordered <= wanted
        if dtype.is_float:
            before |= wanted.isnan()
    return before.cast(default_int()).sum(-1).cast(default_int())


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """Elements along an axis by their indices."""
    if axis is None and x.ndim != 1:
        raise ShapeError(f"take of shape {x.shape} needs an axis")
    place = axis_in(axis or 0, x.ndim)
    return x[(*(slice(None),) * place, indices)]


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """Elements along an axis, each by an index of its own; the other axes broadcast."""
    if x.ndim != indices.ndim:
        raise ShapeError(f"take_along_axis of shape {x.shape} by indices of shape {indices.shape}")
    place = axis_in(axis, x.ndim)
    shape = [max(n, m) if n and m else 0 for n, m in zip(x.shape, indices.shape, strict=True)]
    wide = [x.shape[k] if k == place else n for k, n in enumerate(shape)]
    long = [indices.shape[k] if k == place else n for k, n in enumerate(shape)]
    chosen = broadcast_to(indices, tuple(long))
    negative = chosen < 0 if chosen.dtype.is_signed else None
    if negative is not None:
        chosen = negative.where(chosen + x.shape[place], chosen)
    return broadcast_to(x, tuple(wide)).gather(place, chosen)


class UniqueAll(NamedTuple):
    """Distinct values, where each is first, which of them each element is, and how many."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """Distinct values and how many of each."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """Distinct values and which of them each element is."""

    values: Tensor
    inverse_indices: Tensor


def unique_all(x: Tensor, /) -> UniqueAll:
    """Distinct values in order; every NaN is a value of its own."""
    index = default_int()
    flat = x.reshape(-1)
    size = flat.shape[0]
    if not size:
        none = Tensor.zeros(0, dtype=index, device=x.device)
        return UniqueAll(flat.clone(), none, none.reshape(x.shape), none)
    values, order = flat.sort(0)
    first = Tensor([True], device=x.device)
    if size > 1:
        first = first.cat(values[1:] != values[:-1], dim=0)
    starts = first.nonzero().reshape(-1).cast(index)
    group = first.cast(index).cumsum(0) - 1
    inverse = Tensor.zeros(size, dtype=index, device=x.device).scatter(
        0, order, group.cast(index))
    ends = starts[1:].cat(Tensor([size], dtype=index, device=x.device), dim=0)
    return UniqueAll(values[starts], order[starts].cast(index), inverse.reshape(x.shape),
                     ends - starts)


def unique_counts(x: Tensor, /) -> UniqueCounts:
    """Distinct values in order, and how many of each."""
    found = unique_all(x)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """Distinct values in order, and which of them each element is."""
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_values(x: Tensor, /) -> Tensor:
    """Distinct values in order."""
    return unique_all(x).values


def where(condition: Tensor, x1: Any, x2: Any, /) -> Tensor:
    """Elements of the first where the condition holds, of the second elsewhere."""
    if condition.dtype is not dtypes.bool:
        raise DTypeError(f"the condition of where is bool, not {condition.dtype.name}")
    if not isinstance(x1, Tensor) and not isinstance(x2, Tensor):
        return condition.where(x1, x2)
    dtype = result_type(x1, x2)
    first, second = (
        x.cast(dtype) if isinstance(x, Tensor) else Tensor.full((), x, dtype=dtype,
                                                                device=condition.device)
        for x in (x1, x2))
    return condition.where(first, second)
