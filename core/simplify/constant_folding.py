"""The value of an op on constants, in pure Python, exactly as DESIGN 2, "Numbers" says.

Floats are computed as doubles and rounded once: for + - * / and sqrt of float32 and narrower that
is correct rounding (Figueroa, "When is double rounding innocuous?", SIGNUM 1995). Functions are
not folded: their value is the device's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from core.ir import BINARY_OPS, COMPARISON, DType, Op, Rule, UOp, dtypes, node
from core.ir.dtype import wrap_integer
from core.ir.pattern import Pattern


def _floor_divide(a: int, b: int) -> int:
    return 0 if b == 0 else a // b


def _floor_remainder(a: int, b: int) -> int:
    return 0 if b == 0 else a % b


def _truncate_divide(a: int, b: int) -> int:
    if b == 0:
        return 0
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _truncate_remainder(a: int, b: int) -> int:
    return 0 if b == 0 else a - b * _truncate_divide(a, b)


def _larger(a: Any, b: Any) -> Any:
    """MAX: NaN wins, -0 < +0."""
    if a != a or b != b:
        return math.nan
    if a == b == 0 and isinstance(a, float):
        return a if math.copysign(1.0, a) > 0 else b
    return max(a, b)


def _divide(a: float, b: float) -> float:
    if b == 0:
        if a == 0 or a != a:
            return math.nan
        return math.copysign(math.inf, a) * math.copysign(1.0, b)
    return a / b


def _multiply(a: Any, b: Any) -> Any:
    try:
        return a * b
    except OverflowError:
        return math.inf if (a < 0) == (b < 0) else -math.inf


_INTEGER: Final[dict[Op, Callable[[Any, Any], Any]]] = {
    Op.ADD: lambda a, b: a + b, Op.SUB: lambda a, b: a - b, Op.MUL: lambda a, b: a * b,
    Op.FLOORDIV: _floor_divide, Op.FLOORMOD: _floor_remainder, Op.TRUNCDIV: _truncate_divide,
    Op.TRUNCMOD: _truncate_remainder, Op.MAX: max,
    Op.AND: lambda a, b: a & b, Op.OR: lambda a, b: a | b, Op.XOR: lambda a, b: a ^ b,
}
_FLOAT: Final[dict[Op, Callable[[Any, Any], Any]]] = {
    Op.ADD: lambda a, b: a + b, Op.SUB: lambda a, b: a - b, Op.MUL: _multiply,
    Op.FDIV: _divide, Op.MAX: _larger,
}
_COMPARE: Final[dict[Op, Callable[[Any, Any], bool]]] = {
    Op.CMPLT: lambda a, b: a < b, Op.CMPEQ: lambda a, b: a == b, Op.CMPNE: lambda a, b: a != b,
}


def _boolean(op: Op, a: bool, b: bool) -> bool | None:
    if op is Op.ADD or op is Op.OR or op is Op.MAX:
        return a or b
    if op is Op.MUL or op is Op.AND:
        return a and b
    return a != b if op is Op.XOR else None


def fold(op: Op, values: Sequence[Any], dtype: DType) -> Any:
    """Value of a two-source op on constants of `dtype`; None where it is not folded."""
    a, b = values
    if op in COMPARISON:
        return _COMPARE[op](a, b)
    if dtype.kind == "bool":
        return _boolean(op, a, b)
    if dtype.is_float:
        function = _FLOAT.get(op)
        # A double holds sums and products of two float32 well enough to round once; of two
        # float64 it is the very operation.
        return None if function is None else function(a, b)
    if op in (Op.SHL, Op.SHR):
        amount = b % dtype.bits if dtype.bits else b
        if amount < 0:
            return None
        return wrap_integer(a << amount if op is Op.SHL else a >> amount, dtype)
    function = _INTEGER.get(op)
    return None if function is None else wrap_integer(function(a, b), dtype)


def cast_value(value: Any, source: DType, target: DType) -> Any:
    """Value of a CAST of a constant."""
    if target.kind == "bool":
        return bool(value != 0)
    if target.is_float:
        return float(value)
    if not source.is_float:
        return wrap_integer(int(value), target)
    if value != value:
        return 0
    # To 8 and 16 bits: saturate to int32 first, keep the low bits.
    narrow = target.bits < 32 and target.is_machine_integer
    wide = dtypes.int32 if narrow else target
    low, high = wide.minimum, wide.maximum
    clamped = low if value <= low else high if value >= high else int(value)
    return None if math.isinf(clamped) else wrap_integer(int(clamped), target)


def _fold_binary(found: UOp, a: UOp, b: UOp) -> UOp | None:
    if a.is_invalid or b.is_invalid:
        return None
    value = fold(found.op, (a.value, b.value), a.dtype)
    return None if value is None else UOp.const(value, found.dtype)


def _fold_cast(found: UOp, a: UOp) -> UOp | None:
    if a.is_invalid:
        return UOp.invalid(found.dtype)
    value = cast_value(a.value, a.dtype, found.dtype)
    return None if value is None else UOp.const(value, found.dtype)


def _fold_negate(a: UOp) -> UOp | None:
    return None if a.is_invalid or a.dtype.kind == "bool" else a.const_like(-a.value)


_A: Final = Pattern(ops=frozenset({Op.CONST}), name="a")
_B: Final = Pattern(ops=frozenset({Op.CONST}), name="b")
RULES: Final = (
    Rule("fold-binary", node(BINARY_OPS - {Op.THREEFRY, Op.POW}, _A, _B, name="found"),
         _fold_binary),
    Rule("fold-cast", node(Op.CAST, _A, name="found"), _fold_cast),
    Rule("fold-negate", node(Op.NEG, _A), _fold_negate),
)
