"""The sums of rules that passes use, and `simplify`."""

from __future__ import annotations

from typing import Final
from weakref import WeakKeyDictionary

from core.ir import Op, Rule, RuleSet, UOp, node, rewrite, var
from core.ir.pattern import WEAK
from core.simplify import (
    add_multiply,
    bitwise,
    cast,
    compare,
    constant_folding,
    divide_modulo,
    movement,
    ranges,
    select,
    sums,
)
from core.simplify.validity import simplify_valid as _simplify_valid

# Gates first: an operand that may be Invalid is out of the way before its value is dropped.
_ALL: Final = RuleSet(
    constant_folding.RULES, select.INVALID_RULES, add_multiply.RULES, sums.RULES,
    divide_modulo.RULES, compare.RULES, bitwise.RULES, select.RULES, cast.RULES, movement.RULES,
    ranges.RULES,
)
#: Valid at every stage, of machine integers and floats too.
RULES: Final = RuleSet(rule for rule in _ALL if not rule.unbounded)


def simplify_valid(found: UOp) -> UOp:
    """A gated index simplified by what its gate says; see `core.simplify.validity`."""
    return _simplify_valid(found, lambda value: rewrite(value, _ALL))


#: RULES, and those that hold only for integers that never wrap.
INDEX_RULES: Final = RuleSet(_ALL, (
    Rule("gated-index", node(Op.WHERE, var("g"), var("x"), node(Op.CONST), name="found"),
         simplify_valid, kinds=WEAK, unbounded=True),
))

_known: WeakKeyDictionary[UOp, UOp | None] = WeakKeyDictionary()


def simplify(root: UOp) -> UOp:
    """`root` with INDEX_RULES applied to a fixed point.

    Results are remembered by root, weakly: a result never holds the graph it was made from, so
    nothing is kept alive. Simplifying a graph again costs one look.
    """
    if root in _known:
        return _known[root] or root
    result = rewrite(root, INDEX_RULES)
    _known[result] = None
    if result is not root:
        _known[root] = result
    return result
