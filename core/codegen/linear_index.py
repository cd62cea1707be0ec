"""How an index moves along a loop: coefficients of RANGEs in a simplified sum."""

from __future__ import annotations

from typing import NamedTuple

from core.ir import Op, UOp, open_ranges
from core.simplify import terms_of


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


def linear_index(index: UOp) -> LinearIndex:
    """Coefficients of the RANGEs in an index; a gated index is looked through."""
    if index.op is Op.WHERE and index.src[2].is_invalid:
        index = index.src[1]
    terms, _ = terms_of(index)
    return LinearIndex({t: c for t, c in terms.items() if t.op is Op.RANGE},
                       tuple(t for t in terms if t.op is not Op.RANGE))
