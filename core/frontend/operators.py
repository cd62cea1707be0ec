"""Python's operators, in their plain, reflected and in-place forms."""

from __future__ import annotations

from typing import Any, Self

from core.frontend.operations.loss import LossOperations
from core.ir import Op, dtypes


class Operators(LossOperations):
    """Operators. In-place forms make the name stand for the new value; the dtype stays."""

    __slots__ = ()

    def __neg__(self) -> Self:
        return self.neg()

    def __pos__(self) -> Self:
        return self

    def __abs__(self) -> Self:
        return self.abs()

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

    def __matmul__(self, other: Any) -> Self:
        return self.matmul(other)

    def __rmatmul__(self, other: Any) -> Self:
        return self.matmul(other, reflected=True)

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

    def isclose(
        self, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
    ) -> Self:
        """Whether |self - other| <= atol + rtol * |other|."""
        b = self._tensor(other)
        near = (self - b).abs() <= b.abs() * rtol + atol
        close = (self == b) | (near & b._float().isfinite())
        return close | ((self != self) & (b != b)) if equal_nan else close

    def allclose(self, other: Any, rtol: float = 1e-5, atol: float = 1e-8) -> bool:
        """Whether all elements are close. Computes them."""
        return bool(self.isclose(other, rtol, atol).all())

    # -- in place ---------------------------------------------------------------------------

    def __iadd__(self, other: Any) -> Self:
        return self.assign(self + other)

    def __isub__(self, other: Any) -> Self:
        return self.assign(self - other)

    def __imul__(self, other: Any) -> Self:
        return self.assign(self * other)

    def __itruediv__(self, other: Any) -> Self:
        return self.assign(self / other)

    def __ifloordiv__(self, other: Any) -> Self:
        return self.assign(self // other)

    def __imod__(self, other: Any) -> Self:
        return self.assign(self % other)

    def __ipow__(self, other: Any) -> Self:
        return self.assign(self**other)

    def __imatmul__(self, other: Any) -> Self:
        return self.assign(self @ other)

    def __iand__(self, other: Any) -> Self:
        return self.assign(self & other)

    def __ior__(self, other: Any) -> Self:
        return self.assign(self | other)

    def __ixor__(self, other: Any) -> Self:
        return self.assign(self ^ other)

    def __ilshift__(self, other: Any) -> Self:
        return self.assign(self << other)

    def __irshift__(self, other: Any) -> Self:
        return self.assign(self >> other)

    # -- conversion by name -----------------------------------------------------------------

    def float(self) -> Self:
        """As float32."""
        return self.cast(dtypes.float32)

    def double(self) -> Self:
        """As float64."""
        return self.cast(dtypes.float64)

    def half(self) -> Self:
        """As float16."""
        return self.cast(dtypes.float16)

    def bfloat16(self) -> Self:
        """As bfloat16."""
        return self.cast(dtypes.bfloat16)

    def long(self) -> Self:
        """As int64."""
        return self.cast(dtypes.int64)

    def int(self) -> Self:
        """As int32."""
        return self.cast(dtypes.int32)

    def short(self) -> Self:
        """As int16."""
        return self.cast(dtypes.int16)

    def bool(self) -> Self:
        """Whether each element is nonzero."""
        return self.cast(dtypes.bool)
