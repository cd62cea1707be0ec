"""Products over chosen axes, and sums that leave NaN out."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, prod
from typing import Any, Self

from core.foundation.errors import ShapeError
from core.frontend.broadcasting import as_axes, as_axis, show
from core.frontend.operations.arrangement import ArrangementOperations
from core.ir.dtype import LARGEST_FINITE


class ProductOperations(ArrangementOperations):
    """Products over chosen axes; products and results have the dtypes of `matmul`'s."""

    __slots__ = ()

    def tensordot(self, other: Any, dims: int | tuple[Any, Any] = 2) -> Self:
        """Sum of products over axes of both operands; the axes left stay in their order.

        Args:
            other: The second operand.
            dims: How many of the last axes of this one meet as many first ones of the other, or
                the axes of this one and those of the other, in pairs.

        Raises:
            ShapeError: The axes differ in number or extent.
        """
        right = self._tensor(other)
        if isinstance(dims, int):
            if not 0 <= dims <= min(self.ndim, right.ndim):
                raise ShapeError(
                    f"tensordot over {dims} axes of {show(self.shape)} and {show(right.shape)}"
                )
            mine = tuple(range(self.ndim - dims, self.ndim))
            theirs = tuple(range(dims))
        else:
            mine, theirs = (_axes(d, t.shape) for d, t in zip(dims, (self, right), strict=True))
        summed = tuple(self.shape[a] for a in mine)
        if summed != tuple(right.shape[a] for a in theirs):
            raise ShapeError(
                f"tensordot of {show(self.shape)} over {mine} and "
                f"{show(right.shape)} over {theirs}: the extents differ"
            )
        rows = [a for a in range(self.ndim) if a not in mine]
        columns = [a for a in range(right.ndim) if a not in theirs]
        shape = [*(self.shape[a] for a in rows), *(right.shape[a] for a in columns)]
        x = self.permute(*rows, *mine).reshape(prod(shape[: len(rows)]), prod(summed))
        y = right.permute(*theirs, *columns).reshape(prod(summed), prod(shape[len(rows) :]))
        return x.matmul(y).reshape(*shape)

    def vecdot(self, other: Any, dim: int = -1) -> Self:
        """Sum of products along one axis; the other axes broadcast.

        Raises:
            ShapeError: The extents along the axis differ.
        """
        x, y = self._last(dim), self._tensor(other)._last(dim)
        return x.unsqueeze(-2).matmul(y.unsqueeze(-1)).squeeze(-1).squeeze(-1)

    def _last(self, dim: int) -> Self:
        at = as_axis(dim, self.shape)
        return self.permute(*(a for a in range(self.ndim) if a != at), at)

    def cross(self, other: Any, dim: int = -1) -> Self:
        """Vector product along an axis of extent 3; the other axes broadcast.

        Of small floats the products are exact, and their difference is rounded once.

        Raises:
            ShapeError: The axis of an operand has another extent.
        """
        first, second = (self._of(operand) for operand in self._promoted(other))
        target = first.dtype
        if target.is_float:
            first, second = first._working()[0], second._working()[0]
        x, y = first._last(dim), second._last(dim)
        if x.shape[-1] != 3 or y.shape[-1] != 3:
            raise ShapeError(
                f"cross along axis {dim} of {show(self.shape)} and another operand: "
                "both extents are 3"
            )
        a, b = [x[..., k] for k in range(3)], [y[..., k] for k in range(3)]
        parts = [
            a[(k + 1) % 3].mul(b[(k + 2) % 3]).sub(a[(k + 2) % 3].mul(b[(k + 1) % 3]))
            for k in range(3)
        ]
        result = parts[0].stack(*parts[1:], dim=-1)
        at = as_axis(dim, result.shape)
        order = list(range(result.ndim - 1))
        order.insert(at, result.ndim - 1)
        return result.permute(*order).cast(target)

    def kron(self, other: Any) -> Self:
        """Kronecker product: each element times all of the other operand, as blocks."""
        right = self._tensor(other)
        rank = max(self.ndim, right.ndim)
        mine = (1,) * (rank - self.ndim) + self.shape
        theirs = (1,) * (rank - right.ndim) + right.shape
        x = self.reshape(*(s for n in mine for s in (n, 1)))
        y = right.reshape(*(s for n in theirs for s in (1, n)))
        return x.mul(y).reshape(*(m * n for m, n in zip(mine, theirs, strict=True)))

    def cov(self, correction: float = 1) -> Self:
        """Covariance matrix of variables (rows) over their observations (columns), as floats.

        Raises:
            ShapeError: No vector or matrix.
        """
        if self.ndim not in (1, 2):
            raise ShapeError(f"cov of a tensor of shape {show(self.shape)}: a vector or a matrix")
        wide, result = self._working()
        rows = wide if self.ndim == 2 else wide.unsqueeze(0)
        distance = rows.sub(rows.mean(1, keepdim=True))
        count = max(float(rows.shape[1]) - correction, 0.0)
        total = distance.matmul(distance.transpose(0, 1)).div(count).cast(result)
        return total if self.ndim == 2 else total.reshape()

    # -- convolution of a fixed number of axes ----------------------------------------------

    def conv1d(self, weight: Self, *options: Any, **named: Any) -> Self:
        """`conv2d` of (batch, channels, length) with a weight of three axes.

        Raises:
            ShapeError: The weight has other axes, or does not fit.
        """
        return self._convolution("conv1d", 3, weight, *options, **named)

    def conv3d(self, weight: Self, *options: Any, **named: Any) -> Self:
        """`conv2d` of (batch, channels, depth, height, width) with a weight of five axes.

        Raises:
            ShapeError: The weight has other axes, or does not fit.
        """
        return self._convolution("conv3d", 5, weight, *options, **named)

    def _convolution(self, name: str, rank: int, weight: Self, *options: Any, **named: Any) -> Self:
        if weight.ndim != rank:
            raise ShapeError(
                f"{name} with a weight of shape {show(weight.shape)}: it has {rank} axes"
            )
        return self.conv2d(weight, *options, **named)

    # -- NaN --------------------------------------------------------------------------------

    def nan_to_num(
        self, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
    ) -> Self:
        """NaN and the infinities replaced; infinities by the largest finite numbers if None."""
        if not self.dtype.is_float:
            return self._renamed()
        largest = LARGEST_FINITE[self.dtype]
        high, low = largest if posinf is None else posinf, -largest if neginf is None else neginf
        value = self.eq(inf).where(high, self.eq(-inf).where(low, self))
        return self.isnan().where(nan, value)

    def nansum(self, axis: Any = None, keepdim: bool = False, dtype: Any = None) -> Self:
        """`sum` with NaN as 0."""
        return self.isnan().where(0, self).sum(axis, keepdim, dtype)

    def nanmean(self, axis: Any = None, keepdim: bool = False) -> Self:
        """Mean of the elements that are not NaN; NaN where there are none."""
        wide, result = self._working()
        number = wide.isnan()
        total = number.where(0.0, wide).sum(axis, keepdim)
        count = number.logical_not().sum(axis, keepdim).cast(wide.dtype)
        return total.div(count).cast(result)


def _axes(given: int | Sequence[int], shape: tuple[Any, ...]) -> tuple[int, ...]:
    """Axes in the order given.

    Raises:
        ShapeError: One is given twice.
    """
    items = (given,) if isinstance(given, int) else tuple(given)
    as_axes(items, shape)
    return tuple(as_axis(a, shape) for a in items)
