"""Movement ops that meet, and constants under them."""

from __future__ import annotations

from typing import Final

from core.ir import ELEMENTWISE, Op, Rule, UOp, dimensions, same_shape, var
from core.ir.pattern import Pattern, node

_X: Final = var("x")
_MOVES: Final = frozenset({Op.RESHAPE, Op.PERMUTE, Op.SHRINK, Op.FLIP, Op.EXPAND})


def _permute_twice(found: UOp, x: UOp) -> UOp:
    inner = found.src[0].arg
    return x.permute([inner[a] for a in found.arg])


def _expand_twice(found: UOp, x: UOp) -> UOp:
    return x.expand(dimensions(found.src[1]) + dimensions(found.src[0].src[1]))


def _shrink_twice(found: UOp, x: UOp) -> UOp | None:
    outer, inner = dimensions(found.src[1]), dimensions(found.src[0].src[1])
    if not all(isinstance(v, int) for v in (*outer, *inner)):
        return None
    offset = [a + b for a, b in zip(outer, inner, strict=True)]
    return UOp(Op.SHRINK, (x, UOp.dims(offset), found.src[2]))


def _constant(value: UOp) -> UOp | None:
    """The rank 0 constant that a value repeats, or None."""
    if value.op is Op.EXPAND and value.src[0].op is Op.CONST:
        return value.src[0]
    return value if value.op is Op.CONST else None


def _moved_constant(found: UOp) -> UOp | None:
    """A movement op of a repeated constant is that constant, repeated."""
    if found.op is Op.EXPAND and found.src[0].op is Op.CONST:
        return None
    constant = _constant(found.src[0])
    return None if constant is None or not found.shape else constant.expand(found.shape)


def _scalar_operands(found: UOp) -> UOp | None:
    """x + EXPAND(c) → x + c: elementwise operands may have rank 0."""
    if not found.shape:
        return None
    scalars = [s if not s.shape else _constant(s) for s in found.src]
    if all(s is None or s is o for s, o in zip(scalars, found.src, strict=True)):
        return None
    if all(s is not None for s in scalars):
        inner = UOp(found.op, tuple(s for s in scalars if s is not None), found.arg)
        return inner.expand(found.shape)
    src = tuple(o if s is None else s for s, o in zip(scalars, found.src, strict=True))
    return found.replace(src=src)


_STORAGE: Final = frozenset({Op.PARAM, Op.BUFFER, Op.AFTER})


def _is_trivial(found: UOp, x: UOp) -> bool:
    """A SHRINK to all of some storage stays: it is the place of a vector."""
    if found.op is Op.SHRINK and x.op in _STORAGE:
        return False
    return same_shape(found.shape, x.shape)


_STRUCTURE: Final = node({Op.RESHAPE, Op.SHRINK, Op.PAD}, _X, name="found", rest=True)
RULES: Final = (
    Rule("reshape-twice", node(Op.RESHAPE, node(Op.RESHAPE, _X, rest=True), name="found",
                               rest=True),
         lambda found, x: UOp(Op.RESHAPE, (x, found.src[1]))),
    Rule("move-to-same-shape", _STRUCTURE, lambda found, x: x, when=_is_trivial),
    Rule("permute-twice", node(Op.PERMUTE, node(Op.PERMUTE, _X), name="found"), _permute_twice),
    Rule("permute-in-order", node(Op.PERMUTE, _X, name="found"), lambda found, x: x,
         when=lambda found: found.arg == tuple(range(len(found.arg)))),
    Rule("expand-twice", node(Op.EXPAND, node(Op.EXPAND, _X, rest=True), name="found", rest=True),
         _expand_twice),
    Rule("shrink-twice", node(Op.SHRINK, node(Op.SHRINK, _X, rest=True), name="found", rest=True),
         _shrink_twice),
    Rule("move-constant", Pattern(ops=_MOVES, name="found"), _moved_constant),
    Rule("constant-operands", Pattern(ops=ELEMENTWISE, name="found"), _scalar_operands),
)
