"""The value of an op on constants, in pure Python, exactly as DESIGN 2, "Numbers" says.

Floats are computed as doubles and rounded once: for + - * / and sqrt of float32 and narrower that
is correct rounding (Figueroa, "When is double rounding innocuous?", SIGNUM 1995). Functions are
folded only where they are exact: elsewhere their value is the device's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from core.ir import (
    BINARY_OPS,
    COMPARISON,
    ELEMENTWISE,
    TERNARY,
    UNARY,
    DType,
    Op,
    Rule,
    UOp,
    dtypes,
    node,
)
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


def _truncate(a: float) -> float:
    return math.copysign(float(math.trunc(a)), a) if math.isfinite(a) else a


def _square_root(a: float) -> float:
    return math.nan if a < 0 else math.sqrt(a)


_INTEGER: Final[dict[Op, Callable[[Any, Any], Any]]] = {
    Op.ADD: lambda a, b: a + b, Op.SUB: lambda a, b: a - b, Op.MUL: lambda a, b: a * b,
    Op.FLOORDIV: _floor_divide, Op.FLOORMOD: _floor_remainder, Op.TRUNCDIV: _truncate_divide,
    Op.TRUNCMOD: _truncate_remainder, Op.MAX: max,
    Op.AND: lambda a, b: a & b, Op.OR: lambda a, b: a | b, Op.XOR: lambda a, b: a ^ b,
}
_FLOAT: Final[dict[Op, Callable[..., Any]]] = {
    Op.ADD: lambda a, b: a + b, Op.SUB: lambda a, b: a - b, Op.MUL: lambda a, b: a * b,
    Op.FDIV: _divide, Op.MAX: _larger, Op.NEG: lambda a: -a, Op.TRUNC: _truncate,
    Op.SQRT: _square_root, Op.RECIPROCAL: lambda a: _divide(1.0, a),
}
_COMPARE: Final[dict[Op, Callable[[Any, Any], bool]]] = {
    Op.CMPLT: lambda a, b: a < b, Op.CMPEQ: lambda a, b: a == b, Op.CMPNE: lambda a, b: a != b,
}
_BOOLEAN: Final[dict[Op, Callable[[Any, Any], bool]]] = {
    **dict.fromkeys((Op.ADD, Op.OR, Op.MAX), lambda a, b: a or b),
    **dict.fromkeys((Op.MUL, Op.AND), lambda a, b: a and b),
    Op.XOR: lambda a, b: a != b,
}
# Functions are the device's business, except where their value is exact.
_EXACT: Final[dict[tuple[Op, float], float]] = {
    (Op.EXP, 0.0): 1.0, (Op.EXP2, 0.0): 1.0, (Op.LOG, 1.0): 0.0, (Op.LOG2, 1.0): 0.0,
    (Op.COS, 0.0): 1.0,
}


def _shift(op: Op, a: int, b: int, dtype: DType) -> int | None:
    amount = b % dtype.bits if dtype.bits else b
    if amount < 0:
        return None
    return wrap_integer(a << amount if op is Op.SHL else a >> amount, dtype)


_ROTATIONS: Final = (13, 15, 26, 6, 17, 29, 16, 24)
_MASK: Final = 0xFFFFFFFF


def threefry(counter: int, key: int) -> int:
    """Threefry-2x32, 20 rounds, on uint64 (Salmon et al., SC 2011); word 0 is the low half."""
    first, second = key & _MASK, key >> 32
    keys = (first, second, first ^ second ^ 0x1BD11BDA)
    low, high = (counter + first) & _MASK, ((counter >> 32) + second) & _MASK
    for number in range(20):
        low = (low + high) & _MASK
        left = _ROTATIONS[number % 8]
        high = (((high << left) | (high >> (32 - left))) & _MASK) ^ low
        if number % 4 == 3:
            turn = number // 4 + 1
            low = (low + keys[turn % 3]) & _MASK
            high = (high + keys[(turn + 1) % 3] + turn) & _MASK
    return low | high << 32


def fold(op: Op, values: Sequence[Any], dtype: DType) -> Any:
    """Value of an op on numbers of `dtype` (that of its last source); None where not folded.

    The caller rounds floats to the dtype of the result: `UOp.const` does.
    """
    if op in COMPARISON:
        return _COMPARE[op](*values)
    if op is Op.WHERE:
        return values[1] if values[0] else values[2]
    if dtype.kind == "bool":
        return _BOOLEAN[op](*values) if op in _BOOLEAN else None
    if dtype.is_float:
        # A double holds sums, products and quotients of two float32 well enough to round once;
        # of two float64 it is the very operation.
        return _FLOAT[op](*values) if op in _FLOAT else _EXACT.get((op, values[0]))
    if op is Op.NEG:
        return wrap_integer(-values[0], dtype)
    if op is Op.TRUNC:
        return values[0]
    if op is Op.MULACC:
        return wrap_integer(values[0] * values[1] + values[2], dtype)
    if op in (Op.SHL, Op.SHR):
        return _shift(op, values[0], values[1], dtype)
    if op is Op.THREEFRY:
        return threefry(*values)
    if op is Op.POW:
        machine = dtype.is_machine_integer and values[1] >= 0
        return wrap_integer(pow(values[0], values[1], 1 << dtype.bits), dtype) if machine else None
    return wrap_integer(_INTEGER[op](*values), dtype) if op in _INTEGER else None


def _integer_to_float(value: int, target: DType) -> float:
    """A double that rounds to the float nearest to an integer: once, not twice."""
    surplus = abs(value).bit_length() - 53
    if surplus > 0 and target is not dtypes.float64:
        # Rounded to odd in 53 bits: what follows rounds as if from all bits.
        kept = abs(value) >> surplus
        sticky = int(kept << surplus != abs(value))
        value = ((kept | sticky) << surplus) * (1 if value > 0 else -1)
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def cast_value(value: Any, source: DType, target: DType) -> Any:
    """Value of a CAST of a constant."""
    if target.kind == "bool":
        return bool(value != 0)
    if target.is_float:
        return float(value) if source.is_float else _integer_to_float(int(value), target)
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


def _fold(found: UOp) -> UOp | None:
    if any(s.op is not Op.CONST or s.is_invalid for s in found.src):
        return None
    values = tuple(s.value for s in found.src)
    if found.op is Op.CAST:
        value = cast_value(values[0], found.src[0].dtype, found.dtype)
    else:
        value = fold(found.op, values, found.src[-1].dtype)
    return None if value is None else UOp.const(value, found.dtype)


def _fold_lanes(found: UOp) -> UOp | None:
    """An op of vectors of constants is the vector of its results."""
    if len(found.shape) != 1 or not found.shape[0]:
        return None
    lanes = []
    for k in range(found.shape[0]):
        part = [s.src[k] if s.op is Op.STACK else s for s in found.src]
        if any(p.op is not Op.CONST for p in part):
            return None
        lane = _fold(UOp(found.op, tuple(part), found.arg))
        if lane is None:
            return None
        lanes.append(lane)
    return UOp(Op.STACK, tuple(lanes))


_CONST: Final = Pattern(ops=frozenset({Op.CONST}))
_CONST_OR_STACK: Final = Pattern(ops=frozenset({Op.CONST, Op.STACK}))
RULES: Final = (
    Rule("fold-unary", node(UNARY, _CONST, name="found"), _fold),
    Rule("fold-binary", Pattern(ops=BINARY_OPS, src=(_CONST, _CONST), name="found"), _fold),
    Rule("fold-ternary", node(TERNARY, _CONST, _CONST, _CONST, name="found"), _fold),
    Rule("fold-lanes", Pattern(ops=ELEMENTWISE, src=(_CONST_OR_STACK,), name="found", rest=True),
         _fold_lanes, note="indices of lanes, after tiles have been expanded"),
)
