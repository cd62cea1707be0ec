"""Conversions between float32 and small floats by integer operations.

Rounding is to nearest, ties to even, as in ml_dtypes: overflow is inf, in fp8 e4m3 ("fn": no
infinities) NaN; NaN stays NaN with its sign.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from core.ir import DType, UOp, dtypes

_MANTISSA: Final = 23
_BIAS: Final = 127
_INFINITY: Final = 0x7F800000
_SIGN: Final = 0x80000000


@dataclass(frozen=True)
class Small:
    """The bits of a small float.

    Attributes:
        mantissa: Stored mantissa bits.
        bias: Exponent bias.
        largest: Bits of the largest finite number.
        overflow: Bits of what larger numbers become.
        nan: Bits of a NaN.
    """

    mantissa: int
    bias: int
    largest: int
    overflow: int
    nan: int

    @property
    def dropped(self) -> int:
        """Mantissa bits that float32 has in addition."""
        return _MANTISSA - self.mantissa


SMALL: Final[dict[DType, Small]] = {
    dtypes.float16: Small(10, 15, 0x7BFF, 0x7C00, 0x7E00),
    dtypes.bfloat16: Small(7, 127, 0x7F7F, 0x7F80, 0x7FC0),
    dtypes.fp8_e5m2: Small(2, 15, 0x7B, 0x7C, 0x7E),
    dtypes.fp8_e4m3: Small(3, 7, 0x7E, 0x7F, 0x7F),
}


def _code_dtype(dtype: DType) -> DType:
    return dtypes.uint8 if dtype.itemsize == 1 else dtypes.uint16


def _round_mantissa(magnitude: UOp, dropped: int) -> UOp:
    """Bits with the dropped ones rounded into the rest, ties to even; they are not cleared."""
    odd = (magnitude >> dropped) & 1
    return magnitude + (odd + ((1 << (dropped - 1)) - 1))


def encode(x: UOp, dtype: DType) -> UOp:
    """float32 → the nearest number of a small float, as uint16 or uint8 bits."""
    small = SMALL[dtype]
    bits = x.bitcast(dtypes.uint32)
    magnitude = bits & (_SIGN - 1)
    sign = (bits ^ magnitude) >> (32 - dtype.bits)
    code = _round_mantissa(magnitude, small.dropped) >> small.dropped
    if small.bias != _BIAS:
        code = code - ((_BIAS - small.bias) << small.mantissa)
        # Denormal results: adding a power of two rounds at the last denormal digit.
        exponent = small.dropped + 1 - small.bias
        added = magnitude.bitcast(dtypes.float32) + 2.0**exponent
        denormal = added.bitcast(dtypes.uint32) - ((exponent + _BIAS) << _MANTISSA)
        smallest = (_BIAS + 1 - small.bias) << _MANTISSA
        # The largest is tested before the denormal choice: below it the code has wrapped.
        highest = (_BIAS - small.bias << small.mantissa) + small.largest << small.dropped
        half = 1 << (small.dropped - 1)
        # A tie above the largest goes away from it where the largest is odd.
        limit = highest + half + (0 if small.largest & 1 else 1)
        code = (magnitude < limit).where(code, small.overflow)
        code = (magnitude < smallest).where(denormal, code)
    code = (magnitude > _INFINITY).where(code.const_like(small.nan), code)
    return (code | sign).cast(_code_dtype(dtype))


def decode(code: UOp, dtype: DType) -> UOp:
    """uint16 or uint8 bits of a small float → float32, exactly."""
    small = SMALL[dtype]
    wide = code.cast(dtypes.uint32)
    if small.bias == _BIAS:
        return (wide << small.dropped).bitcast(dtypes.float32)
    magnitude = wide & ((1 << (dtype.bits - 1)) - 1)
    sign = (wide ^ magnitude) << (32 - dtype.bits)
    normal = (magnitude << small.dropped) + ((_BIAS - small.bias) << _MANTISSA)
    # No arithmetic on float32 denormals: some devices flush them.
    tiny = magnitude.bitcast(dtypes.int32).cast(dtypes.float32)
    tiny = tiny * 2.0 ** (1 - small.bias - small.mantissa)
    bits = (magnitude < 1 << small.mantissa).where(tiny.bitcast(dtypes.uint32), normal)
    special = normal.const_like(_INFINITY | 1 << 22) if small.overflow == small.nan else (
        normal | _INFINITY
    )
    bits = (magnitude > small.largest).where(special, bits)
    return (bits | sign).bitcast(dtypes.float32)


def keep_number(x: UOp) -> UOp:
    """float32 → the nearest bfloat16 number, as float32: the lower half rounded and cleared."""
    bits = x.bitcast(dtypes.uint32)
    dropped = SMALL[dtypes.bfloat16].dropped
    rounded = (_round_mantissa(bits, dropped) & -(1 << dropped)).bitcast(dtypes.float32)
    # Adding to a NaN's bits could turn it into a number.
    return x.ne(x).where(x, rounded)


def round_to_odd(x: UOp) -> UOp:
    """float64 → float32 such that rounding it once more is rounding x once.

    Where the conversion is inexact the neighbour with an odd last digit is taken (Boldo and
    Melquiond, Emulation of FMA and correctly rounded sums, 2008).
    """
    near = x.cast(dtypes.float32)
    back = near.cast(dtypes.float64)
    sign = (1 << 63) - 1
    away = (x.bitcast(dtypes.uint64) & sign) < (back.bitcast(dtypes.uint64) & sign)
    toward_zero = near.bitcast(dtypes.uint32) - away.cast(dtypes.uint32)
    return (toward_zero | back.ne(x).cast(dtypes.uint32)).bitcast(dtypes.float32)
