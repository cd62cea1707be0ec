"""Elementwise ops of floats, each rounded once.

Formats narrower than float32 are computed in float64 and rounded once more, which for + - * /
and square roots changes nothing (Figueroa, "When is double rounding innocuous?", SIGNUM 1995).
Functions are computed in float64, whose error is far below one unit of the narrower formats.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

import numpy as np

from core.ir import Op
from core.reference.formats import Array
from core.reference.integers import COMPARISONS

# Within these exponents no step of the error-free transformation leaves the normal numbers.
_FACTOR_EXPONENT: Final = 400
_ADDEND_EXPONENT: Final = 900


def larger(a: Array, b: Array) -> Array:
    """MAX: NaN wins, -0 < +0."""
    result = np.maximum(a, b)
    zeros = (a == 0) & (b == 0)
    return np.where(zeros, np.where(np.signbit(a), b, a), result)


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """(a + b rounded, its error), exactly (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """(a * b rounded, its error), exactly (Dekker)."""
    splitter = 134217729.0  # 2^27 + 1
    wide_a, wide_b = a * splitter, b * splitter
    high_a, high_b = wide_a - (wide_a - a), wide_b - (wide_b - b)
    low_a, low_b = a - high_a, b - high_b
    product = a * b
    error = ((high_a * high_b - product) + high_a * low_b + low_a * high_b) + low_a * low_b
    return product, error


def _sum_to_odd(a: Array, b: Array) -> Array:
    """a + b in float64; where inexact, the neighbour with an odd last digit."""
    total, error = two_sum(a, b)
    bits = np.ascontiguousarray(total).view(np.int64).reshape(np.shape(total))
    inexact = np.isfinite(total) & (error != 0) & (bits & 1 == 0)
    step = np.where((error > 0) == (total > 0), 1, -1)
    return np.where(inexact, bits + step, bits).view(np.float64)


def _exact_multiply_add(a: float, b: float, c: float) -> float:
    """One fused multiply-add of doubles in rational arithmetic."""
    if np.isfinite(a) and np.isfinite(b) and np.isinf(c):
        return c  # though a * b may overflow to the other infinity
    if not all(map(np.isfinite, (a, b, c))) or a == 0 or b == 0:
        return a * b + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    try:
        result = float(exact)
    except OverflowError:
        return float(np.inf if exact > 0 else -np.inf)
    # What is not 0 but rounds to it keeps its sign; a sum that cancels is +0.
    return float(np.copysign(result, 1.0 if exact >= 0 else -1.0))


def _multiply_add_doubles(a: Array, b: Array, c: Array) -> Array:
    """Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums" (2008)."""
    a, b, c = (np.array(x) for x in np.broadcast_arrays(a, b, c))
    product, product_error = _two_product(a, b)
    low_sum, low_error = two_sum(c, product_error)
    total, total_error = two_sum(product, low_sum)
    result = np.asarray(total + _sum_to_odd(low_error, total_error))
    exponents = [np.frexp(x)[1] for x in (a, b, c)]
    ordinary = np.isfinite(a) & np.isfinite(b) & np.isfinite(c) & (a != 0) & (b != 0)
    for exponent, limit in zip(exponents, (*[_FACTOR_EXPONENT] * 2, _ADDEND_EXPONENT), strict=True):
        ordinary &= np.abs(exponent) < limit
    for place in zip(*np.nonzero(np.atleast_1d(~ordinary)), strict=True):
        at = place if result.ndim else ()
        result[at] = _exact_multiply_add(float(a[at]), float(b[at]), float(c[at]))
    return result


def multiply_add(a: Array, b: Array, c: Array, *, narrow: bool) -> Array:
    """a * b + c rounded once: for narrow formats to odd in float64, to be rounded by the caller."""
    if not narrow:
        return _multiply_add_doubles(a, b, c)
    # The product of two numbers of 24 bits is exact in a double.
    return _sum_to_odd(a * b, c)


FLOAT: Final[dict[Op, Callable[..., Any]]] = {
    Op.ADD: np.add, Op.SUB: np.subtract, Op.MUL: np.multiply, Op.FDIV: np.divide,
    Op.NEG: np.negative, Op.TRUNC: np.trunc, Op.SQRT: np.sqrt, Op.MAX: larger,
    Op.RECIPROCAL: lambda a: np.divide(1.0, a),
    Op.EXP: np.exp, Op.EXP2: np.exp2, Op.LOG: np.log, Op.LOG2: np.log2, Op.SIN: np.sin,
    Op.COS: np.cos, Op.POW: np.power,
    **COMPARISONS,
}
