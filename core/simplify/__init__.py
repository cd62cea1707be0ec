"""Algebra on UOps: named rules by topic; the contract of numbers is theirs to keep."""

from core.simplify.prove import prove
from core.simplify.ranges import FACTOR_OUT_OF_SUM, UNIT_RANGES, drop_unit_ranges, shrink_ranges
from core.simplify.rule_sets import INDEX_RULES, RULES, simplify, simplify_valid
from core.simplify.select import conjuncts
from core.simplify.sums import terms_of

__all__ = [
    "FACTOR_OUT_OF_SUM", "INDEX_RULES", "RULES", "UNIT_RANGES", "conjuncts", "drop_unit_ranges",
    "prove", "shrink_ranges", "simplify", "simplify_valid",
    "terms_of",
]
