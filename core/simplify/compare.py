"""Comparisons: decided by bounds, and of weak integers in one canonical form: sum < constant."""

from __future__ import annotations

from math import gcd, isinf
from typing import Final

from core.ir import Op, Rule, UOp, bounds, dtypes, var
from core.ir.pattern import BOOL, INTEGERS, WEAK, Pattern, node
from core.simplify.sums import build_sum, terms_of

_COMPARISONS: Final = frozenset({Op.CMPLT, Op.CMPNE, Op.CMPEQ})


def _decide(found: UOp) -> UOp | None:
    """A comparison whose bounds leave one answer; floats may be NaN and are never decided."""
    low, high = bounds(found)
    return UOp.const(low, dtypes.bool) if low == high else None


def _less(found: UOp, x: UOp, y: UOp) -> UOp | None:
    """a < b of weak integers → terms < constant, divided by the common factor."""
    terms, constant = terms_of(x)
    for term, coefficient in terms_of(y)[0].items():
        terms[term] = terms.get(term, 0) - coefficient
    limit = terms_of(y)[1] - constant
    terms = {t: c for t, c in terms.items() if c}
    if not terms:
        return UOp.const(limit > 0, dtypes.bool)
    common = gcd(*terms.values())
    if common > 1:
        terms = {t: c // common for t, c in terms.items()}
        limit = -(-limit // common)
    total = build_sum(terms, 0)
    low, high = bounds(total)
    if not isinf(high) and high < limit:
        return UOp.const(True, dtypes.bool)
    if not isinf(low) and low >= limit:
        return UOp.const(False, dtypes.bool)
    result = UOp(Op.CMPLT, (total, UOp.const(limit)))
    return None if result is found else result


def _not_less(x: UOp, y: UOp) -> UOp:
    """not a < b → b < a + 1: weak integers only, NaN has no part in it."""
    return y < x + 1


_X, _Y = var("x"), var("y")
_BOOLEAN: Final = var("x", BOOL)
RULES: Final = (
    Rule("decide-comparison", Pattern(ops=_COMPARISONS, name="found"), _decide),
    Rule("less-in-order", node(Op.CMPLT, var("x", WEAK), var("y", WEAK), name="found"), _less),
    Rule("not-less", node(Op.CMPNE, node(Op.CMPLT, var("x", WEAK), var("y", WEAK)), True),
         _not_less),
    Rule("equal-to-true", _BOOLEAN.eq(True), lambda x: x),
    Rule("unequal-to-false", _BOOLEAN.ne(False), lambda x: x),
    Rule("equal-to-false", _BOOLEAN.eq(False), lambda x: x.logical_not()),
    Rule("not-not", _BOOLEAN.ne(True).ne(True), lambda x: x),
    Rule("less-than-itself", var("x", INTEGERS | BOOL) < _X,
         lambda x: UOp.const(False, dtypes.bool)),
)
