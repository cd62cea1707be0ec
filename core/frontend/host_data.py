"""Host data and tensors: bytes of nested lists, numpy arrays and buffers, and back.

numpy is not needed for lists: a first program starts sooner without it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from core.foundation.errors import DTypeError, ShapeError
from core.foundation.lazy_import import lazy_import
from core.frontend.conversion import (
    NUMPY_NAMES,
    as_dtype,
    default_float,
    default_int,
    number_dtype,
    strong,
)
from core.ir import DType, dtypes, promote
from core.ir.dtype import round_to_float

if TYPE_CHECKING:
    import numpy as np
else:
    np = lazy_import("numpy")

_FORMATS: Final = {
    dtypes.bool: "?", dtypes.int8: "b", dtypes.uint8: "B", dtypes.int16: "h", dtypes.uint16: "H",
    dtypes.int32: "i", dtypes.uint32: "I", dtypes.int64: "q", dtypes.uint64: "Q",
    dtypes.float16: "e", dtypes.float32: "f", dtypes.float64: "d",
}
NOT_IN_NUMPY: Final = (dtypes.bfloat16, dtypes.fp8_e4m3, dtypes.fp8_e5m2)


class HostData(NamedTuple):
    """Values on the host, row-major, in the byte order of this machine."""

    data: Any
    dtype: DType
    shape: tuple[int, ...]


def shape_of_list(data: Any) -> tuple[int, ...]:
    """The shape of nested lists.

    Raises:
        ShapeError: The lists are ragged.
    """
    shape: list[int] = []
    level = [data]
    while level and isinstance(level[0], (list, tuple)):
        size = len(level[0])
        for item in level:
            if not isinstance(item, (list, tuple)) or len(item) != size:
                found = len(item) if isinstance(item, (list, tuple)) else "a number"
                raise ShapeError(f"ragged list: along axis {len(shape)} one item has {size} "
                                 f"elements, another {found}")
        shape.append(size)
        level = [inner for item in level for inner in item]
    for item in level:
        if isinstance(item, (list, tuple)):
            raise ShapeError("ragged list: numbers and lists are mixed along axis "
                             f"{len(shape) - 1}")
    return tuple(shape)


def flat_list(data: Any, rank: int) -> list[Any]:
    """The numbers of nested lists of `rank` levels, row-major."""
    level = [data]
    for _ in range(rank):
        level = [inner for item in level for inner in item]
    return level


def from_list(data: Any, dtype: DType | None) -> HostData:
    """Nested lists of Python numbers.

    Raises:
        ShapeError: The lists are ragged.
        DTypeError: An item is no number, or does not fit the dtype.
    """
    shape = shape_of_list(data)
    flat = flat_list(data, len(shape))
    for item in flat:
        if not isinstance(item, (bool, int, float)):
            raise DTypeError(f"a tensor cannot hold {item!r} of type {type(item).__name__}",
                             cure="give numbers, or lists of numbers")
    if dtype is None:
        kinds = {number_dtype(item) for item in flat}
        dtype = strong(promote(*kinds)) if kinds else default_float()
    if dtype.is_machine_integer:
        flat = [int(item) for item in flat]
        for item in flat:
            if not dtype.minimum <= item <= dtype.maximum:
                cure = "pass dtype=dtypes.int64" if dtype is default_int() else "use a wider dtype"
                raise DTypeError(f"{item} does not fit {dtype.name} "
                                 f"({dtype.minimum} to {dtype.maximum})", cure=cure)
    return HostData(pack(flat, dtype), dtype, shape)


def pack(values: Sequence[Any], dtype: DType) -> bytes:
    """Bytes of numbers, floats rounded; dtypes that struct does not know are packed as float32."""
    if dtype in NOT_IN_NUMPY:
        dtype = dtypes.float32
    if dtype is dtypes.bool:
        values = [bool(v) for v in values]
    elif dtype.is_float and dtype is not dtypes.float64:
        values = [round_to_float(float(v), dtype) for v in values]
    return struct.pack(f"={len(values)}{_FORMATS[dtype]}", *values)


def from_numpy(array: Any, dtype: DType | None) -> HostData:
    """A numpy array or scalar of any layout and byte order, in its own dtype.

    Args:
        array: The array.
        dtype: What its values will be cast to; integers must fit.

    Raises:
        DTypeError: No tensor can hold its dtype, or an integer does not fit `dtype`.
    """
    array = np.asarray(array)
    if array.dtype.kind in "OUSVMmc" and array.dtype.name not in NUMPY_NAMES:
        kind = "objects" if array.dtype.kind == "O" else str(array.dtype)
        raise DTypeError(f"a tensor cannot hold an array of {kind}",
                         cure="convert it first, such as array.astype('float32')")
    native = array.astype(array.dtype.newbyteorder("="), order="C", copy=False)
    if dtype is not None:
        _check_fits(native, dtype)
    return HostData(native.tobytes(), as_dtype(native.dtype), array.shape)


def _check_fits(array: Any, dtype: DType) -> None:
    if dtype.is_machine_integer and array.dtype.kind in "iu" and array.size:
        low, high = int(array.min()), int(array.max())
        if low < dtype.minimum or high > dtype.maximum:
            worst = low if low < dtype.minimum else high
            raise DTypeError(f"{worst} does not fit {dtype.name} ({dtype.minimum} to "
                             f"{dtype.maximum})", cure="use a wider dtype")


def to_nested(data: memoryview, dtype: DType, shape: tuple[int, ...]) -> Any:
    """Bytes as Python numbers in nested lists; one number where the shape is ()."""
    flat = list(struct.unpack(f"={prod(shape)}{_FORMATS[dtype]}", data))
    if not shape:
        return flat[0]
    for extent in reversed(shape[1:]):
        if extent == 0:
            return _empty(shape)
        flat = [flat[k:k + extent] for k in range(0, len(flat), extent)]
    return flat


def _empty(shape: tuple[int, ...]) -> list[Any]:
    result: list[Any] = []
    for extent in reversed(shape[:shape.index(0)]):
        result = [list(result) for _ in range(extent)]
    return result


def to_numpy(data: memoryview, dtype: DType, shape: tuple[int, ...]) -> Any:
    """Bytes as a numpy array of its own."""
    return np.frombuffer(data, dtype.name).reshape(shape).copy()


def read_only_numpy(source: Any) -> Any:
    """What speaks DLPack as a numpy array of the same memory, which it keeps."""
    array = np.from_dlpack(source)
    array.flags.writeable = False
    return array
