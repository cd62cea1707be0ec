"""CAST, exactly as DESIGN 2, "Numbers" says."""

from __future__ import annotations

from typing import Final

import numpy as np

from core.ir import DType, dtypes
from core.reference.formats import HELD, SMALL_FLOATS, Array, round_to

# What is kept below the 53 bits of a double when a wider integer is rounded to odd.
_STICKY_BITS: Final = 11
_NARROW: Final = frozenset({dtypes.float16, *SMALL_FLOATS})


def _float_to_integer(values: Array, target: DType) -> Array:
    """Truncated; NaN is 0; saturated to int32 for narrower types, of which the low bits remain."""
    narrow = target.is_machine_integer and target.bits < 32
    wide = np.dtype(np.int32) if narrow else HELD[target]
    limits = np.iinfo(wide)
    number = np.trunc(values.astype(np.float64))
    # As doubles the limits of 64 bits are powers of two: whatever reaches the upper one is beyond.
    above, below = number >= float(limits.max), number <= float(limits.min)
    inside = ~(above | below | np.isnan(number))
    result = np.where(inside, number, 0.0).astype(wide)
    result = np.where(above, wide.type(limits.max), result)
    result = np.where(below, wide.type(limits.min), result)
    return result.astype(HELD[target])


def _integer_to_narrow_float(values: Array, target: DType) -> Array:
    """Rounded once: what a double cannot hold is first rounded to odd (Boldo and Melquiond 2008).

    Multiples of 2^11 below 2^64 are doubles; the lowest kept bit says that something was lost.
    """
    low = (1 << _STICKY_BITS) - 1
    large = np.abs(values.astype(np.float64)) >= 2.0**53
    kept = values & values.dtype.type(~low & 0xFFFFFFFFFFFFFFFF if values.dtype.kind == "u"
                                      else ~low)
    sticky = np.where(values & values.dtype.type(low) != 0, low + 1, 0).astype(values.dtype)
    return round_to(np.where(large, kept | sticky, values).astype(np.float64), target)


def cast(values: Array, source: DType, target: DType) -> Array:
    """Held values of one dtype → of another."""
    if source is target:
        return values
    if target is dtypes.bool:
        return np.asarray(values != 0)  # NaN is not 0
    if source.is_float:
        if target.is_float:
            return round_to(values, target)
        return _float_to_integer(values, target)
    if target in _NARROW:
        if values.dtype.itemsize == 8:
            return _integer_to_narrow_float(values, target)
        return round_to(values.astype(np.float64), target)
    return values.astype(HELD[target])
