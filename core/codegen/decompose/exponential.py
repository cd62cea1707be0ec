"""EXP and EXP2 of float32 and float64, over the whole range, denormal results included.

    EXP2(x) → 2^n * P(x - n),                   n = x rounded to an integer
    EXP(x)  → 2^n * E(x - n ln 2),              n = x / ln 2 rounded to an integer

n is rounded by adding 1.5 * 2^mantissa, which also leaves it in the low bits; x is clamped first
to where the result is surely 0 or inf, so that neither needs a choice; NaN passes through.
"""

from __future__ import annotations

from core.codegen.decompose.arithmetic import Arithmetic, Context, arithmetic
from core.ir import UOp


def _limits(math: Arithmetic) -> tuple[float, float]:
    """Exponents of two below which the result rounds to 0 and from which it is inf."""
    form = math.format
    return float(1 - form.bias - form.mantissa - 1), float(form.bias + 1)


def power_of_two(math: Arithmetic, high: UOp, low: UOp | None = None) -> UOp:
    """2^(high + low), with |low| far below one; `high` within the limits or NaN."""
    shifted = high + math.format.shifter
    rest = high - (shifted - math.format.shifter)
    if low is not None:
        rest = rest + low
    value = math.polynomial(rest, (1.0, *math.coefficients.exp2))
    return math.scale(value, shifted)


def decompose_exp2(x: UOp, context: Context) -> UOp:
    """EXP2(x) → 2^n * P(x - n)."""
    math = arithmetic(x, context)
    return power_of_two(math, math.clamp(x, *_limits(math)))


def decompose_exp(x: UOp, context: Context) -> UOp:
    """EXP(x) → 2^n * E(x - n ln 2), ln 2 in two parts of which the first times n is exact."""
    math = arithmetic(x, context)
    low, high = _limits(math)
    ln2_high, ln2_low = math.coefficients.ln2
    # One more than the limits, so that the clamped value still rounds to 0 and to inf.
    x = math.clamp(x, (low - 1) * ln2_high, (high + 0.25) * ln2_high)
    shifted = math.multiply_add(x, math.coefficients.log2e[0], math.format.shifter)
    n = shifted - math.format.shifter
    rest = math.multiply_add(n, -ln2_high, x)
    rest = math.multiply_add(n, -ln2_low, rest)
    value = math.polynomial(rest, (1.0, 1.0, *math.coefficients.exp))
    return math.scale(value, shifted)


def clamp_exponent(math: Arithmetic, high: UOp, low: UOp) -> tuple[UOp, UOp]:
    """(high, low) of an exponent of two, clamped: a clamped high has no low part."""
    smallest, largest = _limits(math)
    clamped = math.clamp(high, smallest, largest)
    return clamped, clamped.ne(high).where(low.const_like(0), low)
