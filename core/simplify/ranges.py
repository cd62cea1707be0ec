"""Reductions that need no loop, and loops that need fewer iterations.

`FACTOR_OUT_OF_SUM` may change rounding: it is one of the three rules that DESIGN 2, "Numbers"
allows to, and is in no other set. `UNIT_RANGES` is for graphs without STAGE over such a range.
"""

from __future__ import annotations

from typing import Final

from core.ir import (
    Op,
    Reduction,
    Rule,
    RuleSet,
    UOp,
    bounds,
    dimensions,
    neutral_element,
    open_ranges,
    product,
    rewrite,
    substitute,
    toposort,
    users,
    var,
)
from core.ir.pattern import FLOATS, INTEGERS, Pattern, node
from core.simplify.facts import is_definite, is_gated
from core.simplify.select import conjuncts, join
from core.simplify.sums import terms_of


def _rest(found: UOp, value: UOp, ranges: list[UOp]) -> UOp:
    return value.reduce(found.arg.op, *ranges) if ranges or found.arg.axes else value


def _independent(found: UOp) -> UOp | None:
    """Σ_r x → x * bound(r); max_r x → x: for x that does not depend on r."""
    value, ranges = found.src[0], found.src[1:]
    if not ranges or found.arg.axes or found.arg.op is Op.MUL or not is_definite(value):
        return None
    if any(r.op is not Op.RANGE for r in ranges):
        return None
    used = open_ranges(value)
    free = [r for r in ranges if r not in used]
    if not free or any(bounds(r.src[0])[0] < 1 for r in free):
        return None
    kept = [r for r in ranges if r in used]
    if found.arg.op is Op.MAX:
        return _rest(found, value, kept)
    if not found.dtype.is_integer:
        return None
    result = _rest(found, value, kept)
    for r in free:
        result = result * r.src[0].cast(found.dtype)
    return result


def _repeated(found: UOp, x: UOp) -> UOp | None:
    """REDUCE of axes along which a value only repeats."""
    axes, dims = found.arg.axes, dimensions(found.src[0].src[1])
    count = product(dims[:axes])
    if not 0 < axes <= len(dims) or not isinstance(count, int) or count < 1 or not is_definite(x):
        return None
    if found.arg.op is Op.MAX:
        return x.expand(dims[axes:])
    if found.arg.op is Op.ADD and found.dtype.is_integer:
        return (x * count).expand(dims[axes:])
    return None


def _solved(clause: UOp, ranges: tuple[UOp, ...]) -> tuple[UOp, UOp] | None:
    """(r, e) of a clause that holds for r == e only, e independent of r."""
    if clause.op is not Op.CMPEQ or clause.src[0].dtype.kind != "weak_int":
        return None
    terms, constant = terms_of(clause.src[0] - clause.src[1])
    for r in ranges:
        k = terms.get(r)
        if k in (1, -1) and not any(r in open_ranges(t) for t in terms if t is not r):
            value = UOp.const(-k * constant)
            for term, factor in terms.items():
                if term is not r:
                    value = value + term * (-k * factor)
            return r, value
    return None


def _one_point(found: UOp, g: UOp, x: UOp, y: UOp) -> UOp | None:
    """Σ_r WHERE(r == e & h, x, nothing) → WHERE(0 <= e < bound & h(e), x(e), neutral).

    `nothing` is Invalid, which REDUCE skips, or the 0 of a sum of integers. The sum of one float
    is that float; 0.0 as the other branch is left alone, as it would turn -0.0 into 0.0.
    """
    ranges = found.src[1:]
    integer_zero = y.op is Op.CONST and found.dtype.is_integer and (
        found.arg.op is Op.ADD and y.arg.bits == 0)
    if not ranges or not (y.is_invalid or integer_zero) or g.shape or not is_definite(g, x):
        return None
    clauses = list(conjuncts(g))
    for position, clause in enumerate(clauses):
        solved = _solved(clause, ranges)
        if solved is None:
            continue
        r, e = solved
        closes_it = any(n.op in _CLOSERS and r in n.src[1:] for n in toposort(x, g))
        if closes_it or (found.arg.op is Op.MAX and found.dtype.kind == "weak_int"):
            return None
        at = {r: e}
        others = [substitute(c, at) for c in clauses[:position] + clauses[position + 1:]]
        gate = join([*others, e >= 0, e < r.src[0]])
        value = _rest(found, substitute(x, at), [s for s in ranges if s is not r])
        open_gate = [s for s in ranges if s is not r and s in open_ranges(gate)]
        if open_gate:
            inner = gate.where(substitute(x, at), UOp.invalid(found.dtype))
            return _rest(found, inner, [s for s in ranges if s is not r])
        return gate.where(value, value.const_like(neutral_element(found.arg.op, found.dtype)))
    return None


_CLOSERS: Final = frozenset({Op.REDUCE, Op.STAGE, Op.END})


def _factor_out(found: UOp, x: UOp, y: UOp) -> UOp | None:
    """Σ_r x * c → c * Σ_r x: rounds differently."""
    ranges = found.src[1:]
    if found.arg.op is not Op.ADD or not is_definite(x, y):
        return None
    for value, factor in ((x, y), (y, x)):
        if ranges and not open_ranges(factor) & set(ranges):
            return value.reduce(Op.ADD, *ranges) * factor
        if found.arg.axes and not factor.shape:
            return UOp(Op.REDUCE, (value,), Reduction(Op.ADD, found.arg.axes)) * factor
    return None


def _without_constants(found: UOp) -> UOp | None:
    """END and REDUCE over what was a RANGE of one iteration."""
    value, ranges = found.src[0], found.src[1:]
    kept = tuple(r for r in ranges if r.op is Op.RANGE)
    if len(kept) == len(ranges):
        return None
    if kept or (found.op is Op.REDUCE and found.arg.axes):
        return found.replace(src=(value, *kept))
    if found.op is Op.END or is_definite(value):
        return value
    neutral = value.const_like(neutral_element(found.arg.op, found.dtype))
    gated = is_gated(value) and is_definite(value.src[0], value.src[1])
    return value.src[0].where(value.src[1], neutral) if gated else None


_X, _Y = var("x"), var("y")
_PRODUCT: Final = node(Op.MUL, _X, _Y)
RULES: Final = (
    Rule("reduce-of-independent", Pattern(ops=frozenset({Op.REDUCE}), name="found"), _independent,
         note="floats only for MAX: n * x rounds once, the sum of n times x each time"),
    Rule("reduce-of-repeated",
         node(Op.REDUCE, node(Op.EXPAND, _X, rest=True), name="found"), _repeated),
    Rule("reduce-at-one-point",
         node(Op.REDUCE, node(Op.WHERE, var("g"), _X, _Y), name="found", rest=True), _one_point),
)
FACTOR_OUT_OF_SUM: Final = RuleSet(
    Rule("factor-out-of-sum", node(Op.REDUCE, _PRODUCT, name="found", rest=True,
                                   kinds=FLOATS | INTEGERS), _factor_out),
)
UNIT_RANGES: Final = RuleSet(
    Rule("range-of-one", node(Op.RANGE, 1, name="found"), lambda found: found.const_like(0)),
    Rule("close-no-range", Pattern(ops=frozenset({Op.END, Op.REDUCE}), name="found"),
         _without_constants, when=lambda found: len(found.src) > 1),
)


def drop_unit_ranges(root: UOp) -> UOp:
    """Replace every RANGE of one iteration by 0; a graph that tabulates over one stays as it is."""
    for n in toposort(root):
        if n.op is Op.STAGE and any(bounds(r.src[0]) == (1, 1) for r in n.src[1:]):
            return root
    return rewrite(root, UNIT_RANGES)


def _needed(closer: UOp, loop: UOp) -> int | None:
    """Iterations of `loop` after which nothing closed here happens any more."""
    inner = closer.src[0]
    if closer.op is Op.REDUCE:
        gated = inner.op is Op.WHERE and inner.src[2].is_invalid
    else:
        gated = inner.op is Op.STORE and inner.src[0].op is Op.INDEX
        inner = inner.src[0].src[-1] if gated else inner
        gated = gated and inner.op is Op.WHERE and inner.src[2].is_invalid
    if closer.op not in (Op.REDUCE, Op.END) or not gated:
        return None
    limits = [
        c.src[1].value for c in conjuncts(inner.src[0])
        if c.op is Op.CMPLT and c.src[0] is loop and c.src[1].op is Op.CONST
    ]
    return max(min(limits), 1) if limits else None


def shrink_ranges(root: UOp) -> UOp:
    """Give a RANGE fewer iterations where everything closed over it is gated by `r < c`.

        END(STORE(INDEX(b, WHERE(r < 3, i, Invalid)), x), r: 8)  →  the same over r: 3

    The gate stays; `simplify` drops the clause, which the new bound implies.
    """
    order = toposort(root)
    readers = users(order)
    smaller: dict[UOp, UOp] = {}
    for loop in order:
        if loop.op is not Op.RANGE or not loop.src or loop.src[0].op is not Op.CONST:
            continue
        closers = [n for n in readers[loop] if n.op in _CLOSERS
                   and loop in n.src[1:]]
        needed = [_needed(n, loop) for n in closers]
        known = [n for n in needed if n is not None]
        if known and len(known) == len(needed) and max(known) < loop.src[0].value:
            smaller[loop] = loop.replace(src=(loop.src[0].const_like(max(known)),))
    return substitute(root, smaller)
