"""Python's operators, plain and reflected."""

from __future__ import annotations

from typing import Any, Self

from core.frontend.operations.arithmetic import ArithmeticOperations
from core.ir import Op


class Operators(ArithmeticOperations):
    """Operators. See the named methods for what they do."""

    __slots__ = ()

    def __neg__(self) -> Self:
        return self.neg()

    def __pos__(self) -> Self:
        return self._renamed()

    def __invert__(self) -> Self:
        return self.bitwise_not()

    def __add__(self, other: Any) -> Self:
        return self.add(other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Self:
        return self._subtract(other, reflected=False)

    def __rsub__(self, other: Any) -> Self:
        return self._subtract(other, reflected=True)

    def __mul__(self, other: Any) -> Self:
        return self.mul(other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Self:
        return self._divide(other, reflected=False)

    def __rtruediv__(self, other: Any) -> Self:
        return self._divide(other, reflected=True)

    def __floordiv__(self, other: Any) -> Self:
        return self._floor_divide(other, reflected=False)

    def __rfloordiv__(self, other: Any) -> Self:
        return self._floor_divide(other, reflected=True)

    def __mod__(self, other: Any) -> Self:
        return self._modulo(other, reflected=False)

    def __rmod__(self, other: Any) -> Self:
        return self._modulo(other, reflected=True)

    def __divmod__(self, other: Any) -> tuple[Self, Self]:
        return self // other, self % other

    def __pow__(self, other: Any) -> Self:
        return self._power(other, reflected=False)

    def __rpow__(self, other: Any) -> Self:
        return self._power(other, reflected=True)

    def __and__(self, other: Any) -> Self:
        return self.bitwise_and(other)

    __rand__ = __and__

    def __or__(self, other: Any) -> Self:
        return self.bitwise_or(other)

    __ror__ = __or__

    def __xor__(self, other: Any) -> Self:
        return self.bitwise_xor(other)

    __rxor__ = __xor__

    def __lshift__(self, other: Any) -> Self:
        return self._shift(Op.SHL, other, reflected=False)

    def __rlshift__(self, other: Any) -> Self:
        return self._shift(Op.SHL, other, reflected=True)

    def __rshift__(self, other: Any) -> Self:
        return self._shift(Op.SHR, other, reflected=False)

    def __rrshift__(self, other: Any) -> Self:
        return self._shift(Op.SHR, other, reflected=True)

    # -- comparison -------------------------------------------------------------------------

    def __eq__(self, other: object) -> Self:  # type: ignore[override]
        return self.eq(other)

    def __ne__(self, other: object) -> Self:  # type: ignore[override]
        return self.ne(other)

    def __lt__(self, other: Any) -> Self:
        return self._binary(Op.CMPLT, other)

    def __gt__(self, other: Any) -> Self:
        return self._binary(Op.CMPLT, other, reflected=True)

    def __le__(self, other: Any) -> Self:
        return self._at_most(other, reflected=False)

    def __ge__(self, other: Any) -> Self:
        return self._at_most(other, reflected=True)

    __hash__ = object.__hash__
