"""`Variable`: a named integer with bounds, bound to a value at each use."""

from __future__ import annotations

import operator
from typing import NamedTuple, Self

from core.foundation.errors import ShapeError


class _Named(NamedTuple):
    name: str
    minimum: int
    maximum: int


class Variable(_Named):
    """An integer in [minimum, maximum] that sizes and slices may use.

        length = Variable("length", 1, 10)
        x[:length.bind(3)]

    A bound Variable is its value for now: each value is a program of its own.

    Raises:
        ShapeError: `minimum` is above `maximum`.
    """

    __slots__ = ()

    def __new__(cls, name: str, minimum: int, maximum: int) -> Self:
        """Check the bounds."""
        if minimum > maximum:
            raise ShapeError(f"Variable {name!r}: its minimum {minimum} is above its maximum "
                             f"{maximum}")
        return super().__new__(cls, name, minimum, maximum)

    def bind(self, value: int) -> int:
        """The value, checked against the bounds.

        Raises:
            ShapeError: It is outside of the bounds.
        """
        number = operator.index(value)
        if not self.minimum <= number <= self.maximum:
            raise ShapeError(f"{self.name} is bound to {number}, outside of {self.minimum} to "
                             f"{self.maximum}")
        return number
