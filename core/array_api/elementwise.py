"""Elementwise functions.

Of two operands one may be a Python number, which takes the dtype of the other one's kind.
"""

from __future__ import annotations

import math
from typing import Any, Final

from core.foundation.errors import DTypeError
from core.frontend import Tensor
from core.ir import dtypes

__all__ = [
    "abs",
    "acos",
    "acosh",
    "add",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "ceil",
    "clip",
    "copysign",
    "cos",
    "cosh",
    "divide",
    "equal",
    "exp",
    "expm1",
    "floor",
    "floor_divide",
    "greater",
    "greater_equal",
    "hypot",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "nextafter",
    "not_equal",
    "positive",
    "pow",
    "reciprocal",
    "remainder",
    "round",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "trunc",
]

_BITS_OF: Final = {
    dtypes.float16: dtypes.int16, dtypes.bfloat16: dtypes.int16, dtypes.float32: dtypes.int32,
    dtypes.float64: dtypes.int64,
}


def _pair(x1: Any, x2: Any) -> tuple[Tensor, Tensor]:
    """Both operands as Tensors of the dtype that they promote to."""
    if not isinstance(x1, Tensor):
        if not isinstance(x2, Tensor):
            raise DTypeError("one of the operands has to be an array")
        second, first = x2._promoted(x1)
    else:
        first, second = x1._promoted(x2)
    return Tensor(first), Tensor(second)


def _only(kinds: str, name: str, *operands: Tensor) -> None:
    """Refuse operands for which the standard does not define a function."""
    for x in operands:
        is_bool = x.dtype is dtypes.bool
        fits = {"float": x.dtype.is_float, "number": not is_bool, "bool": is_bool,
                "integer or bool": not x.dtype.is_float, "integer": x.dtype.is_integer}[kinds]
        if not fits:
            raise DTypeError(f"{name} is not defined for {x.dtype.name}: it takes {kinds} arrays")


def abs(x: Tensor, /) -> Tensor:  # noqa: A001 - the standard's name
    """Absolute value."""
    _only("number", "abs", x)
    return x.abs()


def acos(x: Tensor, /) -> Tensor:
    """Inverse cosine."""
    return x.acos()


def acosh(x: Tensor, /) -> Tensor:
    """Inverse hyperbolic cosine."""
    return x.acosh()


def add(x1: Tensor | complex, x2: Tensor | complex, /) -> Tensor:
    """Sum."""
    first, second = _pair(x1, x2)
    return first + second


def asin(x: Tensor, /) -> Tensor:
    """Inverse sine."""
    return x.asin()


def asinh(x: Tensor, /) -> Tensor:
    """Inverse hyperbolic sine."""
    return x.asinh()


def atan(x: Tensor, /) -> Tensor:
    """Inverse tangent."""
    return x.atan()


def atan2(x1: Tensor | float, x2: Tensor | float, /) -> Tensor:
    """Angle of the point (x2, x1), by the signs of both, zeros too."""
    y, x = _pair(x1, x2)
    _only("float", "atan2", y)
    height, width = y.abs(), x.abs()
    angle = (height / width).atan()
    angle = ((height == 0) & (width == 0)).where(0.0, angle)
    angle = (height.isinf() & width.isinf()).where(math.pi / 4, angle)
    return signbit(x).where(math.pi - angle, angle).copysign(y).cast(y.dtype)


def atanh(x: Tensor, /) -> Tensor:
    """Inverse hyperbolic tangent."""
    return x.atanh()


def bitwise_and(x1: Tensor | int, x2: Tensor | int, /) -> Tensor:
    """Bits that both have."""
    first, second = _pair(x1, x2)
    return first & second


def bitwise_invert(x: Tensor, /) -> Tensor:
    """All bits the other way."""
    return ~x


def bitwise_left_shift(x1: Tensor | int, x2: Tensor | int, /) -> Tensor:
    """Bits moved up."""
    first, second = _pair(x1, x2)
    return first << second


def bitwise_or(x1: Tensor | int, x2: Tensor | int, /) -> Tensor:
    """Bits that one has."""
    first, second = _pair(x1, x2)
    return first | second


def bitwise_right_shift(x1: Tensor | int, x2: Tensor | int, /) -> Tensor:
    """Bits moved down; copies of the sign come in."""
    first, second = _pair(x1, x2)
    return first >> second


def bitwise_xor(x1: Tensor | int, x2: Tensor | int, /) -> Tensor:
    """Bits that one has and the other has not."""
    first, second = _pair(x1, x2)
    return first ^ second


def ceil(x: Tensor, /) -> Tensor:
    """Least integer that is not below."""
    return x.ceil() if x.dtype.is_float else x.clone()


def clip(
    x: Tensor, /, min: Tensor | float | None = None,  # noqa: A002 - the standard's names
    max: Tensor | float | None = None,  # noqa: A002
) -> Tensor:
    """Values moved into bounds; the result has the dtype of `x`."""
    result = x.clone()
    if min is not None:
        low = _bound(min, x)
        result = maximum(result, low)
    if max is not None:
        result = minimum(result, _bound(max, x))
    return result


def _bound(bound: Any, x: Tensor) -> Tensor:
    """A bound as an array of x's dtype; one beyond an integer's range is the range's end."""
    if isinstance(bound, Tensor):
        return bound.cast(x.dtype)
    if x.dtype.is_machine_integer:
        least, largest = int(x.dtype.minimum), int(x.dtype.maximum)
        if bound != bound:
            raise DTypeError(f"NaN is no bound of {x.dtype.name} values")
        bound = least if bound < least else largest if bound > largest else int(bound)
    return Tensor.full((), bound, dtype=x.dtype, device=x.device)


def copysign(x1: Tensor | float, x2: Tensor | float, /) -> Tensor:
    """Magnitude of the first, sign of the second."""
    first, second = _pair(x1, x2)
    return first.copysign(second)


def cos(x: Tensor, /) -> Tensor:
    """Cosine."""
    return x.cos()


def cosh(x: Tensor, /) -> Tensor:
    """Hyperbolic cosine."""
    return x.cosh()


def divide(x1: Tensor | complex, x2: Tensor | complex, /) -> Tensor:
    """Quotient."""
    first, second = _pair(x1, x2)
    return first / second


def equal(x1: Tensor | complex, x2: Tensor | complex, /) -> Tensor:
    """Whether both are equal."""
    first, second = _pair(x1, x2)
    return first == second


def exp(x: Tensor, /) -> Tensor:
    """e to the power of x."""
    return x.exp()


def expm1(x: Tensor, /) -> Tensor:
    """e to the power of x, less 1."""
    return x.expm1()


def floor(x: Tensor, /) -> Tensor:
    """Largest integer that is not above."""
    return x.floor() if x.dtype.is_float else x.clone()


def floor_divide(x1: Tensor | float, x2: Tensor | float, /) -> Tensor:
    """Quotient rounded down."""
    first, second = _pair(x1, x2)
    return first // second


def greater(x1: Tensor | float, x2: Tensor | float, /) -> Tensor:
    """Whether the first is greater."""
    first, second = _pair(x1, x2)
    return first > second


def greater_equal(x1: Tensor | float, x2: Tensor | float, /) -> Tensor:
    """Whether the first is not less, and neither is NaN."""
    first, second = _pair(x1, x2)
    return first >= second


def hypot(x1: Tensor | float, x2: Tensor | float, /) -> Tensor:
    """Root of the sum of squares, which do not overflow; an infinity wins against NaN."""
    first, second = _pair(x1, x2)
    _only("float", "hypot", first)
    long, short = first.abs().maximum(second.abs()), first.abs().minimum(second.abs())
    ratio = short / (long == 0).where(1.0, long)
    result = long * (ratio * ratio + 1).sqrt()
    return (first.isinf() | second.isinf()).where(math.inf, result).cast(first.dtype)


def isfinite(x: Tensor, /) -> Tensor:
    """Whether elements are neither infinite nor NaN."""
    return x.isfinite()


def isinf(x: Tensor, /) -> Tensor:
    """Whether elements are infinite."""
    return x.isinf()


def isnan(x: Tensor, /) -> Tensor:
    """Whether elements are NaN."""
    return x.isnan()


def less(x1: Tensor | float, x2: Tensor | float, /) -> Tensor:
    """Whether the first is less."""
    first, second = _pair(x1, x2)
    return first < second


def less_equal(x1: Tensor | float, x2: Tensor | float, /) -> Tensor:
    """Whether the first is not greater, and neither is NaN."""
    first, second = _pair(x1, x2)
    return first <= second


def log(x: Tensor, /) -> Tensor:
    """Natural logarithm."""
    return x.log()


def log10(x: Tensor, /) -> Tensor:
    """Logarithm of base 10."""
    return x.log10()


def log1p(x: Tensor, /) -> Tensor:
    """Natural logarithm of 1 + x."""
    return x.log1p()


def log2(x: Tensor, /) -> Tensor:
    """Logarithm of base 2."""
    return x.log2()


def logaddexp(x1: Tensor | float, x2: Tensor | float, /) -> Tensor:
    """Logarithm of the sum of exponentials."""
    first, second = _pair(x1, x2)
    return first.logaddexp(second)


def logical_and(x1: Tensor | bool, x2: Tensor | bool, /) -> Tensor:
    """Whether both hold."""
    first, second = _pair(x1, x2)
    return first.logical_and(second)


def logical_not(x: Tensor, /) -> Tensor:
    """Whether it does not hold."""
    return x.logical_not()


def logical_or(x1: Tensor | bool, x2: Tensor | bool, /) -> Tensor:
    """Whether one holds."""
    first, second = _pair(x1, x2)
    return first.logical_or(second)


def logical_xor(x1: Tensor | bool, x2: Tensor | bool, /) -> Tensor:
    """Whether exactly one holds."""
    first, second = _pair(x1, x2)
    return first.logical_xor(second)


def maximum(x1: Tensor | float, x2: Tensor | float, /) -> Tensor:
    """The larger one; NaN where one is NaN."""
    first, second = _pair(x1, x2)
    return first.maximum(second)


def minimum(x1: Tensor | float, x2: Tensor | float, /) -> Tensor:
    """The smaller one; NaN where one is NaN."""
    first, second = _pair(x1, x2)
    return first.minimum(second)


def multiply(x1: Tensor | complex, x2: Tensor | complex, /) -> Tensor:
    """Product."""
    first, second = _pair(x1, x2)
    return first * second


def negative(x: Tensor, /) -> Tensor:
    """The other sign."""
    _only("number", "negative", x)
    return -x


def nextafter(x1: Tensor | float, x2: Tensor | float, /) -> Tensor:
    """The next value of the dtype on the way from the first to the second."""
    x, target = _pair(x1, x2)
    _only("float", "nextafter", x)
    shape = (x == target).shape
    x, target = x.expand(*shape), target.expand(*shape)
    bits = x.bitcast(_BITS_OF[x.dtype])
    away = (target > x) == (x > 0)
    moved = away.where(bits + 1, bits - 1).bitcast(x.dtype)
    least = Tensor.full(shape, 1, dtype=bits.dtype, device=x.device).bitcast(x.dtype)
    moved = (x == 0).where(least.copysign(target), moved)
    moved = (x == target).where(target, moved)
    return (x.isnan() | target.isnan()).where(math.nan, moved)


def not_equal(x1: Tensor | complex, x2: Tensor | complex, /) -> Tensor:
    """Whether they differ."""
    first, second = _pair(x1, x2)
    return first != second


def positive(x: Tensor, /) -> Tensor:
    """The same values."""
    _only("number", "positive", x)
    return +x


def pow(x1: Tensor | complex, x2: Tensor | complex, /) -> Tensor:  # noqa: A001 - as above
    """The first to the power of the second."""
    first, second = _pair(x1, x2)
    return first ** second


def reciprocal(x: Tensor, /) -> Tensor:
    """1 over x."""
    return x.reciprocal()


def remainder(x1: Tensor | float, x2: Tensor | float, /) -> Tensor:
    """What floor_divide leaves: of the second's sign."""
    first, second = _pair(x1, x2)
    return first % second


def round(x: Tensor, /) -> Tensor:  # noqa: A001 - the standard's name
    """Nearest integer, the even one of two."""
    return x.round() if x.dtype.is_float else x.clone()


def sign(x: Tensor, /) -> Tensor:
    """-1, 0 or 1; NaN of NaN."""
    _only("number", "sign", x)
    return x.sign()


def signbit(x: Tensor, /) -> Tensor:
    """Whether the sign is negative, of zeros and NaN too."""
    _only("float", "signbit", x)
    return x.bitcast(_BITS_OF[x.dtype]) < 0


def sin(x: Tensor, /) -> Tensor:
    """Sine."""
    return x.sin()


def sinh(x: Tensor, /) -> Tensor:
    """Hyperbolic sine."""
    return x.sinh()


def sqrt(x: Tensor, /) -> Tensor:
    """Square root."""
    return x.sqrt()


def square(x: Tensor, /) -> Tensor:
    """Product with itself."""
    return x.square()


def subtract(x1: Tensor | complex, x2: Tensor | complex, /) -> Tensor:
    """Difference."""
    first, second = _pair(x1, x2)
    return first - second


def tan(x: Tensor, /) -> Tensor:
    """Tangent."""
    return x.tan()


def tanh(x: Tensor, /) -> Tensor:
    """Hyperbolic tangent."""
    return x.tanh()


def trunc(x: Tensor, /) -> Tensor:
    """Integer next to it towards zero."""
    return x.trunc() if x.dtype.is_float else x.clone()
