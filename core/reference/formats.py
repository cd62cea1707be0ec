"""How values of each dtype are held in numpy arrays, rounded, and written as raw bits.

bfloat16 and the two fp8 types, which numpy lacks, are held as float32 arrays of numbers that the
dtype has; in storage they are uint16 and uint8. Weak ints are held as int64, weak floats as
float64. Everything here is written out on its own: ml_dtypes is what the tests compare it with.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from core.ir import ALL_DTYPES, DType, dtypes
from core.ir.dtype import LARGEST_FINITE

Array: TypeAlias = NDArray[Any]

#: Floats that numpy lacks.
SMALL_FLOATS: Final = (dtypes.bfloat16, dtypes.fp8_e4m3, dtypes.fp8_e5m2)
#: numpy dtype of the array that holds values of a dtype.
HELD: Final[dict[DType, np.dtype[Any]]] = {
    **{d: np.dtype(d.name) for d in ALL_DTYPES
       if d.bits and d not in SMALL_FLOATS},
    **{d: np.dtype(np.float32) for d in SMALL_FLOATS},
    dtypes.weak_int: np.dtype(np.int64),
    dtypes.weak_float: np.dtype(np.float64),
}
#: numpy dtype of the elements in storage.
STORED: Final[dict[DType, np.dtype[Any]]] = {
    **HELD,
    dtypes.bfloat16: np.dtype(np.uint16),
    dtypes.fp8_e4m3: np.dtype(np.uint8),
    dtypes.fp8_e5m2: np.dtype(np.uint8),
}
_BFLOAT16_NAN: Final = 0x7FC0


def round_to(values: Array, dtype: DType) -> Array:
    """Float values of any precision rounded once to `dtype`: nearest, ties to even.

    Overflow gives infinity; in fp8_e4m3, which has none, NaN.
    """
    if dtype not in SMALL_FLOATS:
        with np.errstate(all="ignore"):  # infinity and 0 are what IEEE says, not mishaps
            return values.astype(HELD[dtype], copy=False)
    mantissa = dtype.bits - 1 - dtype.exponent_bits
    smallest = 2 - (1 << (dtype.exponent_bits - 1))  # exponent of the smallest normal number
    with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
        wide = values.astype(np.float64, copy=False)
    finite = np.isfinite(wide)
    number = np.where(finite, wide, 0.0)
    exponent = np.maximum(np.frexp(number)[1] - 1, smallest) - mantissa
    rounded = np.ldexp(np.rint(np.ldexp(number, -exponent)), exponent)
    infinity = np.nan if dtype is dtypes.fp8_e4m3 else np.inf
    rounded = np.where(np.abs(rounded) > LARGEST_FINITE[dtype], infinity, rounded)
    rounded = np.where(finite, rounded, np.where(np.isnan(wide), np.nan, infinity))
    return np.copysign(rounded, wide).astype(np.float32)


@cache
def _fp8_numbers(dtype: DType) -> Array:
    """The float32 number of each of the 256 codes."""
    mantissa = 7 - dtype.exponent_bits
    bias = (1 << (dtype.exponent_bits - 1)) - 1
    codes = np.arange(128)
    field, fraction = codes >> mantissa, codes & ((1 << mantissa) - 1)
    normal = np.ldexp(1.0 + fraction / (1 << mantissa), field - bias)
    denormal = np.ldexp(fraction / (1 << mantissa), 1 - bias)
    numbers = np.where(field == 0, denormal, normal)
    top = (1 << dtype.exponent_bits) - 1
    if dtype is dtypes.fp8_e4m3:
        numbers[-1] = np.nan  # "fn": the one code that is not finite
    else:
        numbers = np.where(field == top, np.where(fraction == 0, np.inf, np.nan), numbers)
    return np.concatenate([numbers, -numbers]).astype(np.float32)


def encode(values: Array, dtype: DType) -> Array:
    """Held values → elements as they lie in storage."""
    if dtype is dtypes.bfloat16:
        bits = (np.ascontiguousarray(values).view(np.uint32) >> 16).astype(np.uint16)
        signed_nan = (bits & 0x8000) | _BFLOAT16_NAN
        return np.where(np.isnan(values), signed_nan, bits).astype(np.uint16).reshape(values.shape)
    if dtype in SMALL_FLOATS:
        numbers = _fp8_numbers(dtype)
        last = int(np.nanargmax(numbers[:128]))  # infinity, or the largest number
        codes = np.searchsorted(numbers[: last + 1], np.abs(values))
        codes = np.where(np.isnan(values), 0x7F if dtype is dtypes.fp8_e4m3 else 0x7E, codes)
        return (codes | np.where(np.signbit(values), 0x80, 0)).astype(np.uint8)
    return values.astype(STORED[dtype], copy=False)


def decode(elements: Array, dtype: DType) -> Array:
    """Elements as they lie in storage → held values."""
    if dtype is dtypes.bfloat16:
        return (elements.astype(np.uint32) << 16).view(np.float32)
    if dtype in SMALL_FLOATS:
        return np.asarray(_fp8_numbers(dtype)[elements])
    return elements


def bitcast(values: Array, source: DType, target: DType) -> Array:
    """Same bytes as another dtype; with another item size the last axis grows or shrinks."""
    stored = np.ascontiguousarray(encode(values, source)).reshape(values.shape)
    if source.itemsize != target.itemsize:
        old, new = source.itemsize, target.itemsize
        dims: list[int] = list(stored.shape)
        shape = (*dims[:-1], dims[-1] * old // new)
        flat = np.frombuffer(stored.tobytes(), STORED[target])
        return decode(flat.reshape(shape), target)
    if target is dtypes.bool:
        return np.asarray(stored.view(np.uint8) != 0)
    return decode(np.asarray(stored.view(STORED[target])), target)


def smallest(dtype: DType) -> Any:
    """The value below all others that a dtype has: where a maximum starts."""
    if dtype is dtypes.weak_int:
        return np.iinfo(np.int64).min
    return dtype.minimum


def held(value: Any, dtype: DType) -> Array:
    """A Python number, or an array of numbers that the dtype has, as an array that holds them."""
    return np.asarray(value).astype(HELD[dtype], copy=False)
