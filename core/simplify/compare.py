"""Comparisons: decided by bounds, and of weak integers in one canonical form: sum < constant."""

from __future__ import annotations

from math import gcd, isinf
from typing import Any, Final

from core.ir import Op, Rule, UOp, bounds, var
from core.ir.dtype import wrap_integer
from core.ir.operation import COMPARISON
from core.ir.pattern import BOOL, INTEGERS, MACHINE_INTEGERS, WEAK, Pattern, node
from core.simplify.facts import filled, is_definite, is_x_definite
from core.simplify.sums import Terms, build_sum, interval, terms_of


def _decide(found: UOp) -> UOp | None:
    """A comparison whose bounds leave one answer; floats may be NaN and are never decided."""
    low, high = bounds(found)
    return filled(low, found) if low == high and is_definite(found) else None


def _difference(x: UOp, y: UOp) -> tuple[Terms, int]:
    """Terms of x - y, and what the terms are compared with."""
    terms, constant = terms_of(x)
    more, limit = terms_of(y)
    for term, k in more.items():
        terms[term] = terms.get(term, 0) - k
    return {t: k for t, k in terms.items() if k}, limit - constant


def _ceiling(a: Any, b: int) -> Any:
    return a if isinf(a) else -(-a // b)


def _without_small_terms(terms: Terms, limit: int) -> tuple[Terms, int]:
    """g*a + r < limit → a < limit' where no r within its bounds changes the answer."""
    factors = {gcd(*terms.values()), *map(abs, terms.values())} - {0, 1}
    for g in sorted(factors, reverse=True):
        rest = {t: k for t, k in terms.items() if k % g}
        low, high = interval(rest)
        bound = _ceiling(limit - low, g)
        if bound == _ceiling(limit - high, g) and not isinf(bound):
            return {t: k // g for t, k in terms.items() if k % g == 0}, bound
    return terms, limit


def _less(found: UOp, x: UOp, y: UOp) -> UOp | None:
    """a < b of weak integers → terms < constant, divided by the common factor."""
    terms, limit = _difference(x, y)
    terms, limit = _without_small_terms(terms, limit)
    low, high = interval(terms)
    decided = high < limit or low >= limit
    if decided:
        result = filled(bool(high < limit), found)
    else:
        result = UOp(Op.CMPLT, (build_sum(terms), UOp.const(limit)))
    if result is found or result.shape != found.shape or not is_definite(found):
        return None
    return result


def _is_weak(found: UOp) -> bool:
    return found.src[0].dtype.kind == "weak_int"


def _equal(found: UOp) -> UOp | None:
    """a == b of weak integers → terms == constant, the first coefficient positive."""
    terms, limit = _difference(*found.src)
    common = gcd(*terms.values())
    if common > 1 and limit % common == 0:
        terms, limit = {t: k // common for t, k in terms.items()}, limit // common
    elif common > 1:
        terms, limit = {}, 1
    low, high = interval(terms)
    if not low <= limit <= high or not terms:
        same = not terms and limit == 0
        result = filled(same if found.op is Op.CMPEQ else not same, found)
    else:
        total = build_sum(terms)
        if _leading(total) < 0:
            total, limit = build_sum({t: -k for t, k in terms.items()}), -limit
        result = UOp(found.op, (total, UOp.const(limit)))
    if result is found or result.shape != found.shape or not is_definite(found):
        return None
    return result


def _leading(total: UOp) -> int:
    """Coefficient of the first term of a canonical sum."""
    while total.op is Op.ADD:
        total = total.src[0]
    return int(total.src[1].value) if total.op is Op.MUL and total.src[1].op is Op.CONST else 1


def _equal_sum(found: UOp, x: UOp, c: UOp, d: UOp) -> UOp | None:
    """x + c == d → x == d - c: a shift of machine integers is a bijection."""
    if c.is_invalid or d.is_invalid:
        return None
    return UOp(found.op, (x, x.const_like(wrap_integer(d.value - c.value, x.dtype))))


def _not_less(x: UOp, y: UOp) -> UOp | None:
    """not a < b → b < a + 1 where that cannot wrap; NaN has no part in it."""
    if x.dtype.kind == "weak_int":
        return y < x + 1
    if y.op is Op.CONST and not y.is_invalid and y.value > y.dtype.minimum:
        return UOp(Op.CMPLT, (y.const_like(y.value - 1), x))
    if x.op is Op.CONST and not x.is_invalid and x.value < x.dtype.maximum:
        return UOp(Op.CMPLT, (y, x.const_like(x.value + 1)))
    return None


def _cast_truth(found: UOp, x: UOp, c: UOp) -> UOp | None:
    """CAST(bool) == 0, == 1 or != either → the bool or its contrary."""
    if c.is_invalid or c.value not in (0, 1):
        return None
    return x if (c.value == 1) == (found.op is Op.CMPEQ) else x.logical_not()


_X, _Y = var("x"), var("y")
_WX, _WY = var("x", WEAK), var("y", WEAK)
_C: Final = Pattern(ops=frozenset({Op.CONST}), name="c")
_D: Final = Pattern(ops=frozenset({Op.CONST}), name="d")
_BOOLEAN: Final = var("x", BOOL)
_EQUALITY: Final = frozenset({Op.CMPEQ, Op.CMPNE})
RULES: Final = (
    Rule("decide-comparison", Pattern(ops=COMPARISON, name="found"), _decide),
    Rule("less-than-itself", node(Op.CMPLT, var("x", INTEGERS | BOOL), _X, name="found"),
         lambda found: filled(value=False, model=found), when=is_x_definite),
    Rule("less-in-order", node(Op.CMPLT, _WX, _WY, name="found"), _less, unbounded=True),
    Rule("equal-in-order", Pattern(ops=_EQUALITY, name="found"), _equal, when=_is_weak,
         unbounded=True),
    Rule("equal-sum", node(_EQUALITY, var("x", MACHINE_INTEGERS) + _C, _D, name="found"),
         _equal_sum),
    Rule("not-less", node(Op.CMPNE, var("x", INTEGERS) < _Y, True), _not_less),
    Rule("not-equal", node(Op.CMPNE, _X.eq(_Y), True), lambda x, y: x.ne(y),
         note="exact for NaN: it equals nothing and differs from everything"),
    Rule("not-unequal", node(Op.CMPNE, _X.ne(_Y), True), lambda x, y: x.eq(y)),
    Rule("equal-to-true", _BOOLEAN.eq(True), lambda x: x),
    Rule("unequal-to-false", _BOOLEAN.ne(False), lambda x: x),
    Rule("equal-to-false", _BOOLEAN.eq(False), lambda x: x.logical_not()),
    Rule("compare-cast-of-truth",
         node(_EQUALITY, node(Op.CAST, _BOOLEAN, kinds=INTEGERS), _C, name="found"), _cast_truth),
)
