"""WHERE, logic, and what Invalid does to both."""

from __future__ import annotations

from typing import Final

from core.ir import BINARY_OPS, UNARY, Op, Rule, UOp, var
from core.ir.pattern import BOOL, Pattern, node

_G: Final = var("g", BOOL)
_X, _Y, _Z = var("x"), var("y"), var("z")
_CONST: Final = Pattern(ops=frozenset({Op.CONST}), name="c")


def conjuncts(gate: UOp) -> set[UOp]:
    """The clauses of a conjunction."""
    found, pending = set(), [gate]
    while pending:
        clause = pending.pop()
        if clause.op is Op.AND:
            pending.extend(clause.src)
        else:
            found.add(clause)
    return found


def _constant_gate(c: UOp, x: UOp, y: UOp) -> UOp | None:
    if c.is_invalid:
        return UOp.invalid(x.dtype)
    chosen, other = (x, y) if c.value else (y, x)
    return chosen if chosen.shape == other.shape or not other.shape else None


def _same_gate(found: UOp, g: UOp, x: UOp, y: UOp) -> UOp | None:
    """WHERE(g, WHERE(h, a, b), c) where g implies h → WHERE(g, a, c); g false likewise."""
    if x.op is Op.WHERE and conjuncts(x.src[0]) <= conjuncts(g):
        x = x.src[1]
    elif y.op is Op.WHERE and y.src[0] is g:
        y = y.src[2]
    else:
        return None
    result = g.where(x, y)
    return result if result.shape == found.shape else None


def _implied_clause(g: UOp, h: UOp) -> UOp | None:
    """a & b & a → a & b."""
    clauses = conjuncts(g)
    if conjuncts(h) <= clauses:
        return g
    return None


def _invalid_operand(found: UOp) -> UOp | None:
    """An elementwise op of Invalid is Invalid."""
    if any(s.is_invalid for s in found.src):
        return UOp.invalid(found.dtype).expand(found.shape)
    return None


def _both_equal(found: UOp, g: UOp, x: UOp) -> UOp | None:
    return x if x.shape == found.shape else None


def _boolean_select(found: UOp, g: UOp, c: UOp, d: UOp) -> UOp | None:
    if c.is_invalid or d.is_invalid or c.value == d.value:
        return None
    return g if c.value else g.logical_not()


_D: Final = Pattern(ops=frozenset({Op.CONST}), name="d", kinds=BOOL)
_INVALID_SOURCE: Final = frozenset((BINARY_OPS | UNARY | {Op.MULACC}) - {Op.WHERE})
_AND: Final = frozenset({Op.AND})
RULES: Final = (
    Rule("constant-gate", _CONST.where(_X, _Y), _constant_gate),
    Rule("same-branches", node(Op.WHERE, _G, _X, _X, name="found"), _both_equal),
    Rule("same-gate", node(Op.WHERE, _G, _X, _Y, name="found"), _same_gate),
    Rule("select-of-truth", node(Op.WHERE, _G, _CONST.named("c"), _D, name="found"),
         _boolean_select, kinds=BOOL),
    Rule("swap-branches", node(Op.WHERE, _G.ne(True), _X, _Y), lambda g, x, y: g.where(y, x),
         when=lambda x: not x.is_invalid),
    Rule("and-true", _G & True, lambda g: g),
    Rule("and-false", _G & False, lambda g: g.const_like(False),
         when=lambda g: not g.shape),
    Rule("or-false", _G | False, lambda g: g),
    Rule("or-true", _G | True, lambda g: g.const_like(True), when=lambda g: not g.shape),
    Rule("implied-clause", node(_AND, _G, var("h", BOOL)), _implied_clause),
    Rule("implied-first-clause", node(_AND, _G, var("h", BOOL)),
         lambda g, h: _implied_clause(h, g)),
    Rule("or-itself", _G | _G, lambda g: g),
    Rule("invalid-operand", Pattern(ops=_INVALID_SOURCE, name="found"), _invalid_operand),
)
