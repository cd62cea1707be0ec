"""The rows: which operation becomes what, and when."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Final

from core.codegen.decompose import division, selection
from core.codegen.decompose.exponential import decompose_exp, decompose_exp2
from core.codegen.decompose.logarithm import decompose_log, decompose_log2
from core.codegen.decompose.power import decompose_float_power, decompose_integer_power
from core.codegen.decompose.small_floats import SMALL_FLOATS
from core.codegen.decompose.threefry import decompose_threefry
from core.codegen.decompose.trigonometric import decompose_cos, decompose_sin
from core.ir import Op, Pattern, Rule, RuleSet, UOp, dtypes, node, var
from core.ir.pattern import INTEGERS

Replacement = Callable[..., "UOp | None"]
_ANALYSED: Final = (dtypes.float32, dtypes.float64)


def _pattern(op: Op, replacement: Replacement) -> Pattern:
    """An operation whose sources are named as the replacement's parameters."""
    names = [name for name in inspect.signature(replacement).parameters if name != "context"]
    return node(op, *map(var, names), name="found")


def _lacking(op: Op, replacement: Replacement, note: str = "") -> Rule:
    """A row that fires where the renderer has no such operation."""
    return Rule(
        f"{op.name.lower()}-lacking", _pattern(op, replacement), replacement, note=note,
        when=lambda context: op not in context.ops,
    )


def _function(op: Op, replacement: Replacement) -> Rule:
    """A function of float32 and float64 that the renderer lacks."""
    return Rule(
        f"{op.name.lower()}-lacking", _pattern(op, replacement), replacement,
        when=lambda found, context: found.dtype in _ANALYSED and op not in context.ops,
    )


def _in_float32(found: UOp) -> UOp:
    """f(x: float16) → CAST(f(CAST(x, float32)), float16)."""
    wide = tuple([s.cast(dtypes.float32) for s in found.src])
    return UOp(found.op, wide, found.arg).cast(found.dtype)


def _widen(ops: frozenset[Op]) -> Rule:
    """A row that computes functions of a native small float in float32."""
    return Rule(
        "function-of-small-float", node(ops, any_sources=True, name="found"), _in_float32,
        when=lambda found: found.dtype in SMALL_FLOATS,
        note="DESIGN 2, Numbers: a function rounds once, whatever the renderer offers",
    )


def _widen_lacking(ops: frozenset[Op]) -> Rule:
    """A row that computes other operations of a native small float in float32, if lacking."""
    return Rule(
        "choice-of-small-float-lacking", node(ops, any_sources=True, name="found"), _in_float32,
        when=lambda found, context: found.dtype in SMALL_FLOATS and found.op not in context.ops,
    )


RULES: Final = RuleSet(
    _widen(frozenset({Op.EXP, Op.EXP2, Op.LOG, Op.LOG2, Op.SIN, Op.COS, Op.POW})),
    _widen_lacking(frozenset({Op.MAX, Op.TRUNC})),
    _function(Op.EXP, decompose_exp),
    _function(Op.EXP2, decompose_exp2),
    _function(Op.LOG, decompose_log),
    _function(Op.LOG2, decompose_log2),
    _function(Op.SIN, decompose_sin),
    _function(Op.COS, decompose_cos),
    _function(Op.POW, decompose_float_power),
    Rule("integer-power", _pattern(Op.POW, decompose_integer_power), decompose_integer_power,
         kinds=INTEGERS, note="a renderer's POW is for floats"),
    _lacking(Op.THREEFRY, decompose_threefry),
    _lacking(Op.FLOORDIV, division.floor_quotient),
    _lacking(Op.FLOORMOD, division.floor_remainder),
    _lacking(Op.TRUNCMOD, division.truncated_remainder),
    _lacking(Op.RECIPROCAL, division.reciprocal),
    _lacking(Op.NEG, selection.negate),
    _lacking(Op.MAX, selection.larger),
    _lacking(Op.TRUNC, selection.truncate),
    _lacking(Op.CMPEQ, selection.equal),
    _lacking(Op.MULACC, selection.multiply_then_add),
    Rule("integer-multiply-add", _pattern(Op.MULACC, selection.multiply_then_add),
         selection.multiply_then_add, kinds=INTEGERS, note="a renderer's MULACC is for floats"),
)
