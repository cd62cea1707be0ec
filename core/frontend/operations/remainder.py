"""Float // and % as Python defines them, through an exact fmod without loops.

fmod(a, b) of a = p * 2^s and b = q * 2^t (p, q integers) is (p * 2^(s-t) mod q) * 2^t. float32
multiplies by 2^40 at a time in uint64; float64 finds 2^(s-t) mod q by repeated squaring.
"""

from __future__ import annotations

from typing import NamedTuple

from core.frontend.broadcasting import elementwise, together
from core.frontend.conversion import working
from core.frontend.derivative import with_derivative
from core.ir import DType, Op, UOp, dtypes

_CHUNK = 10


class _Format(NamedTuple):
    bits: DType
    signed: DType
    mantissa: int
    bias: int


_FORMATS = {
    dtypes.float32: _Format(dtypes.uint32, dtypes.int32, 23, 127),
    dtypes.float64: _Format(dtypes.uint64, dtypes.int64, 52, 1023),
}


def match(a: UOp, b: UOp) -> tuple[DType, tuple[UOp, UOp]]:
    """Operands of one dtype as a function of them is computed, and the dtype to round to."""
    wide = working(a.dtype)
    return a.dtype, (a.cast(wide), b.cast(wide))


def float_remainder(a: UOp, b: UOp, truncating: bool = False) -> UOp:
    """a % b as Python's, or C's fmod; exact. Broadcasts."""
    a, b = together(a, b)
    dtype, (x, y) = match(a, b)
    remainder = _fmod(x, y)
    if truncating:
        quotient = elementwise(Op.TRUNC, elementwise(Op.FDIV, x, y))
        result = remainder
    else:
        result = _python_remainder(remainder, y)
        quotient = _python_quotient(x, y, remainder)
    quotient = quotient.cast(dtype)

    def rule(g: UOp, value: UOp, *inputs: UOp) -> tuple[UOp, UOp]:
        return g, elementwise(Op.NEG, elementwise(Op.MUL, g, quotient))

    return with_derivative(result.cast(dtype), (a, b), rule)


def float_quotient(a: UOp, b: UOp) -> UOp:
    """a // b as Python's. Broadcasts; its gradient is 0."""
    a, b = together(a, b)
    dtype, (x, y) = match(a, b)
    value = _python_quotient(x, y, _fmod(x, y)).cast(dtype)
    return with_derivative(value, (a, b), lambda g, value, *inputs: (None, None))


def _choose(condition: UOp, yes: UOp, no: UOp) -> UOp:
    return elementwise(Op.WHERE, condition, yes, no)


def _signs_differ(remainder: UOp, y: UOp) -> UOp:
    """Whether Python's remainder is fmod's plus y."""
    return elementwise(Op.AND, remainder.ne(0.0),
                       elementwise(Op.CMPNE, remainder < 0.0, y < 0.0))


def _python_remainder(remainder: UOp, y: UOp) -> UOp:
    zero = (y < 0.0).where(y.const_like(-0.0), y.const_like(0.0))
    moved = _choose(_signs_differ(remainder, y), elementwise(Op.ADD, remainder, y), remainder)
    return _choose(moved.eq(0.0), zero, moved)


def _python_quotient(x: UOp, y: UOp, remainder: UOp) -> UOp:
    plain = elementwise(Op.FDIV, x, y)
    q = elementwise(Op.FDIV, elementwise(Op.SUB, x, remainder), y)
    q = _choose(_signs_differ(remainder, y), q - 1.0, q)
    whole = q.alu(Op.TRUNC)
    whole = (q < whole).where(whole - 1.0, whole)
    whole = (whole + 0.5 < q).where(whole + 1.0, whole)
    zero = plain * 0.0  # with the sign of the quotient
    return _choose(y.eq(0.0), plain, _choose(q.eq(0.0), zero, whole))


def _parts(magnitude: UOp, form: _Format) -> tuple[UOp, UOp]:
    """Integer mantissa (uint64) and exponent (signed) of a finite magnitude's bits."""
    exponent = magnitude >> form.mantissa
    fraction = magnitude & ((1 << form.mantissa) - 1)
    is_normal = exponent.ne(0)
    mantissa = is_normal.where(fraction | (1 << form.mantissa), fraction)
    exponent = is_normal.where(exponent, 1).cast(form.signed)
    return mantissa.cast(dtypes.uint64), exponent


def _fmod(x: UOp, y: UOp) -> UOp:
    form = _FORMATS[x.dtype]
    sign_bit = 1 << (form.bits.bits - 1)
    infinity = (2 * form.bias + 1) << form.mantissa
    x_bits, y_bits = x.bitcast(form.bits), y.bitcast(form.bits)
    x_size, y_size = x_bits & (sign_bit - 1), y_bits & (sign_bit - 1)
    x_mantissa, x_exponent = _parts(x_size, form)
    y_mantissa, y_exponent = _parts(y_size, form)
    shift = elementwise(Op.MAX, elementwise(Op.SUB, x_exponent, y_exponent),
                        x_exponent.const_like(0))
    shift = shift.cast(dtypes.uint64)
    remainder = (_by_steps if x.dtype is dtypes.float32 else _by_squaring)(
        x_mantissa, y_mantissa, shift
    )
    size = _scaled(remainder, y_exponent, x.dtype, form)
    size = _choose(elementwise(Op.CMPLT, x_size, y_size), x_size.bitcast(x.dtype), size)
    result = elementwise(Op.OR, size.bitcast(form.bits), x_bits & sign_bit).bitcast(x.dtype)
    undefined = elementwise(Op.OR, x_size >= infinity,
                            elementwise(Op.OR, y_size.eq(0), x_bits.const_like(infinity) < y_size))
    return _choose(undefined, x.const_like(float("nan")), result)


def _by_steps(p: UOp, q: UOp, shift: UOp) -> UOp:
    """p * 2^shift mod q for p and q below 2^24 and shift below 280."""
    remainder, left = elementwise(Op.FLOORMOD, p, q), shift
    for _ in range(7):
        now = (left < 40).where(left, 40)
        remainder = elementwise(Op.FLOORMOD, elementwise(Op.SHL, remainder, now), q)
        left = elementwise(Op.SUB, left, now)
    return remainder


def _by_squaring(p: UOp, q: UOp, shift: UOp) -> UOp:
    """p * 2^shift mod q for p and q below 2^53 and shift below 2048."""
    power = elementwise(Op.FLOORMOD, elementwise(Op.SHL, shift.const_like(1), shift >> 6), q)
    for bit in range(5, -1, -1):
        power = _product(power, power, q)
        doubled = elementwise(Op.FLOORMOD, power << 1, q)
        power = _choose(((shift >> bit) & 1).ne(0), doubled, power)
    return _product(elementwise(Op.FLOORMOD, p, q), power, q)


def _product(x: UOp, y: UOp, q: UOp) -> UOp:
    """x * y mod q for operands below 2^53, ten bits of y at a time."""
    total: UOp | None = None
    for start in range(50, -1, -_CHUNK):
        part = elementwise(Op.MUL, x, (y >> start) & ((1 << _CHUNK) - 1))
        if total is not None:
            part = elementwise(Op.ADD, total << _CHUNK, part)
        total = elementwise(Op.FLOORMOD, part, q)
    assert total is not None
    return total


def _scaled(remainder: UOp, exponent: UOp, dtype: DType, form: _Format) -> UOp:
    """remainder * 2^(exponent - bias - mantissa), in two exact factors that are normal numbers."""
    power = exponent - (form.bias + form.mantissa)
    half = power >> 1
    rest = elementwise(Op.SUB, power, half)
    value = remainder.cast(form.signed).cast(dtype)
    for part in (half, rest):
        factor = ((part + form.bias) << form.mantissa).bitcast(dtype)
        value = elementwise(Op.MUL, value, factor)
    return value
