"""Operators in place, products as an operator, comparison of whole tensors, dtypes by name."""

from __future__ import annotations

from typing import Any, Self

from core.frontend.operations.products import ProductOperations
from core.ir import dtypes


class InPlaceOperators(ProductOperations):
    """In-place forms make the name stand for the new value; shape and dtype stay."""

    __slots__ = ()

    def __abs__(self) -> Self:
        return self.abs()

    def __matmul__(self, other: Any) -> Self:
        return self.matmul(other)

    def __rmatmul__(self, other: Any) -> Self:
        return self.matmul(other, reflected=True)

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
