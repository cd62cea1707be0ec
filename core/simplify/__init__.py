"""Algebra on UOps: named rules by topic; the contract of numbers is theirs to keep."""

from core.simplify.prove import prove
from core.simplify.rule_sets import RULES, simplify

simplify_index = simplify

__all__ = ["RULES", "prove", "simplify", "simplify_index"]
