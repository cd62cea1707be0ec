"""POW of floats by logarithm and exponential in two parts, of integers by repeated squaring.

POW(x, y) → 2^(y log2|x|), the product right to 9 (float32) or 12 (float64) digits more than
the result has; then the special cases of IEEE 754 pow
POW(i, n) → product of i^(2^k) over the bits k of n; wraps
"""

from __future__ import annotations

from core.codegen.decompose.arithmetic import Arithmetic, Context, arithmetic
from core.codegen.decompose.exponential import clamp_exponent, power_of_two
from core.codegen.decompose.logarithm import split_exponent
from core.ir import Op, UOp, bounds, dtypes

Parts = tuple[UOp, UOp]


def _multiply(math: Arithmetic, a: Parts, b: Parts) -> Parts:
    """A * b in two parts."""
    high, low = math.two_product(a[0], b[0])
    cross = math.multiply_add(a[0], b[1], a[1] * b[0])
    return math.fast_two_sum(high, low + cross)


def _pair(model: UOp, pair: tuple[float, float]) -> Parts:
    return model.const_like(pair[0]), model.const_like(pair[1])


def _quotient(math: Arithmetic, m: UOp) -> Parts:
    """(m - 1) / (m + 1) in two parts: a quotient and its remainder over the same reciprocal."""
    t = m - 1.0
    bottom = m + 1.0
    bottom_low = m - (bottom - 1.0)
    inverse = bottom.const_like(1.0) / bottom
    high = t * inverse
    product, product_low = math.two_product(high, bottom)
    rest = ((t - product) - product_low) - high * bottom_low
    return high, rest * inverse


def _series_in_parts(math: Arithmetic, s: Parts) -> Parts:
    """atanh(s) / s - 1 = s^2 (1/3 + s^2 R(s^2)) in two parts."""
    z = _multiply(math, s, s)
    third, third_low = _pair(s[0], math.coefficients.third)
    tail = z[0] * math.polynomial(z[0], math.coefficients.atanh)
    inner, inner_low = math.fast_two_sum(third, tail)
    return _multiply(math, z, (inner, inner_low + third_low))


def log2_in_parts(math: Arithmetic, x: UOp) -> Parts:
    """log2 x in two parts for positive finite x: e + 2/ln2 s (1 + series(s^2)), s = (m-1)/(m+1).

    The series is below 1/100. float32 affords it in one part: 2^-30 of relative error, times an
    exponent of at most 150, is one unit; float64 with exponents up to 1075 needs two.
    """
    exponent, m = split_exponent(math, x)
    s = _quotient(math, m)
    scaled = _multiply(math, s, _pair(m, math.coefficients.twice_log2e))
    if math.format.dtype is dtypes.float64:
        more, more_low = _multiply(math, scaled, _series_in_parts(math, s))
        rest = scaled[1] + more_low
    else:
        z = math.multiply_add(s[0], s[0], (s[0] * s[1]) * 2.0)
        terms = (math.coefficients.third[0], *math.coefficients.atanh)
        more = scaled[0] * (z * math.polynomial(z, terms))
        rest = scaled[1]
    high, low = math.fast_two_sum(scaled[0], more)
    high, carry = math.two_sum(exponent, high)
    return math.fast_two_sum(high, carry + (low + rest))


def _positive_power(math: Arithmetic, base: UOp, y: UOp) -> UOp:
    """Base ** y for positive finite base; y NaN gives NaN."""
    logarithm = log2_in_parts(math, base)
    # Beyond this any base but one gives 0 or inf; larger y would overflow in the splitting.
    most = 2.0 ** (math.format.mantissa + 2 + math.format.bias.bit_length() + 1)
    y = math.clamp(y, -most, most)
    high, low = math.two_product(logarithm[0], y)
    high, low = clamp_exponent(math, high, math.multiply_add(logarithm[1], y, low))
    return power_of_two(math, high, low)


def decompose_float_power(x: UOp, y: UOp, context: Context) -> UOp:
    """POW(x, y) → 2^(y log2|x|) and the special cases of IEEE 754 (9.2.1)."""
    math = arithmetic(x, context)
    infinity = float("inf")
    base = math.from_bits(math.absolute_bits(x))
    value = _positive_power(math, base, y)
    # |x| of 0 or inf.
    zero = base.eq(0.0)
    extreme = zero | base.eq(infinity)
    upward = (y < 0.0).eq(zero)
    value = extreme.where(upward.where(x.const_like(infinity), x.const_like(0.0)), value)
    # Negative x: an odd y keeps the sign, no integer has no result.
    integer = y.alu(Op.TRUNC).eq(y)
    half = y * 0.5
    odd = integer & half.alu(Op.TRUNC).ne(half)
    sign = math.bits(x) & math.format.sign_bit
    value = math.from_bits(math.bits(value) ^ odd.where(sign, sign.const_like(0)))
    undefined = (x < 0.0) & extreme.ne(True) & integer.ne(True)
    undefined = undefined | x.ne(x) | y.ne(y)
    value = undefined.where(x.const_like(float("nan")), value)
    return (x.eq(1.0) | y.eq(0.0)).where(x.const_like(1.0), value)


def decompose_integer_power(x: UOp, y: UOp) -> UOp:
    """POW(x, y) → product of x^(2^k) over the bits k of y; only bits that y can have."""
    low, high = bounds(y)
    count = int(high).bit_length() if low >= 0 else y.dtype.bits
    result = x.const_like(1)
    power = x
    for k in range(count):
        if y.op is Op.CONST:
            result = result * power if int(y.value) >> k & 1 else result
        else:
            result = (y & (1 << k)).ne(0).where(result * power, result)
        if k + 1 < count:
            power = power * power
    # x ** 0 of a vector is a vector.
    return result if result.shape == x.shape else (x & 0) | result
