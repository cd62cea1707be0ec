"""Answers questions about symbolic integers; who asks decides what an unknown answer means."""

from __future__ import annotations

from core.ir import UOp, bounds
from core.simplify.rule_sets import simplify


def prove(condition: UOp) -> bool | None:
    """Whether a bool expression always holds (True), never holds (False), or is not known."""
    low, high = bounds(simplify(condition))
    return bool(low) if low == high else None
