"""Floor division and remainder of sums of weak integers by constants.

    (d*q + r) // d = q + r // d          (d*q + r) % d = r % d
    (g*a + c) // (g*d) = (a + c//g) // d         (g*a + c) % (g*d) = g*((a + c//g) % d) + c%g

`r // d` is a constant where the bounds of r lie within one period.
"""

from __future__ import annotations

from math import gcd, isinf
from typing import Final

from core.ir import Op, Rule, UOp, bounds, var
from core.ir.pattern import WEAK, Pattern, node
from core.simplify.sums import Terms, build_sum, terms_of


def _constant_quotient(value: UOp, divisor: int) -> int | None:
    """value // divisor where the bounds give one answer."""
    low, high = bounds(value)
    if isinf(low) or isinf(high) or low // divisor != high // divisor:
        return None
    return int(low // divisor)


def _split_multiples(terms: Terms, constant: int, d: int) -> tuple[Terms, int, Terms, int]:
    """Parts of a sum that are multiples of d (divided by d), and the rest."""
    quotient = {t: c // d for t, c in terms.items() if c % d == 0}
    rest = {t: c for t, c in terms.items() if c % d}
    return quotient, constant // d, rest, constant % d


def divide(found: UOp, x: UOp, c: UOp) -> UOp | None:
    """FLOORDIV by a positive constant."""
    if c.is_invalid or c.value <= 0:
        return None
    d = c.value
    if d == 1:
        return x
    known = _constant_quotient(x, d)
    if known is not None:
        return UOp.const(known)
    if x.op is Op.FLOORDIV and x.src[1].op is Op.CONST and x.src[1].value > 0:
        return x.src[0] // (x.src[1].value * d)
    terms, constant = terms_of(x)
    quotient, whole, rest, left = _split_multiples(terms, constant, d)
    if quotient or whole:
        inner = build_sum(rest, left) // d
        return UOp(Op.ADD, (build_sum(quotient, whole), inner))
    # Coefficients larger than the divisor: worth splitting where the rest then has one quotient.
    large = {t: k // d for t, k in rest.items() if abs(k) >= d}
    if large:
        small = build_sum({t: k % d for t, k in rest.items()}, left)
        known = _constant_quotient(small, d)
        if known is not None:
            return build_sum(
                {t: k // d for t, k in rest.items() if k // d}, known)
    common = gcd(d, *rest.values())
    if common > 1:
        inner = build_sum({t: k // common for t, k in rest.items()}, left // common)
        return inner // (d // common)
    return None


def remainder(found: UOp, x: UOp, c: UOp) -> UOp | None:
    """FLOORMOD by a positive constant."""
    if c.is_invalid or c.value <= 0:
        return None
    d = c.value
    if d == 1:
        return UOp.const(0)
    known = _constant_quotient(x, d)
    if known is not None:
        return x if known == 0 else x + (-known * d)
    if x.op is Op.FLOORMOD and x.src[1].op is Op.CONST and x.src[1].value % d == 0:
        return x.src[0] % d
    terms, constant = terms_of(x)
    reduced = {t: k % d for t, k in terms.items() if k % d}
    if reduced != terms or constant != constant % d:
        candidate = build_sum(reduced, constant % d)
        return candidate % d
    common = gcd(d, *terms.values())
    if common > 1:
        inner = build_sum({t: k // common for t, k in terms.items()}, constant // common)
        result = (inner % (d // common)) * common
        return result + constant % common if constant % common else result
    # r % d with coefficients just below d: the negative ones may lie within one period.
    signed = {t: k - d if 2 * k > d else k for t, k in terms.items()}
    if signed != terms:
        candidate = build_sum(signed, constant)
        known = _constant_quotient(candidate, d)
        if known is not None:
            return candidate if known == 0 else candidate + (-known * d)
    return None


def _divide_remainder(x: UOp, c: UOp, d: UOp) -> UOp | None:
    """(x % (a*b)) // b → (x // b) % a."""
    if c.value > 0 and d.value > 0 and c.value % d.value == 0:
        return (x // d.value) % (c.value // d.value)
    return None


_C: Final = Pattern(ops=frozenset({Op.CONST}), name="c")
_D: Final = Pattern(ops=frozenset({Op.CONST}), name="d")
_X: Final = var("x")
RULES: Final = (
    Rule("divide-sum", node(Op.FLOORDIV, _X, _C, name="found", kinds=WEAK), divide,
         unbounded=True),
    Rule("divide-remainder", node(Op.FLOORDIV, _X % _C, _D, kinds=WEAK), _divide_remainder,
         unbounded=True),
    Rule("remainder-of-sum", node(Op.FLOORMOD, _X, _C, name="found", kinds=WEAK), remainder,
         unbounded=True),
)
