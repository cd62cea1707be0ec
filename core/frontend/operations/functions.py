"""Functions of one number: exponentials, trigonometry, rounding, activations.

A function of a float16, bfloat16 or fp8 tensor is computed in float32 and rounded once; a function
of integers gives the default float dtype.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Self

from core.frontend.broadcasting import elementwise, together
from core.frontend.derivative import with_derivative
from core.frontend.operations.operators import Operators
from core.frontend.operations.special import (
    erf,
    erfc,
    exp_minus_one,
    log_of_one_plus,
    normal_distribution,
    tanh,
)
from core.ir import Op, UOp, dtypes

_LN10 = math.log(10.0)


class FunctionOperations(Operators):
    """Functions of one number."""

    __slots__ = ()

    def _function(self, body: Callable[[UOp], UOp]) -> Self:
        """Apply a function in the working dtype and round once."""
        wide, result = self._working()
        return self._of(body(wide.uop).cast(result))

    # -- exponentials and powers ------------------------------------------------------------

    def exp(self) -> Self:
        """e ** x."""
        return self._function(lambda x: x.alu(Op.EXP))

    def exp2(self) -> Self:
        """2 ** x."""
        return self._function(lambda x: x.alu(Op.EXP2))

    def expm1(self) -> Self:
        """e ** x - 1, exact near 0."""
        return self._function(exp_minus_one)

    def log(self) -> Self:
        """Natural logarithm."""
        return self._function(lambda x: x.alu(Op.LOG))

    def log2(self) -> Self:
        """Logarithm to base 2."""
        return self._function(lambda x: x.alu(Op.LOG2))

    def log10(self) -> Self:
        """Logarithm to base 10."""
        return self._function(lambda x: x.alu(Op.LOG2) * math.log10(2.0))

    def log1p(self) -> Self:
        """log(1 + x), exact near 0."""
        return self._function(log_of_one_plus)

    def sqrt(self) -> Self:
        """Square root, correctly rounded."""
        return self._function(lambda x: x.alu(Op.SQRT))

    def rsqrt(self) -> Self:
        """1 / sqrt(x)."""
        return self._function(lambda x: x.alu(Op.SQRT).alu(Op.RECIPROCAL))

    def reciprocal(self) -> Self:
        """1 / x, correctly rounded."""
        return self._function(lambda x: x.alu(Op.RECIPROCAL))

    def square(self) -> Self:
        """x * x."""
        return self.mul(self)

    # -- trigonometry -----------------------------------------------------------------------

    def sin(self) -> Self:
        """Sine, radians."""
        return self._function(lambda x: x.alu(Op.SIN))

    def cos(self) -> Self:
        """Cosine, radians."""
        return self._function(lambda x: x.alu(Op.COS))

    def tan(self) -> Self:
        """Tangent, radians."""
        return self._function(lambda x: x.alu(Op.SIN) / x.alu(Op.COS))

    def tanh(self) -> Self:
        """Hyperbolic tangent."""
        return self._function(tanh)

    def sinh(self) -> Self:
        """Hyperbolic sine."""
        def body(x: UOp) -> UOp:
            m = exp_minus_one(x.maximum(x.alu(Op.NEG)))
            # e**x - 1 = m, so sinh = (m + m / (m + 1)) / 2; halved first against overflow.
            size = m * 0.5 + (m * 0.5) / (m + 1.0)
            big = (x.maximum(x.alu(Op.NEG)) * 0.5).alu(Op.EXP)
            size = m.eq(math.inf).where(big * 0.5 * big, size)
            return x.eq(0.0).where(x, (x < 0.0).where(size.alu(Op.NEG), size))
        return self._function(body)

    def cosh(self) -> Self:
        """Hyperbolic cosine."""
        def body(x: UOp) -> UOp:
            e = (x.maximum(x.alu(Op.NEG)) * 0.5).alu(Op.EXP)
            return e * 0.5 * e + e.alu(Op.RECIPROCAL) * 0.5 * e.alu(Op.RECIPROCAL)
        return self._function(body)

    def erf(self) -> Self:
        """Error function."""
        return self._function(erf)

    def erfc(self) -> Self:
        """1 - erf(x), exact where erf is near 1."""
        return self._function(erfc)

    # -- sign and rounding ------------------------------------------------------------------

    def abs(self) -> Self:
        """Magnitude; its gradient at 0 is 0."""
        x = self.uop
        if x.dtype is dtypes.bool or x.dtype.kind == "unsigned":
            return self._renamed()
        return self._of(with_derivative(
            x.maximum(x.alu(Op.NEG)), (x,), lambda g, value, x: (g * sign(x),)
        ))

    def sign(self) -> Self:
        """1, 0 or -1; NaN stays."""
        return self._of(_flat(self.uop, sign))

    def floor(self) -> Self:
        """Largest whole number not above; integers stay."""
        return self._round(lambda x, t: (x < t).where(t - 1.0, t))

    def ceil(self) -> Self:
        """Smallest whole number not below; integers stay."""
        return self._round(lambda x, t: (t < x).where(t + 1.0, t))

    def trunc(self) -> Self:
        """Whole number toward 0; integers stay."""
        return self._round(lambda x, t: t)

    def round(self) -> Self:
        """Nearest whole number, halves to even; integers stay."""
        return self._round(_round_half_even)

    def _round(self, body: Callable[[UOp, UOp], UOp]) -> Self:
        x = self.uop
        return self._of(_flat(x, lambda x: body(x, x.alu(Op.TRUNC))) if x.dtype.is_float else x)

    def isnan(self) -> Self:
        """Whether the value is NaN."""
        return self._of(self.uop.ne(self.uop))

    def isinf(self) -> Self:
        """Whether the value is infinite."""
        x = self._float().uop
        return self._of(x.eq(math.inf) | x.eq(-math.inf))

    def isfinite(self) -> Self:
        """Whether the value is neither NaN nor infinite."""
        x = self._float().uop
        return self._of(x.maximum(x.alu(Op.NEG)) < math.inf)

    def copysign(self, other: Any) -> Self:
        """This magnitude with the sign of another, zeros and NaN included."""
        a, b = together(*self._float()._promoted(other))
        bits = _INTEGERS[b.dtype.bits]
        signed = elementwise(Op.CMPLT, b.bitcast(bits), UOp.const(0, bits))
        size = self._of(a).abs().uop
        value = elementwise(Op.WHERE, signed, size.alu(Op.NEG), size)

        def rule(g: UOp, value: UOp, *inputs: UOp) -> tuple[UOp | None, ...]:
            same = elementwise(Op.CMPEQ, value, a)
            return elementwise(Op.WHERE, same, g, g.alu(Op.NEG)), None

        return self._of(with_derivative(value, (a, b), rule))

    # -- activations ------------------------------------------------------------------------

    def relu(self) -> Self:
        """max(x, 0); its gradient at 0 is 0."""
        x = self.uop
        if not x.dtype.is_float:
            return self.maximum(0)
        return self._of(with_derivative(x.maximum(0.0), (x,), _pass_where_positive))

    def relu6(self) -> Self:
        """min(max(x, 0), 6)."""
        return self.relu().minimum(6)

    def leaky_relu(self, negative_slope: float = 0.01) -> Self:
        """x where positive, else slope * x."""
        x = self._float()
        return x._binary(Op.CMPLT, 0, reflected=True).where(x, x.mul(negative_slope))

    def sigmoid(self) -> Self:
        """1 / (1 + exp(-x))."""
        return self._function(sigmoid)

    def logsigmoid(self) -> Self:
        """log(sigmoid(x))."""
        return self._function(lambda x: softplus(x.alu(Op.NEG)).alu(Op.NEG))

    def silu(self) -> Self:
        """x * sigmoid(x)."""
        return self._function(lambda x: x * sigmoid(x))

    swish = silu

    def hardtanh(self, min_val: float = -1, max_val: float = 1) -> Self:
        """x limited to [min_val, max_val]."""
        return self._float().clamp(min_val, max_val)

    def hardsigmoid(self) -> Self:
        """min(max(x / 6 + 1/2, 0), 1)."""
        return self._of(self._function(lambda x: x * (1 / 6) + 0.5).uop).clamp(0, 1)

    def hardswish(self) -> Self:
        """x * min(max(x + 3, 0), 6) / 6."""
        wide, result = self._working()
        return wide.mul(wide.add(3).relu6()).mul(1 / 6).cast(result)

    def gelu(self, approximate: str = "none") -> Self:
        """x * Φ(x), Φ the normal distribution; "tanh" for the usual approximation."""
        if approximate not in ("none", "tanh"):
            raise ValueError(f"approximate is 'none' or 'tanh', not {approximate!r}")
        if approximate == "none":
            return self._function(lambda x: x * normal_distribution(x))
        scale = math.sqrt(2 / math.pi)
        # (1 + tanh u) / 2 = sigmoid(2 u), which loses no digits where x is negative.
        return self._function(
            lambda x: x * sigmoid((x + x * x * x * 0.044715) * (2 * scale)))

    def quick_gelu(self) -> Self:
        """x * sigmoid(1.702 x)."""
        return self._function(lambda x: x * sigmoid(x * 1.702))

    def softplus(self, beta: float = 1.0) -> Self:
        """log(1 + exp(beta x)) / beta."""
        return self._function(lambda x: softplus(x * beta) / x.const_like(beta))

    def mish(self) -> Self:
        """x * tanh(softplus(x))."""
        return self._function(lambda x: x * tanh(softplus(x)))

    def softsign(self) -> Self:
        """x / (1 + |x|)."""
        wide, result = self._working()
        return wide.div(wide.abs().add(1)).cast(result)

    def elu(self, alpha: float = 1.0) -> Self:
        """x where positive, else alpha * (exp(x) - 1)."""
        return self._function(
            lambda x: (x > 0.0).where(x, exp_minus_one((x > 0.0).where(0.0, x)) * alpha)
        )

    def celu(self, alpha: float = 1.0) -> Self:
        """max(x, 0) + min(0, alpha * (exp(x / alpha) - 1))."""
        return self._function(
            lambda x: (x > 0.0).where(x, exp_minus_one(
                (x > 0.0).where(0.0, x) / x.const_like(alpha)) * alpha)
        )

    def selu(self) -> Self:
        """Scaled elu of self-normalising networks (Klambauer et al., 2017)."""
        wide, result = self._working()
        return wide.elu(1.6732632423543772).mul(1.0507009873554805).cast(result)


_INTEGERS = {8: dtypes.int8, 16: dtypes.int16, 32: dtypes.int32, 64: dtypes.int64}


def _flat(x: UOp, body: Callable[[UOp], UOp]) -> UOp:
    """A function whose gradient is 0."""
    return with_derivative(body(x), (x,), lambda g, value, x: (None,))


def sign(x: UOp) -> UOp:
    """1, 0 or -1; NaN stays."""
    if x.dtype is dtypes.bool:
        return x
    positive = (x.const_like(0) < x).where(1, x if x.dtype.is_float else x.const_like(0))
    positive = x.eq(0).where(0, positive) if x.dtype.is_float else positive
    return (x < 0).where(-1, positive) if x.dtype.is_signed else positive


def _round_half_even(x: UOp, whole: UOp) -> UOp:
    rest = (x - whole).maximum((x - whole).alu(Op.NEG))
    half = whole * 0.5
    is_odd = half.alu(Op.TRUNC).ne(half)
    away = (x < 0.0).where(whole - 1.0, whole + 1.0)
    return ((rest > 0.5) | (rest.eq(0.5) & is_odd)).where(away, whole)


def _pass_where_positive(g: UOp, value: UOp, x: UOp) -> tuple[UOp]:
    # Asked of the result, which has to be kept anyway: x itself need not be.
    return ((value > 0.0).where(g, 0.0),)


def sigmoid(x: UOp) -> UOp:
    """1 / (1 + exp(-x)), with the derivative y (1 - y)."""
    value = (x.alu(Op.NEG).alu(Op.EXP) + 1.0).alu(Op.RECIPROCAL)
    return with_derivative(value, (x,), lambda g, y, x: (g * (y * (y.const_like(1) - y)),))


def softplus(x: UOp) -> UOp:
    """log(1 + exp(x)), with the derivative sigmoid(x)."""
    size = x.maximum(x.alu(Op.NEG))
    value = x.maximum(0.0) + log_of_one_plus(size.alu(Op.NEG).alu(Op.EXP))
    return with_derivative(value, (x,), lambda g, y, x: (g * sigmoid(x),))
