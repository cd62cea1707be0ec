"""Identities of machine numbers: integers wrap, floats keep NaN, infinity and signed zero."""

from __future__ import annotations

from typing import Final

from core.ir import Op, Rule, UOp, bounds, var
from core.ir.pattern import FLOATS, INTEGERS, MACHINE_INTEGERS, Pattern, node

_I: Final = var("x", INTEGERS)
_M: Final = var("x", MACHINE_INTEGERS)
_F: Final = var("x", FLOATS)
_X: Final = var("x")


def _zero(x: UOp) -> UOp:
    return x.const_like(0).expand(x.shape)


def _larger(x: UOp, y: UOp) -> UOp | None:
    """MAX of integers whose bounds do not overlap."""
    if not x.dtype.is_integer or x.shape != y.shape:
        return None
    if bounds(x)[0] >= bounds(y)[1]:
        return x
    return y if bounds(y)[0] >= bounds(x)[1] else None


def _cast_of_cast(found: UOp, x: UOp) -> UOp | None:
    """CAST(CAST(x, a), b) → CAST(x, b) where a holds every value of x."""
    middle = found.src[0].dtype
    integers = (x.dtype.is_integer or x.dtype.kind == "bool") and middle.is_integer
    if integers:
        low, high = bounds(x)
        if middle.minimum <= low and high <= middle.maximum and found.dtype.kind != "bool":
            return x.cast(found.dtype)
    return None


RULES: Final = (
    Rule("add-zero", _I + 0, lambda x: x),
    Rule("add-minus-zero", _F + -0.0, lambda x: x),
    Rule("subtract-zero", _I - 0, lambda x: x),
    Rule("subtract-plus-zero", _F - 0.0, lambda x: x),
    Rule("subtract-itself", _I - _X, lambda x: _zero(x)),
    Rule("multiply-by-one", _I * 1, lambda x: x),
    Rule("multiply-by-one-point-zero", _F * 1.0, lambda x: x),
    Rule("multiply-by-zero", _I * 0, _zero),
    Rule("divide-by-one-point-zero", _F / 1.0, lambda x: x),
    Rule("divide-by-one", node({Op.FLOORDIV, Op.TRUNCDIV}, _I, 1), lambda x: x),
    Rule("remainder-by-one", node({Op.FLOORMOD, Op.TRUNCMOD}, _I, 1), _zero),
    Rule("negate-twice", -(-_X), lambda x: x),
    Rule("larger-of-itself", _X.maximum(_X), lambda x: x),
    Rule("larger-by-bounds", var("x", INTEGERS).maximum(var("y", INTEGERS)), _larger),
    Rule("and-itself", _M & _X, lambda x: x),
    Rule("or-itself", _M | _X, lambda x: x),
    Rule("exclusive-or-itself", _M ^ _X, _zero),
    Rule("and-zero", _M & 0, _zero),
    Rule("or-zero", _M | 0, lambda x: x),
    Rule("exclusive-or-zero", _M ^ 0, lambda x: x),
    Rule("shift-by-zero", node({Op.SHL, Op.SHR}, _I, 0), lambda x: x),
    Rule("cast-to-own-dtype", Pattern(ops=frozenset({Op.CAST}), src=(_X,), name="found"),
         lambda found, x: x, when=lambda found, x: found.dtype is x.dtype),
    Rule("cast-of-cast", node(Op.CAST, node(Op.CAST, _X), name="found"), _cast_of_cast),
)
