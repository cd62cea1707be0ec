"""Sums of weak integers in one canonical form: coefficient * term, ordered, constant last.

Equal index expressions become the same node, which is what makes equal demands of the scheduler
meet. Weak integers never wrap, so everything here may reorder and distribute.
"""

from __future__ import annotations

from math import isinf
from typing import Any, Final

from core.ir import Op, Rule, UOp, bounds, var
from core.ir.pattern import WEAK, Pattern, node
from core.simplify.facts import compare, is_definite, structural_order

Terms = dict[UOp, int]
_DIVISIONS: Final = frozenset({Op.FLOORDIV, Op.FLOORMOD})
# Longer sums stay as they are: putting every prefix of a chain in order is quadratic.
_LONGEST_SUM: Final = 64


def _is_number(node_: UOp) -> bool:
    return node_.op is Op.CONST and not node_.is_invalid


def positive_constant(node_: UOp) -> int:
    """The value of a positive constant, else 0."""
    return node_.value if _is_number(node_) and node_.value > 0 else 0


def _is_single(loop: UOp) -> bool:
    """A RANGE of one iteration: it is 0."""
    return loop.op is Op.RANGE and bool(loop.src) and _is_number(loop.src[0]) and (
        loop.src[0].value == 1)


def terms_of(root: UOp, factor: int = 1) -> tuple[Terms, int]:
    """(coefficient by term, constant) of `factor * root`; cancelled terms are left out."""
    terms: Terms = {}
    constant = 0
    pending: list[tuple[UOp, int]] = [(root, factor)]
    while pending:
        node_, k = pending.pop()
        op = node_.op
        if op is Op.ADD:
            pending += ((node_.src[1], k), (node_.src[0], k))
        elif op is Op.SUB:
            pending += ((node_.src[1], -k), (node_.src[0], k))
        elif op is Op.NEG:
            pending.append((node_.src[0], -k))
        elif op is Op.CONST and not node_.is_invalid:
            constant += k * node_.value
        elif op is Op.MUL and _is_number(node_.src[1]):
            pending.append((node_.src[0], k * node_.src[1].value))
        elif op is Op.MUL and _is_number(node_.src[0]):
            pending.append((node_.src[1], k * node_.src[0].value))
        elif not _is_single(node_):
            terms[node_] = terms.get(node_, 0) + k
    return {t: c for t, c in terms.items() if c}, constant


def build_sum(terms: Terms, constant: int = 0) -> UOp:
    """The canonical node of a sum."""
    result: UOp | None = None
    for term in sorted(terms, key=structural_order) if len(terms) > 1 else terms:
        k = terms[term]
        if k:
            part = term if k == 1 else UOp(Op.MUL, (term, UOp.const(k)))
            result = part if result is None else UOp(Op.ADD, (result, part))
    if result is None:
        return UOp.const(constant)
    return result if constant == 0 else UOp(Op.ADD, (result, UOp.const(constant)))


def _is_symbolic(term: UOp) -> bool:
    """A RANGE whose bound is no constant."""
    return term.op is Op.RANGE and bool(term.src) and term.src[0].op is not Op.CONST


def _at_last(terms: Terms, constant: int, sign: int) -> tuple[Terms, int]:
    """A sum with its symbolic RANGEs where it is largest (sign 1) or smallest (sign -1)."""
    result: Terms = {}
    for term, k in terms.items():
        more, rest = {term: k}, 0
        if _is_symbolic(term):
            more, rest = terms_of(term.src[0] + (-1), k) if k * sign > 0 else ({}, 0)
        constant += rest
        for t, c in more.items():
            result[t] = result.get(t, 0) + c
    return result, constant


def interval(terms: Terms, constant: int = 0) -> tuple[Any, Any]:
    """Bounds of a sum, without making its node."""
    low, high = _interval(terms, constant)
    if any(map(_is_symbolic, terms)):
        low = max(low, _interval(*_at_last(terms, constant, -1))[0])
        high = min(high, _interval(*_at_last(terms, constant, 1))[1])
    return low, high


def _interval(terms: Terms, constant: int) -> tuple[Any, Any]:
    low: Any = constant
    high: Any = constant
    for term, k in terms.items():
        a, b = bounds(term)
        if k < 0:
            a, b = b, a
        low, high = low + (k * a if k else 0), high + (k * b if k else 0)
    return low, high


def constant_quotient(low: Any, high: Any, divisor: int) -> int | None:
    """value // divisor where the bounds of value give one answer."""
    if isinf(low) or isinf(high) or low // divisor != high // divisor:
        return None
    return int(low // divisor)


def _quotient(value: UOp, divisor: int) -> UOp:
    """value // divisor as `divide_modulo` writes it."""
    if value.op is Op.FLOORDIV and _is_number(value.src[1]):
        return UOp(Op.FLOORDIV, (value.src[0], UOp.const(value.src[1].value * divisor)))
    return UOp(Op.FLOORDIV, (value, UOp.const(divisor)))


def rejoin_division(terms: Terms) -> bool:
    """One step, in place; whether anything changed.

        a*(x // a) + x % a          → x
        a*((x // a) % b) + x % a    → x % (a*b)
        x - x % a                   → a*(x // a)
    """
    for term, k in list(terms.items()):
        divisor = positive_constant(term.src[1]) if term.op is Op.FLOORMOD else 0
        if not divisor:
            continue
        value = term.src[0]
        quotient = _quotient(value, divisor)
        if terms.get(quotient) == k * divisor:
            del terms[term], terms[quotient]
            more, constant = terms_of(value, k)
            for t, c in ({value: k} if constant else more).items():
                terms[t] = terms.get(t, 0) + c
            return True
        if terms.get(value) == -k:
            del terms[term], terms[value]
            terms[quotient] = terms.get(quotient, 0) - k * divisor
            return True
        for other, c in terms.items():
            outer = 0
            if c == k * divisor and other.op is Op.FLOORMOD and other.src[0] is quotient:
                outer = positive_constant(other.src[1])
            if outer:
                del terms[term], terms[other]
                joined = value % (divisor * outer)
                terms[joined] = terms.get(joined, 0) + k
                return True
    return False


def _in_order_already(found: UOp) -> bool:
    """Whether x + y of canonical x and y is canonical, at one look: long chains stay linear."""
    x, y = found.src
    if y.op is Op.CONST:
        last = x.src[1] if x.op is Op.ADD else x
        return not y.is_invalid and y.arg.bits != 0 and last.op is not Op.CONST
    last = x.src[1] if x.op is Op.ADD else x
    if y.op is Op.ADD or last.op is Op.CONST:
        return False
    if last.op is Op.MUL and last.src[1].op is Op.CONST:
        last = last.src[0]
    if y.op is Op.MUL and y.src[1].op is Op.CONST:
        y = y.src[0]
    return not (y.op in _DIVISIONS or _is_single(y) or _is_single(last)) and compare(last, y) < 0


def _is_long(root: UOp) -> bool:
    count = 0
    while root.op is Op.ADD and count <= _LONGEST_SUM:
        root = root.src[0]
        count += 1
    return count > _LONGEST_SUM


def canonical_sum(found: UOp) -> UOp | None:
    """The canonical form of a sum, or None if it is that already."""
    if found.op is Op.ADD and (_in_order_already(found) or _is_long(found)):
        return None
    terms, constant = terms_of(found)
    while rejoin_division(terms):
        pass
    result = build_sum(terms, constant)
    if result is found or result.shape != found.shape or not is_definite(found):
        return None
    return result


def _distribute(found: UOp, x: UOp, c: UOp) -> UOp | None:
    """(3*i + 1) * 2 → 6*i + 2."""
    if x.op not in (Op.ADD, Op.MUL, Op.SUB, Op.NEG) or c.is_invalid or _is_long(x):
        return None
    terms, constant = terms_of(found)
    result = build_sum(terms, constant)
    return result if result.shape == found.shape and is_definite(found) else None


def _product(found: UOp) -> UOp | None:
    """Factors in order, constants together and last, one sum multiplied out."""
    factors: list[UOp] = []
    pending, constant = [found], 1
    while pending:
        node_ = pending.pop()
        if node_.op is Op.MUL:
            pending.extend(node_.src)
        elif _is_number(node_):
            constant *= node_.value
        else:
            factors.append(node_)
    if len(factors) < 2 or len(factors) > _LONGEST_SUM:
        return None
    total = next((f for f in factors if f.op is Op.ADD), None)
    if total is not None and not _is_long(total):
        factors.remove(total)
    else:
        total = None
    factors.sort(key=structural_order)
    result = factors[0]
    for factor in factors[1:]:
        result = result * factor
    if total is not None:
        terms, rest = terms_of(total, constant)
        products = {t * result: k for t, k in terms.items()}
        result = build_sum(products | {result: rest} if rest else products)
    elif constant != 1:
        result = result * constant
    return None if result is found or result.shape != found.shape else result


_SUMS: Final = frozenset({Op.ADD, Op.SUB, Op.NEG})
_C: Final = Pattern(ops=frozenset({Op.CONST}), name="c")
RULES: Final = (
    Rule("sum-in-order", Pattern(ops=_SUMS, name="found", kinds=WEAK), canonical_sum,
         unbounded=True),
    Rule("multiply-sum", node(Op.MUL, var("x"), _C, name="found", kinds=WEAK), _distribute,
         unbounded=True),
    Rule("product-in-order", Pattern(ops=frozenset({Op.MUL}), name="found", kinds=WEAK), _product,
         unbounded=True, when=lambda found: found.src[1].op is not Op.CONST),
)
