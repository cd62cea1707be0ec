"""Floor division and remainder of sums of weak integers.

    (d*q + r) // d = q + r // d          (d*q + r) % d = r % d
    (g*a + r) // (g*d) = a // d          (g*a + r) % (g*d) = g*(a % d) + r      for 0 <= r < g
    (x // a) // b = x // (a*b)           (x % (a*b)) // b = (x // b) % a

`r // d` is a constant where the bounds of r lie within one period. Reshapes flatten an index and
divide it again; these rows give the parts back.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd, isinf
from typing import Final

from core.ir import Op, Rule, UOp, bounds, var
from core.ir.pattern import INTEGERS, WEAK, Pattern, node
from core.simplify.facts import is_definite
from core.simplify.sums import (
    Terms,
    build_sum,
    constant_quotient,
    interval,
    positive_constant,
    terms_of,
)


def _residues(terms: Terms, d: int) -> Iterator[Terms]:
    """Coefficients that differ from those of a sum by multiples of d: none, floor, nearest."""
    yield {t: k for t, k in terms.items() if k % d}
    if any(not 0 <= k < d for k in terms.values()):
        yield {t: k % d for t, k in terms.items() if k % d}
    if any(2 * (k % d) > d or k <= -d for k in terms.values()):
        yield {t: k % d - (d if 2 * (k % d) > d else 0) for t, k in terms.items() if k % d}


def _grouped(terms: Terms, constant: int, d: int) -> tuple[int, Terms, int, Terms] | None:
    """g > 1, a, q, r with sum = g*a + r, g a divisor of d, and q = r // g for every r."""
    factors = {gcd(d, k) for k in terms.values()} - {1, d}
    for g in sorted(factors, reverse=True):
        rest = {t: k for t, k in terms.items() if k % g}
        q = constant_quotient(*interval(rest, constant), g)
        if q is not None:
            return g, {t: k // g for t, k in terms.items() if k % g == 0}, q, rest
    return None


def divide(found: UOp, x: UOp, c: UOp) -> UOp | None:
    """FLOORDIV by a constant."""
    if c.is_invalid or c.value == 0:
        return None
    d: int = c.value
    if d < 0:
        return (x * -1) // -d
    if d == 1:
        return x
    inner = positive_constant(x.src[1]) if x.op in (Op.FLOORDIV, Op.FLOORMOD) else 0
    if inner and x.op is Op.FLOORDIV:
        return x.src[0] // (inner * d)
    if inner and inner % d == 0:
        return (x.src[0] // d) % (inner // d)
    terms, constant = terms_of(x)
    for rest in _residues(terms, d):
        known = constant_quotient(*interval(rest, constant), d)
        if known is not None:
            return build_sum({t: (k - rest.get(t, 0)) // d for t, k in terms.items()}, known)
    quotient = {t: k // d for t, k in terms.items() if k % d == 0}
    if quotient or not 0 <= constant < d:
        rest = {t: k for t, k in terms.items() if k % d}
        return build_sum(quotient, constant // d) + build_sum(rest, constant % d) // d
    group = _grouped(terms, constant, d)
    if group is None:
        return None
    g, whole, q, _ = group
    return build_sum(whole, q) // (d // g)


def remainder(found: UOp, x: UOp, c: UOp) -> UOp | None:
    """FLOORMOD by a constant."""
    if c.is_invalid or c.value == 0:
        return None
    d: int = c.value
    if d < 0:
        return ((x * -1) % -d) * -1
    if d == 1:
        return UOp.const(0)
    terms, constant = terms_of(x)
    for term, k in list(terms.items()):
        inner = positive_constant(term.src[1]) if term.op is Op.FLOORMOD else 0
        if inner and inner % d == 0:
            terms[term] -= k
            return (build_sum(terms, constant) + term.src[0] * k) % d
    for rest in _residues(terms, d):
        known = constant_quotient(*interval(rest, constant), d)
        if known is not None:
            return build_sum(rest, constant - known * d)
    reduced = {t: k % d for t, k in terms.items() if k % d}
    if reduced != terms or not 0 <= constant < d:
        return build_sum(reduced, constant % d) % d
    group = _grouped(terms, constant, d)
    if group is None:
        return None
    g, whole, q, rest = group
    return (build_sum(whole, q) % (d // g)) * g + build_sum(rest, constant - q * g)


def _lies_below(terms: Terms, constant: int, divisor: UOp) -> bool:
    """Whether 0 <= sum < divisor for a symbolic divisor."""
    if interval(terms, constant)[0] < 0:
        return False
    less, shift = terms_of(divisor, -1)
    for term, k in terms.items():
        less[term] = less.get(term, 0) + k
    return bool(interval(less, constant + shift)[1] < 0)


def _by_symbol(x: UOp, y: UOp) -> tuple[Terms, int, Terms, int] | None:
    """q, constant of q, r, constant of r with x = y*q + r and 0 <= r < y."""
    if y.op is Op.CONST or bounds(y)[0] <= 0 or x.shape or y.shape:
        return None
    terms, constant = terms_of(x)
    quotient: Terms = {}
    whole, rest = 0, dict(terms)
    for term, k in terms.items():
        if term is y:
            whole += k
            del rest[term]
        elif term.op is Op.MUL and y in term.src:
            quotient[term.src[1] if term.src[0] is y else term.src[0]] = k
            del rest[term]
    return (quotient, whole, rest, constant) if _lies_below(rest, constant, y) else None


def _divide_by_symbol(x: UOp, y: UOp) -> UOp | None:
    """(i*n + j) // n → i for 0 <= j < n."""
    parts = _by_symbol(x, y)
    return None if parts is None else build_sum(parts[0], parts[1])


def _remainder_by_symbol(x: UOp, y: UOp) -> UOp | None:
    """(i*n + j) % n → j for 0 <= j < n."""
    parts = _by_symbol(x, y)
    return None if parts is None else build_sum(parts[2], parts[3])


def _kept(found: UOp, result: UOp | None) -> UOp | None:
    """A result, unless it lost the shape or might drop an Invalid."""
    if result is None or result.shape != found.shape or not is_definite(found):
        return None
    return result


def _below_divisor(x: UOp, c: UOp) -> bool:
    """0 <= x < c: the remainder is x itself, for machine integers too."""
    low, high = bounds(x)
    return not c.is_invalid and bool(low >= 0 and high < c.value)


def _never_negative(x: UOp, c: UOp) -> bool:
    return not c.is_invalid and c.value > 0 and not isinf(bounds(x)[0]) and bounds(x)[0] >= 0


_FLOORING: Final = {Op.TRUNCDIV: Op.FLOORDIV, Op.TRUNCMOD: Op.FLOORMOD}
_C: Final = Pattern(ops=frozenset({Op.CONST}), name="c")
_X, _Y = var("x"), var("y")
RULES: Final = (
    Rule("divide-by-one", node({Op.FLOORDIV, Op.TRUNCDIV}, var("x", INTEGERS), 1), lambda x: x),
    Rule("remainder-below-divisor", node({Op.FLOORMOD, Op.TRUNCMOD}, var("x", INTEGERS), _C),
         lambda x: x, when=_below_divisor),
    Rule("floor-what-is-not-negative",
         node({Op.TRUNCDIV, Op.TRUNCMOD}, _X, _C, name="found", kinds=WEAK),
         lambda found, x, c: UOp(_FLOORING[found.op], (x, c)), when=_never_negative,
         unbounded=True, note="one form of division for the rows of sums"),
    Rule("divide-sum", node(Op.FLOORDIV, _X, _C, name="found", kinds=WEAK),
         lambda found, x, c: _kept(found, divide(found, x, c)), unbounded=True),
    Rule("remainder-of-sum", node(Op.FLOORMOD, _X, _C, name="found", kinds=WEAK),
         lambda found, x, c: _kept(found, remainder(found, x, c)), unbounded=True),
    Rule("divide-by-symbol", node(Op.FLOORDIV, _X, _Y, name="found", kinds=WEAK),
         lambda found, x, y: _kept(found, _divide_by_symbol(x, y)), unbounded=True),
    Rule("remainder-by-symbol", node(Op.FLOORMOD, _X, _Y, name="found", kinds=WEAK),
         lambda found, x, y: _kept(found, _remainder_by_symbol(x, y)), unbounded=True),
)
