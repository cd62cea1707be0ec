"""WHERE, bool algebra, and what Invalid does to both.

Invalid floats to the top: WHERE(g, x, Invalid) + y → WHERE(g, x + y, Invalid), so that an index
has one gate, outermost, and the rows of arithmetic see values that are there.
"""

from __future__ import annotations

from typing import Final

from core.ir import BINARY_OPS, ELEMENTWISE, Op, Rule, UOp, dtypes, var
from core.ir.pattern import BOOL, Pattern, node
from core.simplify.facts import filled, is_definite, is_g_definite, is_gated, structural_order
from core.simplify.sums import terms_of

_MOST_CLAUSES: Final = 32


def conjuncts(gate: UOp, op: Op = Op.AND) -> dict[UOp, None]:
    """The clauses of a conjunction, the last first; a very long one is its own only clause.

    A part of the clauses would be no answer: callers put the conjunction together again.
    """
    found: dict[UOp, None] = {}
    pending = [gate]
    while pending:
        if len(found) >= _MOST_CLAUSES:
            return {gate: None}
        clause = pending.pop()
        if clause.op is op:
            pending.extend(clause.src)
        else:
            found[clause] = None
    return found


def join(clauses: list[UOp], op: Op = Op.AND) -> UOp:
    """A conjunction of clauses; True of none."""
    result = clauses[0] if clauses else UOp.const(True, dtypes.bool)
    for clause in clauses[1:]:
        result = result.alu(op, clause)
    return result


def _constant_gate(c: UOp, x: UOp, y: UOp) -> UOp | None:
    chosen, other = (x, y) if c.value else (y, x)
    if chosen.shape == other.shape or not other.shape:
        return chosen
    return chosen.expand(other.shape) if not chosen.shape else None


def _same_gate(found: UOp, g: UOp, x: UOp, y: UOp) -> UOp | None:
    """WHERE(g, WHERE(h, a, b), c) where g implies h → WHERE(g, a, c); g false likewise."""
    if x.op is Op.WHERE and conjuncts(x.src[0]).keys() <= conjuncts(g).keys():
        x = x.src[1]
    elif y.op is Op.WHERE and y.src[0] is g:
        y = y.src[2]
    else:
        return None
    result = g.where(x, y)
    return result if result.shape == found.shape else None


def _gates_together(g: UOp, h: UOp, x: UOp, c: UOp, d: UOp) -> UOp | None:
    """WHERE(g, WHERE(h, x, Invalid), Invalid) → WHERE(g & h, x, Invalid)."""
    return (g & h).where(x, c) if c.is_invalid and d.is_invalid else None


def _gives_zero_itself(found: UOp, g: UOp, h: UOp, c: UOp, d: UOp) -> bool:
    """Whether a load gated by h is 0 wherever WHERE(g, load, 0) takes the 0."""
    return (
        c.is_invalid and not d.is_invalid and d.arg.bits == 0 and not found.shape
        and conjuncts(g).keys() <= conjuncts(h).keys()
    )


def _lift_gate(found: UOp) -> UOp | None:
    """An elementwise op of what is not there is not there."""
    for position, source in enumerate(found.src):
        if found.op is Op.WHERE and position > 0:
            return None
        if source.is_invalid:
            return UOp.invalid(found.dtype).expand(found.shape)
        if is_gated(source):
            src = (*found.src[:position], source.src[1], *found.src[position + 1:])
            return source.src[0].where(
                UOp(found.op, src, found.arg, found.tag), UOp.invalid(found.dtype))
    return None


def _is_tight(result: UOp, found: UOp) -> UOp | None:
    return result if result.shape == found.shape else None


def _choice_of_truth(found: UOp, g: UOp, x: UOp, y: UOp) -> UOp | None:
    """WHERE of bools with a constant branch → and, or, not."""
    if x.op is Op.CONST and y.op is Op.CONST:
        if x.is_invalid or y.is_invalid or x.value == y.value:
            return None
        return g if x.value else g.logical_not()
    constant, other = (x, y) if x.op is Op.CONST else (y, x)
    if constant.op is not Op.CONST or constant.is_invalid or not is_definite(other):
        return None
    # Where x is the constant the other counts if g does not hold.
    gate = g.logical_not() if (constant is x) != bool(constant.value) else g
    return _is_tight(gate | other if constant.value else gate & other, found)


def _ordered_clauses(found: UOp) -> UOp | None:
    """A conjunction without repetitions and without weaker bounds of the same sum, in order."""
    if found.shape or found.src[0].op is Op.CONST or found.src[1].op is Op.CONST:
        return None
    clauses = list(conjuncts(found))
    if clauses == [found]:
        return None
    limits: dict[UOp, int] = {}
    others: list[UOp] = []
    for clause in clauses:
        total, limit = clause.src if len(clause.src) == 2 else (clause, clause)
        if clause.op is not Op.CMPLT or limit.op is not Op.CONST or (
                total.dtype.kind != "weak_int" or limit.is_invalid):
            others.append(clause)
        else:
            limits[total] = min(limit.value, limits.get(total, limit.value))
    for total, below in limits.items():
        # total < below and -total < c leave nothing where below - 1 < 1 - c.
        terms, constant = terms_of(total, -1)
        opposite = next((b for t, b in limits.items() if terms_of(t) == (terms, constant)), None)
        if opposite is not None and below - 1 < 1 - opposite and is_definite(found):
            return found.const_like(value=False)
        others.append(UOp(Op.CMPLT, (total, UOp.const(below))))
    result = join(sorted(dict.fromkeys(others), key=structural_order))
    return None if result is found else result


def _implied(g: UOp, h: UOp) -> UOp | None:
    """a & b & a → a & b, for values of any shape."""
    return g if conjuncts(h).keys() <= conjuncts(g).keys() else None


def _absorbed(found: UOp, g: UOp, h: UOp) -> UOp | None:
    """a & (a | b) → a; a | (a & b) → a; a & not a → False; a | not a → True."""
    inner = Op.OR if found.op is Op.AND else Op.AND
    if h.op is inner and g in h.src and is_definite(h):
        return _is_tight(g, found)
    if h.op is Op.CMPNE and h.src[0] is g and h.src[1].op is Op.CONST and h.src[1].arg.bits == 1 \
            and is_definite(g):
        return filled(found.op is Op.OR, found)
    return None


_G: Final = var("g", BOOL)
_H: Final = var("h", BOOL)
_X, _Y = var("x"), var("y")
_C: Final = Pattern(ops=frozenset({Op.CONST}), name="c")
_D: Final = Pattern(ops=frozenset({Op.CONST}), name="d")
_GATED_LOAD: Final = node(Op.LOAD, node(Op.INDEX, var("b"), node(Op.WHERE, _H, _X, _C)))
_LOGIC: Final = frozenset({Op.AND, Op.OR})
_MAY_BE_GATED: Final = Pattern(ops=frozenset({Op.WHERE, Op.CONST}))



#: These go first, so that the other rows meet operands that are there.
INVALID_RULES: Final = (
    Rule("gates-together", node(Op.WHERE, _G, node(Op.WHERE, _H, _X, _C), _D), _gates_together),
    Rule("lift-first-gate", Pattern(ops=ELEMENTWISE, name="found", src=(_MAY_BE_GATED,),
                                    rest=True), _lift_gate),
    Rule("lift-last-gate", Pattern(ops=BINARY_OPS, name="found", src=(_X, _MAY_BE_GATED)),
         _lift_gate),
    Rule("lift-gate-of-sum", Pattern(ops=frozenset({Op.MULACC}), name="found"), _lift_gate),
)
RULES: Final = (
    Rule("constant-gate", _C.where(_X, _Y), _constant_gate, when=lambda c: not c.is_invalid),
    Rule("same-branches", node(Op.WHERE, _G, _X, _X, name="found"),
         lambda found, g, x: _is_tight(x, found), when=is_g_definite),
    Rule("same-gate", node(Op.WHERE, _G, _X, _Y, name="found"), _same_gate),
    Rule("choice-of-gated-load", node(Op.WHERE, _G, _GATED_LOAD.named("load"), _D, name="found"),
         lambda load: load, when=_gives_zero_itself, note="a gated-off load gives 0"),
    Rule("choice-of-truth", node(Op.WHERE, _G, _X, _Y, name="found"), _choice_of_truth,
         kinds=BOOL),
    Rule("swap-branches", node(Op.WHERE, _G.ne(True), _X, _Y), lambda g, x, y: g.where(y, x),
         when=lambda x, y: not (x.is_invalid or y.is_invalid)),
    Rule("and-true", _G & True, lambda g: g),
    Rule("and-false", _G & False, lambda g: filled(value=False, model=g),
         when=is_g_definite),
    Rule("or-false", _G | False, lambda g: g),
    Rule("or-true", _G | True, lambda g: filled(value=True, model=g),
         when=is_g_definite),
    Rule("exclusive-or-true", _G ^ True, lambda g: g.logical_not()),
    Rule("exclusive-or-false", _G ^ False, lambda g: g),
    Rule("implied-clause", node(Op.AND, _G, _H), _implied,
         when=lambda g, h: len(g.shape) >= len(h.shape)),
    Rule("or-of-same-truth", _G | _G, lambda g: g),
    Rule("absorbed-clause", node(_LOGIC, _G, _H, name="found"), _absorbed),
    Rule("clauses-in-order", Pattern(ops=frozenset({Op.AND}), name="found", kinds=BOOL),
         _ordered_clauses),
)
