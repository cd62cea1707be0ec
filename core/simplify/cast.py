"""Casts: what loses nothing need not happen, what follows may see through it."""

from __future__ import annotations

from typing import Final

from core.ir import DType, Op, Rule, UOp, bounds, dtypes, var
from core.ir.pattern import node


def _significant_bits(dtype: DType) -> int:
    """Width of a float's significand, the hidden bit included."""
    return dtype.bits - dtype.exponent_bits if dtype.bits else 53


_WIDER_FLOATS: Final = {
    dtypes.fp8_e4m3: frozenset({dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64}),
    dtypes.fp8_e5m2: frozenset({dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64}),
    dtypes.float16: frozenset({dtypes.float32, dtypes.float64}),
    dtypes.bfloat16: frozenset({dtypes.float32, dtypes.float64}),
    dtypes.float32: frozenset({dtypes.float64}),
}


def is_exact(x: UOp, target: DType) -> bool:
    """Whether `target` holds every value that x can have."""
    source = x.dtype
    if source is target or source.kind == "bool":
        return True
    if source.is_float:
        return target in _WIDER_FLOATS.get(source, ())
    low, high = bounds(x)
    if target.is_float:
        limit = 1 << _significant_bits(target)
        roomy = target.exponent_bits >= 8 or limit <= 1 << 11  # 2^11 is finite in float16
        return bool(roomy and target.bits != 8 and -limit <= low and high <= limit)
    return bool(target.is_integer and target.minimum <= low and high <= target.maximum)


def _cast_of_cast(found: UOp, x: UOp) -> UOp | None:
    """CAST(CAST(x, middle), target) → CAST(x, target) where that is the same number."""
    middle, target = found.src[0].dtype, found.dtype
    if x.dtype.kind == "bool":
        return x.cast(target)
    narrowing = (
        x.dtype.is_integer and middle.is_machine_integer and target.is_machine_integer
        and target.bits <= middle.bits
    )
    if narrowing:  # the low bits of the low bits
        return x.cast(target)
    if not is_exact(x, middle):
        return None
    # From a float an integer saturates, from an integer it wraps: the same if it does neither.
    saturates = middle.is_float and not x.dtype.is_float and target.is_integer
    return None if saturates and not is_exact(x, target) else x.cast(target)


def _cast_of_choice(found: UOp, g: UOp, c: UOp, d: UOp) -> UOp:
    """CAST(WHERE(g, 1, 0)) → WHERE(g, CAST 1, CAST 0): the constants fold."""
    return g.where(c.cast(found.dtype), d.cast(found.dtype))


_X: Final = var("x")
_CHOICE: Final = node(Op.WHERE, var("g"), node(Op.CONST, name="c"), node(Op.CONST, name="d"))
RULES: Final = (
    Rule("cast-to-own-dtype", node(Op.CAST, _X, name="found"), lambda found, x: x,
         when=lambda found, x: found.dtype is x.dtype),
    Rule("cast-of-cast", node(Op.CAST, node(Op.CAST, _X), name="found"), _cast_of_cast),
    Rule("cast-of-choice", node(Op.CAST, _CHOICE, name="found"), _cast_of_choice),
)
