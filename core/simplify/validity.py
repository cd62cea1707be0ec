"""What a gate says about the index that it guards.

    WHERE(i < 4, i % 8, Invalid)                   → WHERE(i < 4, i, Invalid)
    WHERE(i < 5 & i < 7, e, Invalid)               → WHERE(i < 5, e, Invalid)
    WHERE(-i-j < 1 & i+j < 4, (i+j) // 4, Invalid) → WHERE(..., 0, Invalid)

Each clause is a bound of a sum, and so of its terms given the bounds of the others. Inside the
gate a term with tighter bounds is replaced by a variable with those bounds, the value simplified,
and the term put back. The result is taken where it has fewer operations that are not linear.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isinf
from typing import Any, Final

from core.ir import ELEMENTWISE, Op, UOp, bounds, map_graph
from core.simplify.facts import is_definite, is_gated
from core.simplify.select import conjuncts, join
from core.simplify.sums import Terms, build_sum, interval, terms_of

Intervals = dict[UOp, tuple[Any, Any]]
Simplify = Callable[[UOp], UOp]
_LINEAR: Final = frozenset({Op.ADD, Op.SUB, Op.MUL, Op.NEG, Op.CAST})
_MOST_CLAUSES: Final = 12
_ROUNDS: Final = 2


def _upper_bound(clause: UOp) -> tuple[Terms, Any] | None:
    """terms and the largest value of their sum, of a clause sum < constant."""
    if clause.op is not Op.CMPLT or clause.src[0].dtype.kind != "weak_int":
        return None
    terms, constant = terms_of(clause.src[0])
    more, limit = terms_of(clause.src[1])
    return None if more or not terms else (terms, limit - constant - 1)


def _tightened(terms: Terms, high: Any, known: Intervals) -> Intervals:
    """Bounds of each term that follow from sum <= high and the bounds of the other terms."""
    spans = {t: _scaled(known.get(t) or bounds(t), k) for t, k in terms.items()}
    result: Intervals = {}
    for term, k in terms.items():
        others = sum(low for t, (low, _) in spans.items() if t is not term)
        if isinf(others):
            continue
        low, top = known.get(term) or bounds(term)
        left = high - others
        if k > 0:
            top = min(top, left // k)
        else:
            low = max(low, -(left // -k))
        if (low, top) != bounds(term):
            result[term] = low, top
    return result


def _scaled(span: tuple[Any, Any], k: int) -> tuple[Any, Any]:
    low, high = span
    return (low * k, high * k) if k > 0 else (high * k, low * k)


def intervals_of(clauses: list[UOp]) -> Intervals:
    """Bounds of terms, tighter than their own, where all clauses hold."""
    known: Intervals = {}
    for _ in range(_ROUNDS):
        for clause in clauses:
            found = _upper_bound(clause)
            if found is not None:
                known |= _tightened(*found, known)
    return known


def _implied(clause: UOp, known: Intervals) -> bool | None:
    """What a clause is under the bounds that the others give; None where they do not tell."""
    found = _upper_bound(clause)
    if found is None:
        return None
    terms, largest = found
    low: Any = 0
    high: Any = 0
    for term, k in terms.items():
        a, b = _scaled(known.get(term) or bounds(term), k)
        low, high = low + a, high + b
    return True if high <= largest else False if low > largest else None


def _cone(value: UOp) -> tuple[set[UOp], dict[UOp, UOp]]:
    """Elementwise nodes of a value, and its leaves each by itself."""
    inside: set[UOp] = set()
    leaves: dict[UOp, UOp] = {}
    pending = [value]
    while pending:
        node = pending.pop()
        if node in inside or node in leaves:
            continue
        if node.op in ELEMENTWISE:
            inside.add(node)
            pending.extend(node.src)
        else:
            leaves[node] = node
    return inside, leaves


def _weight(inside: set[UOp]) -> int:
    return sum(n.op not in _LINEAR for n in inside)


def _replaced(value: UOp, mapping: Mapping[UOp, UOp]) -> UOp:
    """Substitution that leaves opaque values, and the indices inside them, as they are."""
    _, leaves = _cone(value)
    return map_graph(value, lambda node, original: node, {**leaves, **mapping})


def _sum_pivots(clauses: list[UOp]) -> list[tuple[UOp, Terms, tuple[Any, Any]]]:
    """Sums of several terms with both bounds known, and a term of coefficient 1 in each."""
    highs: dict[UOp, tuple[Terms, Any]] = {}
    for clause in clauses:
        found = _upper_bound(clause)
        if found is not None and len(found[0]) > 1:
            highs[build_sum(found[0])] = found
    result = []
    for terms, high in highs.values():
        negated = highs.get(build_sum({t: -k for t, k in terms.items()}))
        low = -negated[1] if negated is not None else interval(terms)[0]
        pivot = next((t for t, k in reversed(terms.items()) if k == 1), None)
        if pivot is not None and not isinf(low):
            result.append((pivot, terms, (low, high)))
    return result


def _variable(number: int, span: tuple[Any, Any]) -> UOp:
    return UOp.variable(f"gated {number}", *span, slot=-2 - number)


def _under_gate(value: UOp, clauses: list[UOp], known: Intervals, simplify: Simplify) -> UOp:
    inside, leaves = _cone(value)
    weight = _weight(inside)
    present = [t for t in known if (t in inside or t in leaves) and not any(
        map(isinf, known[t]))]
    if weight and present:
        forward = {t: _variable(n, known[t]) for n, t in enumerate(present)}
        back = {v: t for t, v in forward.items()}
        candidate = _replaced(simplify(_replaced(value, forward)), back)
        lighter = _weight(_cone(candidate)[0])
        if lighter < weight:
            value, weight = candidate, lighter
    for pivot, terms, span in _sum_pivots(clauses):
        inside, leaves = _cone(value)
        if not weight or not (pivot in inside or pivot in leaves):
            continue
        stand_in = _variable(len(known), span)
        others = {t: -k for t, k in terms.items() if t is not pivot}
        whole = {pivot: build_sum({**others, stand_in: 1})}
        candidate = simplify(_replaced(value, whole))
        candidate = simplify(_replaced(candidate, {stand_in: build_sum(terms)}))
        lighter = _weight(_cone(candidate)[0])
        if lighter < weight:
            value, weight = candidate, lighter
    return value


def simplify_valid(index: UOp, simplify: Simplify) -> UOp:
    """A gated index, simplified by what its gate says; any other node as it is.

    Args:
        index: WHERE(gate, value, Invalid) of rank 0.
        simplify: Simplifies a value without regard to gates.

    Returns:
        An index that is Invalid at the same places and has the same value elsewhere.
    """
    if not is_gated(index) or index.shape or not is_definite(index.src[0]):
        return index
    clauses = list(conjuncts(index.src[0]))
    if len(clauses) > _MOST_CLAUSES:
        return index
    position = 0
    while position < len(clauses) and len(clauses) > 1:
        others = clauses[:position] + clauses[position + 1:]
        implied = _implied(clauses[position], intervals_of(others))
        if implied is False:
            return index.src[2]
        if implied:
            clauses = others
        else:
            position += 1
    known = intervals_of(clauses)
    if any(low > high for low, high in known.values()):
        return index.src[2]
    value = index.src[1]
    if value.dtype.kind == "weak_int":
        value = _under_gate(value, clauses, known, simplify)
    if value is index.src[1] and len(clauses) == len(conjuncts(index.src[0])):
        return index
    return join(clauses).where(value, index.src[2])
