"""Creation of arrays."""

from __future__ import annotations

from typing import Any

from core.foundation.errors import DTypeError, ShapeError
from core.foundation.lazy_import import lazy_import
from core.frontend import Tensor
from core.frontend.conversion import default_float
from core.ir import DType

np: Any = lazy_import("numpy")

Shape = int | tuple[int, ...]


def asarray(
    obj: Any, /, *, dtype: DType | None = None, device: str | None = None,
    copy: bool | None = None,
) -> Tensor:
    """Numbers, nested sequences, buffers and arrays of any library as a Tensor.

    Raises:
        ValueError: `copy` is False, and a copy is needed.
        TypeError: A value that no dtype holds.
    """
    if isinstance(obj, Tensor):
        return _again(obj, dtype, device, copy)
    if isinstance(obj, complex):
        raise DTypeError("there are no complex dtypes")
    if isinstance(obj, float) and hasattr(obj, "dtype"):  # numpy.float64 is a float of Python's
        obj = np.asarray(obj)
    if copy is False:
        if not hasattr(obj, "__dlpack__") or dtype not in {None, Tensor.from_dlpack(obj).dtype}:
            raise ValueError(f"a {type(obj).__name__} cannot become an array without a copy")
        try:
            return Tensor.from_dlpack(obj, device=device, copy=False)
        except BufferError as error:
            raise ValueError(str(error)) from None
    return Tensor(obj, dtype=dtype, device=device)


def _again(obj: Tensor, dtype: DType | None, device: str | None, copy: bool | None) -> Tensor:
    changes = dtype not in {None, obj.dtype} or device not in {None, obj.device}
    if changes and copy is False:
        raise ValueError("another dtype or device needs a copy")
    if not changes:
        return obj.clone() if copy else obj
    result = obj if dtype is None else obj.cast(dtype)
    return result if device is None else result.to(device)


def arange(
    start: float, /, stop: float | None = None, step: float = 1, *,
    dtype: DType | None = None, device: str | None = None,
) -> Tensor:
    """Evenly spaced numbers from `start` on, less than `stop`."""
    first, last = (0, start) if stop is None else (start, stop)
    return Tensor.arange(first, last, step, dtype=dtype, device=device)


def empty(shape: Shape, *, dtype: DType | None = None, device: str | None = None) -> Tensor:
    """An array of any content."""
    return Tensor.empty(_shape(shape), dtype=dtype, device=device)


def zeros(shape: Shape, *, dtype: DType | None = None, device: str | None = None) -> Tensor:
    """An array of zeros."""
    return Tensor.zeros(_shape(shape), dtype=dtype, device=device)


def ones(shape: Shape, *, dtype: DType | None = None, device: str | None = None) -> Tensor:
    """An array of ones."""
    return Tensor.ones(_shape(shape), dtype=dtype, device=device)


def full(
    shape: Shape, fill_value: complex, *, dtype: DType | None = None, device: str | None = None
) -> Tensor:
    """An array of one value."""
    return Tensor.full(_shape(shape), fill_value, dtype=dtype, device=device)


def empty_like(
    x: Tensor, /, *, dtype: DType | None = None, device: str | None = None
) -> Tensor:
    """An array of any content in the shape of another."""
    return empty(x.shape, dtype=dtype or x.dtype, device=device or x.device)


def zeros_like(
    x: Tensor, /, *, dtype: DType | None = None, device: str | None = None
) -> Tensor:
    """Zeros in the shape of another array."""
    return zeros(x.shape, dtype=dtype or x.dtype, device=device or x.device)


def ones_like(
    x: Tensor, /, *, dtype: DType | None = None, device: str | None = None
) -> Tensor:
    """Ones in the shape of another array."""
    return ones(x.shape, dtype=dtype or x.dtype, device=device or x.device)


def full_like(
    x: Tensor, /, fill_value: complex, *, dtype: DType | None = None, device: str | None = None
) -> Tensor:
    """One value in the shape of another array."""
    return full(x.shape, fill_value, dtype=dtype or x.dtype, device=device or x.device)


def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: DType | None = None,
    device: str | None = None,
) -> Tensor:
    """Ones on a diagonal, `k` above the main one, zeros elsewhere."""
    columns = n_rows if n_cols is None else n_cols
    rows = Tensor.arange(n_rows, device=device).reshape(-1, 1)
    return (Tensor.arange(columns, device=device) == rows + k).cast(dtype or default_float())


def linspace(
    start: float, stop: float, /, num: int, *, dtype: DType | None = None,
    device: str | None = None, endpoint: bool = True,
) -> Tensor:
    """`num` evenly spaced numbers from `start` to `stop`; without it if not `endpoint`."""
    if endpoint or not num:
        return Tensor.linspace(start, stop, num, dtype=dtype or default_float(), device=device)
    longer = Tensor.linspace(start, stop, num + 1, dtype=dtype or default_float(), device=device)
    return longer[:num]


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> list[Tensor]:
    """Coordinates of a grid, from those of its axes.

    Raises:
        ValueError: An `indexing` that is neither "xy" nor "ij", or an array of another rank.
    """
    if indexing not in {"xy", "ij"}:
        raise ValueError(f"indexing is 'xy' or 'ij', not {indexing!r}")
    if not arrays:
        return []
    if any(a.ndim != 1 for a in arrays):
        raise ShapeError("meshgrid takes arrays of one axis")
    sizes = [a.shape[0] for a in arrays]
    grids = []
    for k, array in enumerate(arrays):
        view = array.reshape(tuple(n if a == k else 1 for a, n in enumerate(sizes))).expand(*sizes)
        swaps = indexing == "xy" and len(arrays) > 1
        grids.append(view.transpose(0, 1) if swaps else view)
    return grids


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The part of matrices at and below a diagonal, zeros elsewhere."""
    return x.tril(k)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The part of matrices at and above a diagonal, zeros elsewhere."""
    return x.triu(k)


def from_dlpack(
    x: Any, /, *, device: str | None = None, copy: bool | None = None
) -> Tensor:
    """An array of any library that speaks DLPack, in the array's own memory where possible."""
    return Tensor.from_dlpack(x, device=device, copy=copy)


def _shape(shape: Any) -> tuple[Any, ...]:
    return tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
