"""tanh, erf and their relatives: built of EXP and LOG and of polynomials, exact over their range.

Each takes a float32 or float64 value. The polynomials are printed by
`benchmarks/fit_special_functions.py`.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Final, NamedTuple

from core.frontend.derivative import with_derivative
from core.ir import DType, Op, UOp, dtypes

_LARGEST_SERIES: Final = 0.625  # tanh and erf are a polynomial below, made of exp above
_MIDDLE: Final = 3.75


class _Table(NamedTuple):
    """Coefficients for one dtype, lowest power first.

    Attributes:
        tanh: (tanh x / x - 1) / x² in x², |x| < 0.625.
        erf: erf x / x - 1 in x², |x| < 0.84.
        tail: erfc x · exp(x²) · (1 + 2x) in t = (x - 3.75) / (x + 3.75), x > 1/2, as Shepherd and
            Laframboise (Mathematics of Computation 36, 1981) transform it.
        split: Low bits of x without which its square is exact.
    """

    tanh: tuple[float, ...]
    erf: tuple[float, ...]
    tail: tuple[float, ...]
    split: int


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(map(float.fromhex, text.split()))


_TABLES: Final[dict[DType, _Table]] = {
    dtypes.float32: _Table(
        _numbers("""-0x1.555532p-2 0x1.1106f6p-3 -0x1.b835a4p-5 0x1.51f8cep-6 -0x1.750ce4p-8"""),
        _numbers("""
            0x1.06eba8p-3 -0x1.812728p-2 0x1.ce25e6p-4 -0x1.b73f1ep-6 0x1.4bba4p-8
            -0x1.4e2fdap-11"""),
        _numbers("""
            0x1.3ccdap+0 -0x1.1f3676p-3 0x1.d64e9cp-9 0x1.510386p-4 -0x1.bdce72p-4 0x1.79d808p-4
            -0x1.df5002p-5 0x1.d7ce96p-6 -0x1.4803fap-7 0x1.748992p-11"""),
        12,
    ),
    dtypes.float64: _Table(
        _numbers("""
            -0x1.5555555555552p-2 0x1.1111111110c02p-3 -0x1.ba1ba1b9ce54ap-5 0x1.664f487033971p-6
            -0x1.226e32c0b7a5ap-7 0x1.d6d3583b6ee9ep-9 -0x1.7d9c1c65a2ac6p-10
            0x1.350ad956aaeabp-11 -0x1.f10c56b8a8e0bp-13 0x1.8004ca8611336p-14
            -0x1.fa6fc7f027818p-16 0x1.9577446353f70p-18"""),
        _numbers("""
            0x1.06eba8214db68p-3 -0x1.812746b0379a2p-2 0x1.ce2f21a03f0a6p-4 -0x1.b82ce3114705ap-6
            0x1.565bccd643c90p-8 -0x1.c02da888bd3bcp-11 0x1.f9a1b00fb2b46p-14
            -0x1.f4b37a923add0p-17 0x1.b841b14af5129p-20 -0x1.515a49b4950fep-23
            0x1.700dcd1ec28a3p-27"""),
        _numbers("""
            0x1.3ccda0b5d5dc2p+0 -0x1.1f367683f89a7p-3 0x1.d5f294815b03fp-9 0x1.510169d0967cap-4
            -0x1.bda9309a2b1bap-4 0x1.7a14188a9a5f4p-4 -0x1.e0d0fa6d7681bp-5
            0x1.d0b0037d92374p-6 -0x1.3f603c518ed4fp-7 0x1.cc3a0e4d447c7p-10
            0x1.33fb429e4ebb7p-12 -0x1.303fa260f02f7p-12 0x1.b13f80bdf8beep-15
            0x1.778b87ae8258cp-16 -0x1.7fca1288bc863p-17 -0x1.0566aec8ce6bdp-20
            0x1.d2923880b9876p-20 -0x1.e4af5b57930c3p-25 -0x1.02554dd565e36p-22
            0x1.7a8b686760838p-26 0x1.a7cf740fd6bedp-26 -0x1.7dd5448ff16a9p-29"""),
        27,
    ),
}


@cache
def _constants(coefficients: tuple[float, ...], dtype: DType) -> tuple[UOp, ...]:
    """The coefficients as nodes, highest power first; kept, because making them takes longest."""
    return tuple(UOp.const(c, dtype) for c in reversed(coefficients))


def _polynomial(x: UOp, coefficients: tuple[float, ...]) -> UOp:
    result, *others = _constants(coefficients, x.dtype)
    for c in others:
        result = UOp(Op.ADD, (UOp(Op.MUL, (result, x)), c))
    return result


def _size(x: UOp) -> UOp:
    return x.maximum(x.alu(Op.NEG))


def _with_sign_of(x: UOp, size: UOp) -> UOp:
    return (x < 0.0).where(size.alu(Op.NEG), size)


def tanh(x: UOp) -> UOp:
    """Hyperbolic tangent: x + x³ P(x²) near 0, else 1 - 2 / (exp(2|x|) + 1) without overflow."""
    table, size = _TABLES[x.dtype], _size(x)
    square = x * x
    # The sum loses the sign of -0.
    near = x.eq(0.0).where(x, x + x * (square * _polynomial(square, table.tanh)))
    e = (size * -2.0).alu(Op.EXP)
    far = x.const_like(1.0) - e * 2.0 / (e + 1.0)
    value = (size < _LARGEST_SERIES).where(near, _with_sign_of(x, far))
    return with_derivative(value, (x,), lambda g, y, x: (g * (y.const_like(1) - y * y),))


def _tail(size: UOp) -> UOp:
    """erfc(x) exp(x²) for x > 1/2."""
    bounded = (size < 1e8).where(size, 1e8)
    t = (bounded - _MIDDLE) / (bounded + _MIDDLE)
    return _polynomial(t, _TABLES[size.dtype].tail) / (bounded * 2.0 + 1.0)


def _bell(x: UOp, scale: float) -> UOp:
    """exp(-scale x²), scale a power of 2.

    The square is taken in two parts, because its rounding error would be multiplied.
    """
    bits = {dtypes.float32: dtypes.uint32, dtypes.float64: dtypes.uint64}[x.dtype]
    mask = (1 << x.dtype.bits) - (1 << (_TABLES[x.dtype].split))
    head = UOp(Op.DETACH, ((x.bitcast(bits) & mask).bitcast(x.dtype),))
    # head² is exact; x² = head² + (x - head) (x + head).
    rest = ((x - head) * (x + head) * -scale).alu(Op.EXP)
    return (head * head * -scale).alu(Op.EXP) * rest


def _slope(x: UOp) -> UOp:
    """Derivative of erf."""
    return (x * x).alu(Op.NEG).alu(Op.EXP) * (2.0 / math.sqrt(math.pi))


def erf(x: UOp) -> UOp:
    """Error function: x + x P(x²) near 0, else 1 - erfc(|x|)."""
    size = _size(x)
    square = x * x
    near = x + x * _polynomial(square, _TABLES[x.dtype].erf)
    limited = (size < 10.0).where(size, 10.0)
    far = x.const_like(1.0) - (limited * limited).alu(Op.NEG).alu(Op.EXP) * _tail(limited)
    far = x.ne(x).where(x, _with_sign_of(x, far))
    value = (size < 0.84).where(near, far)
    return with_derivative(value, (x,), lambda g, y, x: (g * _slope(x),))


def erfc(x: UOp) -> UOp:
    """1 - erf(x), without cancellation where erf is near 1."""
    size = _size(x)
    limited = (size < 30.0).where(size, 30.0)
    small = _bell(limited, 1.0) * _tail(limited)
    far = (x < 0.0).where(x.const_like(2.0) - small, small)
    square = x * x
    near = x.const_like(1.0) - (x + x * _polynomial(square, _TABLES[x.dtype].erf))
    value = x.ne(x).where(x, (size < 0.5).where(near, far))
    return with_derivative(value, (x,), lambda g, y, x: ((g * _slope(x)).alu(Op.NEG),))


def normal_distribution(x: UOp) -> UOp:
    """Φ(x) = erfc(-x / sqrt 2) / 2, from x itself: a rounded x / sqrt 2 would cost many ulp."""
    size, root = _size(x), math.sqrt(0.5)
    limited = (size < 45.0).where(size, 45.0)
    small = _bell(limited, 0.5) * _tail(limited * root) * 0.5
    far = (x < 0.0).where(small, x.const_like(1.0) - small)
    scaled = x * root
    series = scaled + scaled * _polynomial(scaled * scaled, _TABLES[x.dtype].erf)
    value = x.ne(x).where(x, (size < 0.75).where(series * 0.5 + 0.5, far))

    def rule(g: UOp, y: UOp, x: UOp) -> tuple[UOp]:
        return (g * ((x * x * -0.5).alu(Op.EXP) * (1.0 / math.sqrt(2 * math.pi))),)

    return with_derivative(value, (x,), rule)


def log_of_one_plus(x: UOp) -> UOp:
    """log(1 + x): log(w) x / (w - 1) with w = 1 + x rounded, in which the errors cancel (Kahan)."""
    w = x + 1.0
    rest = w - 1.0
    plain = w.alu(Op.LOG)
    value = rest.eq(0.0).where(x, plain * (x / rest))
    value = x.eq(math.inf).where(x, value)
    return with_derivative(value, (x,), lambda g, y, x: (g / (x + 1.0),))


def exp_minus_one(x: UOp) -> UOp:
    """exp(x) - 1: (u - 1) x / log(u), u = exp(x) rounded, in which the errors cancel (Kahan)."""
    u = x.alu(Op.EXP)
    rest = u - 1.0
    near = rest * (x / u.alu(Op.LOG))
    value = rest.eq(0.0).where(x, (_size(x) < 1.0).where(near, rest))
    return with_derivative(value, (x,), lambda g, y, x: (g * (y + 1.0),))
