"""Identities of + - * / and MAX: integers wrap, floats keep NaN, infinity and signed zero."""

from __future__ import annotations

import math
from typing import Final

from core.ir import COMMUTATIVE, Op, Rule, UOp, bounds, var
from core.ir.dtype import round_to_float
from core.ir.pattern import FLOATS, INTEGERS, MACHINE_INTEGERS, Pattern, node
from core.simplify.constant_folding import fold
from core.simplify.facts import filled, is_definite, is_x_definite

_MACHINE: Final = MACHINE_INTEGERS | FLOATS
_SMALLEST_NORMAL: Final = {5: -14, 8: -126, 11: -1022, 4: -6}


def _larger(x: UOp, y: UOp) -> UOp | None:
    """MAX of integers whose bounds do not overlap."""
    if x.shape != y.shape or not is_definite(x, y):
        return None
    if bounds(x)[0] >= bounds(y)[1]:
        return x
    return y if bounds(y)[0] >= bounds(x)[1] else None


def _by_power_of_two(x: UOp, c: UOp) -> UOp | None:
    """x / 2^k → x * 2^-k: the same real number, rounded once, if 2^-k is normal."""
    if c.is_invalid or not math.isfinite(c.value) or abs(math.frexp(c.value)[0]) != 0.5:
        return None
    inverse = 1 / c.value
    lowest = _SMALLEST_NORMAL.get(c.dtype.exponent_bits, -1022)
    normal = (math.isfinite(inverse) and math.frexp(inverse)[1] - 1 >= lowest
              and round_to_float(inverse, c.dtype) == inverse)
    return x * inverse if normal else None


def _constants_together(found: UOp, x: UOp, c: UOp, d: UOp) -> UOp | None:
    """(x op a) op b → x op (a op b), of integers that wrap."""
    if c.is_invalid or d.is_invalid:
        return None
    return UOp(found.op, (x, x.const_like(fold(found.op, (c.value, d.value), x.dtype))))


def _constant_by_bounds(found: UOp) -> UOp | None:
    """An integer that can have one value only."""
    low, high = bounds(found)
    return filled(low, found) if low == high and is_definite(found) else None


_I: Final = var("x", INTEGERS)
_F: Final = var("x", FLOATS)
_X, _Y, _Z = var("x"), var("y"), var("z")
_C: Final = Pattern(ops=frozenset({Op.CONST}), name="c")
_D: Final = Pattern(ops=frozenset({Op.CONST}), name="d")
_ASSOCIATIVE: Final = (Op.ADD, Op.MUL, Op.AND, Op.OR, Op.XOR, Op.MAX)
_BOUNDED: Final = frozenset({
    Op.ADD, Op.MUL, Op.FLOORDIV, Op.FLOORMOD, Op.TRUNCDIV, Op.TRUNCMOD, Op.MAX, Op.AND, Op.OR,
    Op.XOR, Op.SHL, Op.SHR, Op.CAST,
})
RULES: Final = (
    Rule("constant-last", Pattern(ops=COMMUTATIVE, name="found", src=(_X, _C)),
         lambda found, x, c: UOp(found.op, (x, c)), when=lambda x: x.op is not Op.CONST,
         note="rows need one order; so do equal expressions to be one node"),
    Rule("add-zero", _I + 0, lambda x: x),
    Rule("add-minus-zero", _F + -0.0, lambda x: x, note="x + 0.0 is no x: -0.0 + 0.0 is 0.0"),
    Rule("add-negated", node(Op.ADD, _X, -_Y, kinds=_MACHINE), lambda x, y: x - y),
    Rule("subtract-negated", node(Op.SUB, _X, -_Y, kinds=_MACHINE), lambda x, y: x + y),
    Rule("subtract-zero", _I - 0, lambda x: x),
    Rule("subtract-plus-zero", _F - 0.0, lambda x: x),
    Rule("subtract-itself", _I - _X, lambda x: filled(0, x), when=is_x_definite),
    Rule("multiply-by-one", _I * 1, lambda x: x),
    Rule("multiply-by-one-point-zero", _F * 1.0, lambda x: x),
    Rule("multiply-by-minus-one", node(Op.MUL, _X, -1, kinds=frozenset({"signed", *FLOATS})),
         lambda x: -x),
    Rule("multiply-by-zero", _I * 0, lambda x: filled(0, x), when=is_x_definite),
    Rule("divide-by-one-point-zero", _F / 1.0, lambda x: x),
    Rule("divide-by-power-of-two", _F / _C, _by_power_of_two),
    Rule("power-one", node(Op.POW, _F, 1.0), lambda x: x),
    Rule("truncate-twice", node(Op.TRUNC, node(Op.TRUNC, _X)), lambda x: x.alu(Op.TRUNC)),
    Rule("multiply-add-one", node(Op.MULACC, _X, 1, _Z), lambda x, z: x + z,
         note="a fused product with 1 is exact"),
    Rule("multiply-add-minus-zero", node(Op.MULACC, _F, _Y, -0.0), lambda x, y: x * y),
    Rule("negate-twice", node(Op.NEG, -_X), lambda x: x),
    Rule("larger-of-itself", _X.maximum(_X), lambda x: x),
    Rule("larger-by-bounds", node(Op.MAX, _I, _Y, kinds=INTEGERS), _larger),
    *(Rule(f"{op.name.lower()}-constants-together",
           node(op, node(op, _X, _C), _D, name="found", kinds=MACHINE_INTEGERS),
           _constants_together) for op in _ASSOCIATIVE),
    Rule("constant-by-bounds", Pattern(ops=_BOUNDED, name="found", kinds=INTEGERS),
         _constant_by_bounds),
)
