"""SIN and COS of float32 in float64, where that is fast: exact in the argument, no special case.

    x * 2/pi = x c1 + x c2 less the nearest integer; y = what is left * pi/2
    SIN(x) → CAST(sin y or cos y, float32)

c1 and c2 are 53 digits each of 2/pi; a fused multiply-add gives the product x c1 exactly, in two
parts. Which digits depends on x: those whose product is a multiple of 4 are left out, so there
are four pairs, chosen by |x|. (Cutting 2/pi to the argument is Payne and Hanek's idea, 1983.)
"""

from __future__ import annotations

import math as python_math
from typing import Final

from core.codegen.decompose.arithmetic import FORMATS, Arithmetic, Context
from core.codegen.decompose.coefficients import COEFFICIENTS, TWO_OVER_PI, TWO_OVER_PI_BITS
from core.ir import UOp, dtypes

_DIGITS: Final = 53
# Exponents of the smallest |x| of each pair but the first. A product x c1 stays below 2^51, and
# what c2 does not reach below 2^-55.
_BANDS: Final = (51, 77, 103)


def _digits(first: int) -> float:
    """53 digits of 2/pi, the first of them number `first` after the point, at their place."""
    last = first + _DIGITS - 1
    taken = (TWO_OVER_PI >> (TWO_OVER_PI_BITS - last)) & ((1 << _DIGITS) - 1)
    return python_math.ldexp(taken, -last)


def _pairs() -> list[tuple[float, float]]:
    """(c1, c2) for |x| below the first band, and from each band on.

    With |x| >= 2^a its last digit is at least 2^(a - 23): digit a - 25 times it is a multiple of 4.
    """
    starts = [1, *(band - 24 for band in _BANDS)]
    return [(_digits(start), _digits(start + _DIGITS)) for start in starts]


def is_fast(x: UOp, context: Context) -> bool:
    """Whether float64 is there, fused, and no GPU's: those may take 64 times longer for it."""
    target = context.target
    available = dtypes.float64 in target.dtypes - target.storage_dtypes
    return (
        x.dtype is dtypes.float32 and available and context.fused and target.global_limit is None
    )


def _fraction(math: Arithmetic, product: UOp) -> tuple[UOp, UOp]:
    """(what rounding to an integer leaves, bits that end with that integer's)."""
    shifted = product + math.format.shifter
    return product - (shifted - math.format.shifter), math.bits(shifted)


def periodic_in_float64(x: UOp, quarter: int, context: Context) -> UOp:
    """sin(x + quarter * pi/2) of a float32, within 0.6 units."""
    math = Arithmetic(FORMATS[dtypes.float64], context.fused)
    magnitude = x.bitcast(dtypes.uint32) & 0x7FFFFFFF
    first, *others = _pairs()
    chosen = [UOp.const(c, dtypes.float64) for c in first]
    for band, pair in zip(_BANDS, others, strict=True):
        below = magnitude < FORMATS[dtypes.float32].bits_of_power(band)
        chosen = [below.where(c, new) for c, new in zip(chosen, pair, strict=True)]
    wide = x.cast(dtypes.float64)
    product = wide * chosen[0]
    coarse, count = _fraction(math, product)
    # The product's rounding error is subtracted: adding its negative would lose the sign of -0.
    coarse = coarse - math.multiply_add(-wide, chosen[0], product)
    left, more = _fraction(math, math.multiply_add(wide, chosen[1], coarse))
    turns = count + more
    if quarter:
        turns = turns + quarter
    y = left * (python_math.pi / 2)
    square = y * y
    narrow = COEFFICIENTS[dtypes.float32]
    sine = math.polynomial(square, (1.0, *narrow.sin)) * y
    cosine = math.polynomial(square, (1.0, -0.5, *narrow.cos))
    value = (turns & 1).ne(0).where(cosine, sine)
    sign = (turns << (math.format.width - 2)) & math.format.sign_bit
    return math.from_bits(math.bits(value) ^ sign).cast(dtypes.float32)
