"""Sums of weak integers in one canonical form: coefficient * term, ordered, constant last.

Equal index expressions become the same node, which is what makes equal demands of the scheduler
meet. Weak integers never wrap, so everything here may reorder and distribute.
"""

from __future__ import annotations

from typing import Final

from core.ir import Op, Rule, UOp, var
from core.ir.pattern import WEAK, Pattern, node

Terms = dict[UOp, int]


def terms_of(root: UOp) -> tuple[Terms, int]:
    """(coefficient by term, constant) of a sum whose parts are canonical already."""
    terms: Terms = {}
    constant = 0
    pending: list[tuple[UOp, int]] = [(root, 1)]
    while pending:
        node_, factor = pending.pop()
        op = node_.op
        if op is Op.ADD:
            pending.append((node_.src[1], factor))
            pending.append((node_.src[0], factor))
        elif op is Op.SUB:
            pending.append((node_.src[1], -factor))
            pending.append((node_.src[0], factor))
        elif op is Op.NEG:
            pending.append((node_.src[0], -factor))
        elif op is Op.CONST and not node_.is_invalid:
            constant += factor * node_.value
        elif op is Op.MUL and node_.src[1].op is Op.CONST and not node_.src[1].is_invalid:
            pending.append((node_.src[0], factor * node_.src[1].value))
        elif op is Op.MUL and node_.src[0].op is Op.CONST and not node_.src[0].is_invalid:
            pending.append((node_.src[1], factor * node_.src[0].value))
        else:
            terms[node_] = terms.get(node_, 0) + factor
    return {t: c for t, c in terms.items() if c}, constant


def _key(item: tuple[UOp, int]) -> tuple[int, int, int]:
    """Order of terms: loops by number, scalars by slot, then others; ties stay as they are."""
    term, coefficient = item
    if term.op is Op.RANGE:
        return 0, term.arg.id, 0
    if term.op is Op.PARAM:
        return 1, term.arg.slot, 0
    return 2, int(term.op), -coefficient


def build_sum(terms: Terms, constant: int) -> UOp:
    """The canonical node of a sum."""
    result: UOp | None = None
    for term, coefficient in sorted(terms.items(), key=_key):
        part = term if coefficient == 1 else UOp(Op.MUL, (term, UOp.const(coefficient)))
        result = part if result is None else UOp(Op.ADD, (result, part))
    if result is None:
        return UOp.const(constant)
    return result if constant == 0 else UOp(Op.ADD, (result, UOp.const(constant)))


def rejoin_division(terms: Terms) -> bool:
    """k * a * (x // a) + k * (x % a) → k * x, in place; whether anything changed."""
    for term, coefficient in list(terms.items()):
        if term.op is not Op.FLOORMOD or term.src[1].op is not Op.CONST:
            continue
        value, divisor = term.src
        quotient = UOp(Op.FLOORDIV, (value, divisor))
        wanted = coefficient * divisor.value
        if terms.get(quotient) != wanted:
            continue
        del terms[term], terms[quotient]
        more, constant = terms_of(value)
        if constant:
            terms[value] = terms.get(value, 0) + coefficient
        else:
            for t, c in more.items():
                terms[t] = terms.get(t, 0) + c * coefficient
        return True
    return False


def canonical_sum(found: UOp) -> UOp | None:
    """The canonical form of a sum, or None if it is that already."""
    terms, constant = terms_of(found)
    while rejoin_division(terms):
        pass
    result = build_sum({t: c for t, c in terms.items() if c}, constant)
    return None if result is found else result


_SUMS: Final = frozenset({Op.ADD, Op.SUB, Op.NEG})


def _distribute(found: UOp, x: UOp, c: UOp) -> UOp | None:
    if x.op not in (Op.ADD, Op.MUL) or c.is_invalid:
        return None
    terms, constant = terms_of(found)
    result = build_sum(terms, constant)
    return None if result is found else result


_C: Final = Pattern(ops=frozenset({Op.CONST}), name="c")
RULES: Final = (
    Rule("sum-in-order", Pattern(ops=_SUMS, name="found", kinds=WEAK), canonical_sum,
         unbounded=True),
    Rule("multiply-sum", node(Op.MUL, var("x"), _C, name="found", kinds=WEAK), _distribute,
         unbounded=True),
)


