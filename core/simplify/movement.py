"""Movement ops that meet, and constants under them."""

from __future__ import annotations

from typing import Final

from core.ir import (
    BINARY_OPS,
    ELEMENTWISE,
    TERNARY,
    Op,
    Rule,
    UOp,
    bounds,
    dimensions,
    same_shape,
    var,
)
from core.ir.pattern import Pattern, node
from core.simplify.facts import is_definite

_X: Final = var("x")
_EXPAND: Final = Pattern(ops=frozenset({Op.EXPAND}))
_INDEX: Final = frozenset({Op.INDEX})
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


def _index_of_stack(found: UOp) -> UOp | None:
    """STACK(a, b)[1, i...] → b[i...]; a negative number counts from the end."""
    stack, first, *rest = found.src
    if first.is_invalid or not -len(stack.src) <= first.value < len(stack.src):
        return None
    chosen: UOp = stack.src[first.value]
    return chosen.index(*rest)


def _index_twice(found: UOp, x: UOp) -> UOp | None:
    """x[i][j] → x[i, j] of rank 0 indices."""
    inner, outer = found.src[0].src[1:], found.src[1:]
    return None if any(s.shape for s in (*inner, *outer)) else x.index(*inner, *outer)


def _index_of_expand(found: UOp, x: UOp) -> UOp | None:
    """A value repeated along axes, at rank 0 indices that are in bounds."""
    dims, (_, *at) = dimensions(found.src[0].src[1]), found.src
    count = min(len(at), len(dims))
    for i, n in zip(at[:count], dims, strict=False):
        low, high = bounds(i)
        if i.shape or not isinstance(n, int) or low < -n or high >= n or not is_definite(i):
            return None
    return x.expand(dims[count:]).index(*at[count:]) if not any(i.shape for i in at) else None


def _shrink_of_pad(found: UOp, x: UOp) -> UOp | None:
    """A box that holds nothing of the padding."""
    at, inner = dimensions(found.src[1]), dimensions(found.src[0].src[1])
    if not all(isinstance(n, int) for n in (*at, *inner, *x.shape, *found.shape)):
        return None
    offset = [a - b for a, b in zip(at, inner, strict=True)]
    inside = all(o >= 0 and o + n <= m
                 for o, n, m in zip(offset, found.shape, x.shape, strict=True))
    return x.shrink(offset, found.shape) if inside else None


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
    Rule("flip-twice", node(Op.FLIP, node(Op.FLIP, _X), name="found"),
         lambda found, x: x.flip([a != b for a, b in zip(found.arg, found.src[0].arg,
                                                         strict=True)])),
    Rule("flip-nothing", node(Op.FLIP, _X, name="found"), lambda found, x: x,
         when=lambda found: not any(found.arg)),
    Rule("shrink-of-pad", node(Op.SHRINK, node(Op.PAD, _X, rest=True), name="found", rest=True),
         _shrink_of_pad),
    Rule("index-of-stack", Pattern(ops=_INDEX, name="found", rest=True,
                                   src=(node(Op.STACK, any_sources=True), node(Op.CONST))),
         _index_of_stack),
    Rule("index-twice", node(Op.INDEX, node(Op.INDEX, _X, rest=True), name="found", rest=True),
         _index_twice),
    Rule("index-of-expand", node(Op.INDEX, node(Op.EXPAND, _X, rest=True), name="found",
                                 rest=True), _index_of_expand),
    Rule("load-of-nothing", node(Op.LOAD, node(Op.INDEX, _X, node(Op.CONST, name="c")),
                                 name="found"), lambda found: found.const_like(0),
         when=lambda found, c: c.is_invalid and not found.shape,
         note="a gated-off load gives 0"),
    Rule("move-constant", Pattern(ops=_MOVES, name="found"), _moved_constant),
    Rule("constant-operand", Pattern(ops=ELEMENTWISE, name="found", src=(_EXPAND,), rest=True),
         _scalar_operands),
    Rule("constant-last-operand", Pattern(ops=BINARY_OPS, name="found", src=(_X, _EXPAND)),
         _scalar_operands),
    Rule("constant-choice", Pattern(ops=TERNARY, name="found"), _scalar_operands),
)
