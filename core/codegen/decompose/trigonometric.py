"""SIN and COS of float32 and float64, exact in the argument over the whole range.

    |x| < pi/4          : y = |x|
    |x| provably < 100  : y = |x| - n pi/2 in three parts (Cody and Waite)
    float64 is fast     : see trigonometric_wide
    else                : |x| * 2/pi = quadrant + fraction (Payne and Hanek), y = |fraction| pi/2
    SIN(x) → sin y or cos y by the quadrant, its sign put in by an exclusive or

Payne and Hanek, Radian Reduction for Trigonometric Functions (SIGNUM 1983): with |x| = m 2^e, m an
integer, only those bits of 2/pi count whose product with m is neither a multiple of 4 nor far
below the result's last digit: three words, cut out of the constant by choosing words with the
upper bits of e and shifting by the lower ones. No table in memory, no loop, no branch.
"""

from __future__ import annotations

import math as python_math
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from core.codegen.decompose.arithmetic import Arithmetic, Context, arithmetic
from core.codegen.decompose.coefficients import TWO_OVER_PI, TWO_OVER_PI_BITS
from core.codegen.decompose.magnitude import largest_magnitude
from core.codegen.decompose.trigonometric_wide import is_fast, periodic_in_float64
from core.codegen.decompose.wide_multiply import multiply_high
from core.ir import UOp

_WORDS_USED: Final = 3
_TURN_BITS: Final = 6
# Below this a number of quarter turns has at most that many bits.
_SMALL: Final = 2**_TURN_BITS * python_math.pi / 2


@dataclass(frozen=True)
class Reduced:
    """|x| as quadrant * pi/2 + y, y in two parts.

    Attributes:
        quadrant: Number of quarter turns, modulo 4, an unsigned integer.
        high: |y| at most pi/4.
        low: What high lacks.
        sign: The sign bit of y, an unsigned integer.
    """

    quadrant: UOp
    high: UOp
    low: UOp
    sign: UOp


def _words(first_bit: int, count: int, width: int) -> list[int]:
    """`count` words of 0.5 * 2/pi's digits from a position; zeros stand before the point."""
    words = []
    for k in range(count):
        drop = TWO_OVER_PI_BITS - (first_bit + (k + 1) * width)
        words.append((TWO_OVER_PI >> drop) & ((1 << width) - 1))
    return words


def _choose_words(position: UOp, zeros: int, most: int, width: int) -> list[UOp]:
    """Words number k, k+1, .. of the padded constant, k = position / width, by halving choices."""
    dtype = position.dtype
    levels = (most // width).bit_length()
    needed = _WORDS_USED + 1
    table = _words(-zeros, most // width + needed, width)
    words = [UOp.const(w, dtype) for w in table]
    for level in reversed(range(levels)):
        step = 1 << level
        chosen = (position & (width * step)).ne(0)
        # Lower levels go at most step - 1 further on.
        keep = min(needed + step - 1, len(words))
        words = [
            chosen.where(words[k + step], words[k]) if k + step < len(words) else words[k]
            for k in range(keep)
        ]
    return words[:needed]


def _shift_words(words: list[UOp], shift: UOp, width: int) -> list[UOp]:
    """The words moved left by `shift` < width, each filled from the next."""
    back = shift ^ (width - 1)
    return [
        (upper << shift) | ((lower >> 1) >> back)
        for upper, lower in pairwise(words)
    ]


def _fraction(math: Arithmetic, magnitude: UOp, context: Context) -> tuple[UOp, UOp, UOp]:
    """(quadrant, high word, low word) of m 2^e * 2/pi; the words are a signed fraction."""
    form, width = math.format, math.format.width
    hidden = 1 << form.mantissa
    field = magnitude >> form.mantissa
    m = (magnitude & (hidden - 1)) | hidden
    # The first word starts where the product has weight 2: at digit e - 1 after the point. The
    # smallest |x| reduced is pi/4, with e = -mantissa - 1.
    zeros = form.mantissa + 3
    smallest, largest = form.bias - 1, 2 * form.bias
    at = (field > smallest).where(field - smallest, 0)
    words = _choose_words(at, zeros, largest - smallest, width)
    first, second, third = _shift_words(words, at & (width - 1), width)
    middle = m * second
    low = middle + multiply_high(m, third, context)
    carry = (low < middle).cast(low.dtype)
    high = m * first + multiply_high(m, second, context) + carry
    quadrant = (high + (1 << (width - 3))) >> (width - 2)
    return quadrant, (high << 2) | (low >> (width - 2)), low << 2


def _convert(math: Arithmetic, high: UOp, low: UOp) -> tuple[UOp, UOp]:
    """The fraction in two floats: three pieces of the digits, each exact, are added."""
    form, width = math.format, math.format.width
    digits = form.mantissa + 1
    spare = width - digits
    taken = digits - spare
    pieces = (
        (high >> spare, -digits),
        (((high & ((1 << spare) - 1)) << taken) | (low >> (width - taken)), -2 * digits),
        (low & ((1 << (width - taken)) - 1), -2 * width),
    )
    first, second, third = (
        piece.bitcast(form.signed).cast(form.dtype) * 2.0**weight for piece, weight in pieces
    )
    total, rest = math.fast_two_sum(first, second)
    return total, rest + third


def _half_pi_parts(math: Arithmetic) -> tuple[float, float, float]:
    """pi/2 in three parts; the first two times a number of quarter turns are exact."""
    kept = math.format.mantissa + 1 - _TURN_BITS
    scale = 4 * kept
    rest = (1 << (TWO_OVER_PI_BITS + scale)) // TWO_OVER_PI
    parts = []
    for _ in range(2):
        drop = rest.bit_length() - kept
        parts.append((rest >> drop << drop) / (1 << scale))
        rest &= (1 << drop) - 1
    return parts[0], parts[1], rest / (1 << scale)


def _reduce_small(math: Arithmetic, absolute: UOp) -> Reduced:
    """|x| - n pi/2 for |x| < 100, n = |x| 2/pi rounded to an integer."""
    shifter = math.format.shifter
    shifted = math.multiply_add(absolute, 2 / python_math.pi, shifter)
    n = shifted - shifter
    first, second, third = _half_pi_parts(math)
    coarse = math.multiply_add(n, -first, absolute)
    step = n * second
    high = coarse - step
    low = math.multiply_add(n, -third, (coarse - high) - step)
    bits = math.bits(shifted)  # its low bits are those of n
    return Reduced(bits, high, low, bits.const_like(0))


def _reduce_any(math: Arithmetic, absolute: UOp, context: Context) -> Reduced:
    """|x| modulo pi/2, right to more digits than the result has, for every finite x."""
    form = math.format
    magnitude = math.bits(absolute)
    quadrant, high_word, low_word = _fraction(math, magnitude, context)
    # All ones where the fraction is negative: ~f is -f less one unit far below the last digit.
    flip = (high_word.bitcast(form.signed) >> (form.width - 1)).bitcast(form.unsigned)
    turn_high, turn_low = _convert(math, high_word ^ flip, low_word ^ flip)
    pi_high, pi_low = math.coefficients.half_pi
    high = turn_high * pi_high
    low = turn_high * pi_low + turn_low * pi_high
    if math.fused:
        low = low + math.multiply_add(turn_high, pi_high, -high)
    near = absolute < python_math.pi / 4
    return Reduced(
        quadrant=near.where(quadrant.const_like(0), quadrant),
        high=near.where(absolute, high),
        low=near.where(low.const_like(0), low),
        sign=near.where(flip.const_like(0), flip & form.sign_bit),
    )


def _sine_part(math: Arithmetic, y: UOp, low: UOp, square: UOp) -> UOp:
    """sin(y + low) → y + (y^3 S(y^2) + low)."""
    cubic = math.polynomial(square, math.coefficients.sin) * square
    return y + math.multiply_add(cubic, y, low)


def _cosine_part(math: Arithmetic, y: UOp, low: UOp, square: UOp) -> UOp:
    """cos(y + low) → w + (((1 - w) - y^2/2) + (y^4 C(y^2) - y low)), w = 1 - y^2/2 rounded."""
    half = square * 0.5
    rounded = 1.0 - half
    tail = math.polynomial(square, math.coefficients.cos) * (square * square)
    tail = math.multiply_add(y, -low, tail)
    return rounded + (((1.0 - rounded) - half) + tail)


def _periodic(x: UOp, quarter: int, context: Context) -> UOp:
    """sin(|x| + quarter * pi/2) with the sign of x put in for quarter = 0."""
    math = arithmetic(x, context)
    form = math.format
    absolute = math.from_bits(math.absolute_bits(x))
    small = largest_magnitude(x) < _SMALL
    if not small and is_fast(x, context):
        return periodic_in_float64(x, quarter, context)
    reduced = _reduce_small(math, absolute) if small else _reduce_any(math, absolute, context)
    square = reduced.high * reduced.high
    sine = _sine_part(math, reduced.high, reduced.low, square)
    cosine = _cosine_part(math, reduced.high, reduced.low, square)
    turns = reduced.quadrant + quarter if quarter else reduced.quadrant
    odd = (turns & 1).ne(0)
    sign = (turns << (form.width - 2)) & form.sign_bit
    # The cosine does not see the sign of y.
    sign = sign ^ odd.where(sign.const_like(0), reduced.sign)
    if quarter == 0:
        sign = sign ^ (math.bits(x) & form.sign_bit)
    value = math.from_bits(math.bits(odd.where(cosine, sine)) ^ sign)
    if small:
        return value
    finite = math.bits(absolute) < form.infinity_bits
    return finite.where(value, value.const_like(float("nan")))


def decompose_sin(x: UOp, context: Context) -> UOp:
    """SIN(x) → reduced argument, two polynomials, a choice by quadrant."""
    return _periodic(x, 0, context)


def decompose_cos(x: UOp, context: Context) -> UOp:
    """COS(x) → SIN a quarter turn on; the sign of x does not matter."""
    return _periodic(x, 1, context)
