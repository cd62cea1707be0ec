"""How an index moves along a loop: coefficients of RANGEs in a simplified sum."""

from __future__ import annotations

from typing import Any, NamedTuple

from core.ir import Op, UOp, open_ranges


class LinearIndex(NamedTuple):
    """index = sum(coefficient * range) + rest.

    Attributes:
        coefficients: By RANGE; constant integers.
        rest: The other terms; may depend on ranges in ways that are not linear.
    """

    coefficients: dict[UOp, int]
    rest: tuple[UOp, ...]

    def along(self, loop: UOp) -> int | None:
        """Step of the index from one iteration of a loop to the next; None if not constant."""
        if any(loop in open_ranges(term) for term in self.rest):
            return None
        return self.coefficients.get(loop, 0)


def sum_terms(index: UOp) -> list[UOp]:
    """The addends of a sum."""
    terms, pending = [], [index]
    while pending:
        node = pending.pop()
        if node.op is Op.ADD:
            pending.extend(node.src)
        else:
            terms.append(node)
    return terms


def linear_index(index: UOp) -> LinearIndex:
    """Coefficients of the RANGEs in an index; a gated index is looked through."""
    if index.op is Op.WHERE and index.src[2].is_invalid:
        index = index.src[1]
    coefficients: dict[UOp, int] = {}
    rest = []
    for term in sum_terms(index):
        factor: Any = 1
        loop = term
        if term.op is Op.MUL:
            a, b = term.src
            loop, constant = (a, b) if b.op is Op.CONST else (b, a)
            factor = constant.value if constant.op is Op.CONST else None
        if loop.op is Op.RANGE and factor is not None:
            coefficients[loop] = coefficients.get(loop, 0) + factor
        elif term.op is not Op.CONST or term.value != 0:
            rest.append(term)
    return LinearIndex(coefficients, tuple(rest))
