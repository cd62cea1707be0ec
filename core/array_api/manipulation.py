"""Other shapes of the same elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from core.array_api.data_types import result_type
from core.foundation.errors import DTypeError, IndexOutOfRangeError, ShapeError
from core.frontend import Tensor


def axis_in(axis: int, rank: int) -> int:
    """An axis counted from the front.

    Raises:
        IndexOutOfRangeError: There is no such axis.
    """
    if not -rank <= axis < rank:
        raise IndexOutOfRangeError(f"axis {axis} of an array of {rank} axes")
    return axis % rank


def broadcast_arrays(*arrays: Tensor) -> list[Tensor]:
    """Arrays in the shape that they broadcast to."""
    if not arrays:
        return []
    shape = _broadcast_shape(arrays)
    return [broadcast_to(a, shape) for a in arrays]


def _broadcast_shape(arrays: Sequence[Tensor]) -> tuple[int, ...]:
    rank = max(a.ndim for a in arrays)
    shape = [1] * rank
    for array in arrays:
        for k, extent in enumerate(array.shape, rank - array.ndim):
            if extent != 1 and shape[k] not in {1, extent}:
                raise ShapeError("shapes " + " and ".join(str(a.shape) for a in arrays)
                                 + " do not broadcast")
            shape[k] = extent if extent != 1 else shape[k]
    return tuple(shape)


def broadcast_to(x: Tensor, /, shape: tuple[int, ...]) -> Tensor:
    """An array repeated to a shape."""
    if len(shape) < x.ndim or any(n not in {1, m} for n, m in zip(
            x.shape[::-1], shape[::-1], strict=False)):
        raise ShapeError(f"shape {x.shape} does not broadcast to {tuple(shape)}")
    return x.reshape((*(1,) * (len(shape) - x.ndim), *x.shape)).expand(tuple(shape))


def concat(arrays: tuple[Tensor, ...] | list[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """Arrays one after the other along an axis; flattened ones if it is None."""
    given = _promoted(arrays, "concat")
    if axis is None:
        given, axis = [a.reshape(-1) for a in given], 0
    axis = axis_in(axis, given[0].ndim)
    return given[0].cat(*given[1:], dim=axis) if len(given) > 1 else given[0].clone()


def _promoted(arrays: Sequence[Tensor], name: str) -> list[Tensor]:
    if not arrays:
        raise ValueError(f"{name} needs at least one array")
    dtype = result_type(*arrays)
    return [a.cast(dtype) for a in arrays]


def expand_dims(x: Tensor, /, *, axis: int = 0) -> Tensor:
    """A new axis of extent 1."""
    return x.unsqueeze(axis_in(axis, x.ndim + 1))


def flip(x: Tensor, /, *, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """Elements in reverse order along axes; all by default."""
    axes = tuple(range(x.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    axes = tuple(axis_in(a, x.ndim) for a in axes)
    return x.flip(axes) if axes else x.clone()


def moveaxis(
    x: Tensor, source: int | tuple[int, ...], destination: int | tuple[int, ...], /
) -> Tensor:
    """Axes at other places, the rest in order."""
    sources = source if isinstance(source, tuple) else (source,)
    places = destination if isinstance(destination, tuple) else (destination,)
    if len(sources) != len(places):
        raise ShapeError(f"moveaxis of {len(sources)} axes to {len(places)} places")
    taken = [axis_in(a, x.ndim) for a in sources]
    given = {axis_in(p, x.ndim): a for p, a in zip(places, taken, strict=True)}
    if len(set(taken)) != len(taken) or len(given) != len(taken):
        raise ShapeError("moveaxis: an axis or a place is there twice")
    rest = iter(a for a in range(x.ndim) if a not in taken)
    return x.permute(tuple(given[k] if k in given else next(rest) for k in range(x.ndim)))


def permute_dims(x: Tensor, /, axes: tuple[int, ...]) -> Tensor:
    """Axes in another order."""
    return x.permute(tuple(axes)) if x.ndim else x.clone()


def repeat(x: Tensor, repeats: int | Tensor, /, *, axis: int | None = None) -> Tensor:
    """Each element several times; with an array of numbers each one its own number of times."""
    source, place = (x.reshape(-1), 0) if axis is None else (x, axis_in(axis, x.ndim))
    if isinstance(repeats, Tensor) and repeats.ndim == 0:
        repeats = int(repeats.item())
    if isinstance(repeats, int):
        return _repeated(source, repeats, place)
    if repeats.dtype.is_float or not repeats.dtype.is_integer:
        raise DTypeError("repeats is an integer or an array of integers")
    counts = repeats.tolist()
    if len(counts) == 1:
        return _repeated(source, counts[0], place)
    if repeats.ndim != 1 or len(counts) != source.shape[place]:
        raise ShapeError(f"repeats of shape {repeats.shape} for {source.shape[place]} elements")
    index = [k for k, count in enumerate(counts) for _ in range(count)]
    if not index:
        return source[(*(slice(None),) * place, slice(0, 0))]
    return source[(*(slice(None),) * place, Tensor(index, device=x.device))]


def _repeated(x: Tensor, count: int, axis: int) -> Tensor:
    if count < 0:
        raise ValueError(f"{count} repeats")
    shape = list(x.shape)
    wide = x.unsqueeze(axis + 1).expand(*shape[:axis + 1], count, *shape[axis + 1:])
    shape[axis] *= count
    return wide.reshape(tuple(shape))


def reshape(x: Tensor, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Tensor:
    """The same elements in another shape; one extent may be -1."""
    result = x.reshape(tuple(shape)) if shape else x.reshape(())
    return result.clone() if copy else result


def roll(
    x: Tensor, /, shift: int | tuple[int, ...], *, axis: int | tuple[int, ...] | None = None
) -> Tensor:
    """Elements moved along axes; what leaves at the end comes in at the start."""
    if axis is None:
        return roll(x.reshape(-1), shift, axis=0).reshape(x.shape)
    axes = axis if isinstance(axis, tuple) else (axis,)
    shifts = shift if isinstance(shift, tuple) else (shift,) * len(axes)
    if len(shifts) != len(axes):
        raise ShapeError(f"roll by {len(shifts)} shifts along {len(axes)} axes")
    result = x
    for amount, place in zip(shifts, axes, strict=True):
        k = axis_in(place, x.ndim)
        if x.shape[k]:
            result = result.roll(amount % x.shape[k], k)
    return result.clone() if result is x else result


def squeeze(x: Tensor, /, axis: int | tuple[int, ...]) -> Tensor:
    """Without some axes of extent 1."""
    places = {axis_in(a, x.ndim) for a in (axis if isinstance(axis, tuple) else (axis,))}
    for place in places:
        if x.shape[place] != 1:
            raise ShapeError(f"squeeze of axis {place} of shape {x.shape}: its extent is not 1")
    return x.reshape(tuple(n for k, n in enumerate(x.shape) if k not in places))


def stack(arrays: tuple[Tensor, ...] | list[Tensor], /, *, axis: int = 0) -> Tensor:
    """Arrays of one shape along a new axis."""
    given = _promoted(arrays, "stack")
    axis = axis_in(axis, given[0].ndim + 1)
    return given[0].stack(*given[1:], dim=axis) if len(given) > 1 else given[0].unsqueeze(axis)


def tile(x: Tensor, repetitions: tuple[int, ...], /) -> Tensor:
    """The whole array several times along each axis."""
    rank = max(x.ndim, len(repetitions))
    counts = (1,) * (rank - len(repetitions)) + tuple(repetitions)
    result = x.reshape((*(1,) * (rank - x.ndim), *x.shape))
    for axis, count in enumerate(counts):
        shape = list(result.shape)
        wide = result.unsqueeze(axis).expand(*shape[:axis], count, *shape[axis:])
        shape[axis] *= count
        result = wide.reshape(tuple(shape))
    return result


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The arrays that an axis goes through."""
    place = axis_in(axis, x.ndim)
    key: tuple[Any, ...] = (slice(None),) * place
    return tuple(x[(*key, k)] for k in range(x.shape[place]))
