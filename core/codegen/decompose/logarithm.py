"""LOG and LOG2 of float32 and float64, denormals, zeros, infinities and NaN included.

x = 2^e m, m from sqrt(1/2) to sqrt(2), t = m - 1 (exact)
LOG(x)  → e ln 2 + log(1 + t)
LOG2(x) → e + log(1 + t) / ln 2
then 0 → -inf, below 0 → NaN, inf → inf, NaN → NaN
"""

from __future__ import annotations

from core.codegen.decompose.arithmetic import Arithmetic, Context, arithmetic
from core.codegen.decompose.coefficients import LOG_FLOAT32
from core.ir import UOp, dtypes

_SQRT_HALF = 0.5**0.5


def split_exponent(math: Arithmetic, x: UOp) -> tuple[UOp, UOp]:
    """(e, m) as floats with x = 2^e m and m in [sqrt(1/2), sqrt(2)), for positive finite x.

    Everything stays in unsigned integers: e + bias is positive, and it becomes a float by being
    placed in the mantissa of 2^mantissa.
    """
    form = math.format
    digits = form.mantissa + 1
    denormal = x < 2.0 ** (1 - form.bias)
    bits = math.bits(denormal.where(x * 2.0**digits, x))
    # With x = sqrt(1/2) 2^k the top bits turn to k + bias.
    root = UOp.const(_SQRT_HALF, form.dtype).value
    offset = form.bits_of_power(0) - _bits_of_number(math, root)
    biased = (bits + offset) >> form.mantissa
    mantissa = math.from_bits(bits - (biased << form.mantissa) + form.bits_of_power(0))
    base = 2.0**form.mantissa
    placed = math.from_bits(biased | form.bits_of_power(form.mantissa))
    zero = denormal.where(x.const_like(base + form.bias + digits), x.const_like(base + form.bias))
    return placed - zero, mantissa


def _bits_of_number(math: Arithmetic, value: float) -> int:
    """Bits of a number of [1/2, 1) in this format."""
    form = math.format
    return form.bits_of_power(-1) + int((2 * value - 1) * 2.0**form.mantissa)


def _tail(math: Arithmetic, t: UOp) -> UOp:
    """log(1 + t) - t.

    float32: -t^2/2 + t^3 Q(t). float64: -h + s (h + R), with s = t / (2 + t), h = t^2/2 and
    R = 2 (atanh(s) / s - 1), which takes a third of the terms (after W. J. Cody, as in FDLIBM).
    """
    square = t * t
    if math.format.dtype is dtypes.float32:
        return math.multiply_add(math.polynomial(t, LOG_FLOAT32) * t, square, square * -0.5)
    half = square * 0.5
    s = t / (t + 2.0)
    z = s * s
    third = math.coefficients.third[0]
    rest = z * math.polynomial(z, (2 * third, *(2 * c for c in math.coefficients.atanh)))
    return math.multiply_add(s, half + rest, -half)


def _special_cases(x: UOp, value: UOp) -> UOp:
    """The logarithm of every x, given that of the positive finite ones."""
    infinity = float("inf")
    above = (x < infinity).where(value, infinity)
    other = x.eq(0.0).where(x.const_like(-infinity), x.const_like(float("nan")))
    return (x > 0.0).where(above, other)


def decompose_log(x: UOp, context: Context) -> UOp:
    """LOG(x) → e ln2_high + (t + (tail + e ln2_low))."""
    math = arithmetic(x, context)
    exponent, m = split_exponent(math, x)
    t = m - 1.0
    high, low = math.coefficients.ln2
    value = math.multiply_add(exponent, low, _tail(math, t)) + t
    return _special_cases(x, math.multiply_add(exponent, high, value))


def decompose_log2(x: UOp, context: Context) -> UOp:
    """LOG2(x) → e + (t high + (t low + tail high)), (high, low) = 1 / ln 2."""
    math = arithmetic(x, context)
    exponent, m = split_exponent(math, x)
    t = m - 1.0
    high, low = math.coefficients.log2e
    value = math.multiply_add(t, low, _tail(math, t) * high)
    return _special_cases(x, math.multiply_add(t, high, value) + exponent)
