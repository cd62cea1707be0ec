"""Inverse trigonometric and hyperbolic functions.

The polynomials are printed by `benchmarks/fit_special_functions.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, Self

from core.frontend.derivative import with_derivative
from core.frontend.operations.functions import FunctionOperations
from core.frontend.operations.special import log_of_one_plus
from core.ir import DType, Op, UOp, dtypes

_EIGHTH: Final = math.tan(math.pi / 8)
_LN2: Final = math.log(2.0)


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(map(float.fromhex, text.split()))


# (f(x) / x - 1) / x² in x², lowest power first: atan below tan(π/8), asin below 1/2.
_ATAN: Final[dict[DType, Sequence[float]]] = {
    dtypes.float32: _numbers("""
        -0x1.55554ap-2 0x1.9991e2p-3 -0x1.23b9a2p-3 0x1.b22456p-4 -0x1.f2e5a6p-5"""),
    dtypes.float64: _numbers("""
        -0x1.555555555553dp-2 0x1.99999999957bep-3 -0x1.24924922a9e84p-3 0x1.c71c70e4e48a4p-4
        -0x1.745cf8be949ffp-4 0x1.3b11173b9656cp-4 -0x1.10eba4b15c46dp-4 0x1.df0e4328369f9p-5
        -0x1.9cce65e27231ep-5 0x1.37cb476bf54a9p-5 -0x1.2554e5aa27496p-6"""),
}
_ASIN: Final[dict[DType, Sequence[float]]] = {
    dtypes.float32: _numbers("""
        0x1.5555c8p-3 0x1.330202p-4 0x1.747c0cp-5 0x1.8c3a14p-6 0x1.5960aap-5"""),
    dtypes.float64: _numbers("""
        0x1.5555555555390p-3 0x1.333333336e901p-4 0x1.6db6db426f714p-5 0x1.f1c72c3cc0671p-6
        0x1.6e89f3e073d56p-6 0x1.1c6be78c006efp-6 0x1.c6fd48a80eeafp-7 0x1.8ec631c934878p-7
        0x1.abb2cc5fcae45p-8 0x1.4008b921e2d14p-6 -0x1.09f3656b573b5p-6 0x1.0578b7e07d2ecp-5"""),
}
# The parts of π/2 that a dtype cannot hold together.
_HALF_PI: Final[dict[DType, tuple[float, float]]] = {
    dtypes.float32: (float.fromhex("0x1.921fb6p+0"), float.fromhex("-0x1.777a5cp-25")),
    dtypes.float64: (float.fromhex("0x1.921fb54442d18p+0"), float.fromhex("0x1.1a62633145c07p-54")),
}


class InverseFunctionOperations(FunctionOperations):
    """Inverse trigonometric and hyperbolic functions; NaN outside of their domain."""

    __slots__ = ()

    def _inverse(self, body: Callable[[UOp], UOp], slope: Callable[[UOp], UOp]) -> Self:
        """A function whose derivative is 1 / slope(x)."""
        def rule(g: UOp, value: UOp, x: UOp) -> tuple[UOp]:
            return (g / slope(x),)
        return self._function(lambda x: with_derivative(body(x), (x,), rule))

    def asin(self) -> Self:
        """Inverse sine, radians."""
        return self._inverse(_asin, lambda x: ((1.0 - x) * (x + 1.0)).alu(Op.SQRT))

    def acos(self) -> Self:
        """Inverse cosine, radians."""
        return self._inverse(_acos, lambda x: ((1.0 - x) * (x + 1.0)).alu(Op.SQRT).alu(Op.NEG))

    def atan(self) -> Self:
        """Inverse tangent, radians."""
        return self._inverse(_atan, lambda x: x * x + 1.0)

    def asinh(self) -> Self:
        """Inverse hyperbolic sine."""
        return self._inverse(_asinh, lambda x: (x * x + 1.0).alu(Op.SQRT))

    def acosh(self) -> Self:
        """Inverse hyperbolic cosine."""
        return self._inverse(_acosh, lambda x: (x - 1.0).alu(Op.SQRT) * (x + 1.0).alu(Op.SQRT))

    def atanh(self) -> Self:
        """Inverse hyperbolic tangent."""
        return self._inverse(_atanh, lambda x: (1.0 - x) * (x + 1.0))

    # -- of two numbers ---------------------------------------------------------------------

    def lerp(self, end: Any, weight: Any) -> Self:
        """self + (end - self) * weight."""
        given = self._of(self._promoted(end)[0])
        if not given.dtype.is_float:
            return self.add(self._tensor(end).sub(self).mul(weight))
        wide, result = given._working()
        return wide.add(self._tensor(end).cast(wide.dtype).sub(wide).mul(weight)).cast(result)

    def logaddexp(self, other: Any) -> Self:
        """log(exp(self) + exp(other)), without overflow."""
        a, b = self._float()._promoted(other)
        x, result = self._of(a)._working()
        y = self._of(b).cast(x.dtype)
        largest = self._of(UOp(Op.DETACH, (x.maximum(y).uop,)))
        largest = largest.isinf().where(0.0, largest)
        total = x.sub(largest).exp().add(y.sub(largest).exp())
        return total.log().add(largest).cast(result)


def _polynomial(x: UOp, coefficients: Sequence[float]) -> UOp:
    result = x.const_like(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        result = result * x + c
    return result


def _size(x: UOp) -> UOp:
    return x.maximum(x.alu(Op.NEG))


def _with_sign_of(x: UOp, size: UOp) -> UOp:
    """A value of x's sign; zeros and NaN as x."""
    return (x < 0.0).where(size.alu(Op.NEG), (x > 0.0).where(size, x))


def _atan(x: UOp) -> UOp:
    """π/4 + atan((x - 1) / (x + 1)) in the middle, π/2 - atan(1 / x) above."""
    size, (half_pi, rest) = _size(x), _HALF_PI[x.dtype]
    is_small, is_middle = size < _EIGHTH, size < 1.0 / _EIGHTH
    t = is_middle.where((size - 1.0) / (size + 1.0), size.const_like(-1.0) / size)
    t = is_small.where(size, t)
    square = t * t
    value = t + t * (square * _polynomial(square, _ATAN[x.dtype]))
    low = is_middle.where(x.const_like(rest / 2), x.const_like(rest))
    high = is_middle.where(x.const_like(half_pi / 2), x.const_like(half_pi))
    return _with_sign_of(x, is_small.where(value, high + (value + low)))


def _small_asin(x: UOp, square: UOp) -> UOp:
    return x + x * (square * _polynomial(square, _ASIN[x.dtype]))


def _asin(x: UOp) -> UOp:
    """A polynomial below 1/2, π/2 - 2 asin(sqrt((1 - x) / 2)) above."""
    size, (half_pi, rest) = _size(x), _HALF_PI[x.dtype]
    is_small = size < 0.5
    square = is_small.where(size * size, (1.0 - size) * 0.5)
    t = is_small.where(size, square.alu(Op.SQRT))
    value = _small_asin(t, square)
    far = half_pi - (value * 2.0 - rest)
    return _with_sign_of(x, is_small.where(value, far))


def _acos(x: UOp) -> UOp:
    size, (half_pi, rest) = _size(x), _HALF_PI[x.dtype]
    is_small = size < 0.5
    square = is_small.where(x * x, (1.0 - size) * 0.5)
    t = is_small.where(x, square.alu(Op.SQRT))
    value = _small_asin(t, square)
    near = half_pi - (value - rest)
    far = (x < 0.0).where(2 * half_pi - (value * 2.0 - 2 * rest), value * 2.0)
    return is_small.where(near, far)


def _asinh(x: UOp) -> UOp:
    """log1p(x + x² / (1 + sqrt(x² + 1))); log(2 x) where x² would overflow."""
    size = _size(x)
    largest = 1e18 if x.dtype is dtypes.float32 else 1e150
    is_huge = size > largest
    t = is_huge.where(1.0, size)
    square = t * t
    value = log_of_one_plus(t + square / ((square + 1.0).alu(Op.SQRT) + 1.0))
    return _with_sign_of(x, is_huge.where(size.alu(Op.LOG) + _LN2, value))


def _acosh(x: UOp) -> UOp:
    """log1p(t + sqrt(2 t + t²)) with t = x - 1; log(2 x) where t² would overflow."""
    largest = 1e18 if x.dtype is dtypes.float32 else 1e150
    is_huge = x > largest
    t = is_huge.where(1.0, x) - 1.0
    value = log_of_one_plus(t + (t * (t + 2.0)).alu(Op.SQRT))
    value = is_huge.where(x.alu(Op.LOG) + _LN2, value)
    return (x < 1.0).where(math.nan, value)


def _atanh(x: UOp) -> UOp:
    """log1p(2 x / (1 - x)) / 2."""
    size = _size(x)
    value = log_of_one_plus(size * 2.0 / (1.0 - size)) * 0.5
    return _with_sign_of(x, (size > 1.0).where(math.nan, value))
