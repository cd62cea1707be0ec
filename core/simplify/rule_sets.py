"""The sums of rules that passes use."""

from __future__ import annotations

from typing import Final
from weakref import WeakKeyDictionary

from core.ir import RuleSet, UOp, rewrite
from core.simplify import (
    arithmetic,
    compare,
    constant_folding,
    divide_modulo,
    movement,
    select,
    sums,
)

#: Everything; rows that need integers that never wrap say so themselves.
RULES: Final = RuleSet(
    constant_folding.RULES, arithmetic.RULES, sums.RULES, divide_modulo.RULES, compare.RULES,
    select.RULES, movement.RULES,
)

_known: WeakKeyDictionary[UOp, bool] = WeakKeyDictionary()


def simplify(root: UOp) -> UOp:
    """`root` with every rule applied to a fixed point.

    Nodes found simple before are remembered (weakly), so that simplifying a graph again costs
    one look at its root.
    """
    if root in _known:
        return root
    result = rewrite(root, RULES)
    _known[result] = True
    return result
