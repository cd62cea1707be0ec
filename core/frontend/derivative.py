"""Values that know their own derivative.

A function such as tanh is built of many IR ops (a polynomial, a quotient, a choice). To
differentiate those would cost more and be less exact than the derivative that mathematics gives:
y' = 1 - y². So the node that ends such a function is entered here with its inputs and its rule, and
reverse mode does not look inside. The table is weak: an entry goes with its node, and a graph
rebuilt from its text is differentiated op by op, with the same value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from core.ir import UOp

Rule = Callable[..., "tuple[UOp | None, ...]"]


class Derivative(NamedTuple):
    """How a gradient passes a node.

    Attributes:
        inputs: The nodes that it passes to.
        rule: rule(gradient, value, *inputs) → a gradient for each input, of its shape and dtype,
            or None for none. It must not hold the node itself, or the node would never go.
    """

    inputs: tuple[UOp, ...]
    rule: Rule


_table: Final[WeakKeyDictionary[UOp, Derivative]] = WeakKeyDictionary()


def with_derivative(value: UOp, inputs: tuple[UOp, ...], rule: Rule) -> UOp:
    """Enter the derivative of `value` with respect to `inputs`, and return `value`."""
    if value not in inputs:
        _table[value] = Derivative(inputs, rule)
    return value


def derivative_of(node: UOp) -> Derivative | None:
    """The entry of a node, if it has one."""
    return _table.get(node)
