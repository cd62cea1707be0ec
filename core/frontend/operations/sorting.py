"""Sorting, and random choices that sort."""

from __future__ import annotations

from typing import Any, Self

from core.foundation.errors import ShapeError
from core.frontend.broadcasting import as_axis, show
from core.frontend.conversion import as_dtype, default_int
from core.frontend.derivative import with_derivative
from core.frontend.iota import iota
from core.frontend.operations.loss import LossOperations
from core.frontend.ordering import sort_keys, stable_order
from core.frontend.scattering import gathered_along
from core.ir import UOp, dtypes


class SortingOperations(LossOperations):
    """Sorting. NaN is larger than everything; equal elements keep their order."""

    __slots__ = ()

    def argsort(self, dim: int = -1, descending: bool = False) -> Self:
        """Indices that sort along an axis."""
        at = as_axis(dim, self.shape)
        if not self.shape:
            return self._of(UOp.const(0, default_int()))
        return self._of(_order(self.uop, at, descending).cast(default_int()))

    def sort(self, dim: int = -1, descending: bool = False) -> tuple[Self, Self]:
        """Elements in order along an axis, and their indices."""
        at = as_axis(dim, self.shape)
        if not self.shape:
            return self, self.argsort()
        order = _order(self.uop, at, descending).contiguous()
        return self._of(_permuted(self.uop, at, order)), self._of(order.cast(default_int()))

    def topk(
        self, k: int, dim: int = -1, largest: bool = True, sorted_: bool = True
    ) -> tuple[Self, Self]:
        """The k largest elements along an axis in falling order, and their indices.

        Args:
            k: How many.
            dim: Axis.
            largest: False for the smallest, in rising order.
            sorted_: The order is part of the result; False is not supported.

        Raises:
            ShapeError: There are less than k.
        """
        if not sorted_:
            raise NotImplementedError("topk gives its elements in order")
        at = as_axis(dim, self.shape)
        extent = self.shape[at] if self.shape else 1
        if not 0 <= k <= extent:
            raise ShapeError(f"topk: {k} of {extent} elements along axis {dim} of "
                             f"{show(self.shape)}")
        if not self.shape:
            return self.sort()
        values, indices = self.sort(at, descending=largest)
        part: list[tuple[int, int] | None] = [None] * self.ndim
        part[at] = (0, k)
        return values.shrink(part), indices.shrink(part)

    def median(self, dim: int | None = None, keepdim: bool = False) -> Self:
        """Middle element in order, mean of the two middle ones as numpy has it; a float.

        NaN where there is one, or no element.
        """
        if dim is None:
            found = self.reshape(-1).median(0)
            return found.reshape((1,) * self.ndim) if keepdim else found
        at = as_axis(dim, self.shape)
        wide, result = self._working()
        extent = self.shape[at] if self.shape else 1
        if not self.shape:
            return wide.cast(result)
        if extent == 0:
            return wide.mean(at, keepdim).cast(result)
        ordered = wide.sort(at)[0]
        part: list[tuple[int, int] | None] = [None] * self.ndim
        part[at] = ((extent - 1) // 2, extent // 2 + 1)
        middle = ordered.shrink(part).mean(at, keepdim)
        # NaN is sorted behind everything.
        part[at] = (extent - 1, extent)
        last = ordered.shrink(part).reshape(*middle.shape)
        return last.isnan().where(last, middle).cast(result)

    @classmethod
    def randperm(cls, n: int, dtype: Any = None, device: str | None = None) -> Self:
        """The numbers below n in random order."""
        wanted = default_int() if dtype is None else as_dtype(dtype)
        keys = cls._draw(n, device).reshape((1, n))
        return cls._created(stable_order(keys).reshape((n,)).cast(wanted), None, None)

    def multinomial(self, num_samples: int = 1, replacement: bool = False) -> Self:
        """Indices drawn with the given weights; rows of a matrix are drawn from separately.

        Without replacement the largest of weight-scaled exponential draws are taken
        (Efraimidis and Spirakis, 2006).

        Raises:
            ShapeError: No vector or matrix, or too few elements.
        """
        if self.ndim not in (1, 2) or num_samples < 1:
            raise ShapeError(f"multinomial of {num_samples} samples from a tensor of shape "
                             f"{show(self.shape)}: it needs a vector or a matrix")
        rows = self._float().cast(dtypes.float32).reshape(-1, self.shape[-1])
        count, extent = rows.shape
        if not replacement and num_samples > extent:
            raise ShapeError(f"multinomial: {num_samples} samples of {extent} without replacement")
        if replacement:
            sums = rows.cumsum(1)
            total = sums.shrink([None, (extent - 1, extent)])
            draw = type(self).rand(count, num_samples, device=self._place()).mul(total)
            wide = (count, num_samples, extent)
            below = sums.reshape(count, 1, extent).expand(wide).__le__(
                draw.reshape(count, num_samples, 1).expand(wide))
            chosen = below.sum(2).minimum(extent - 1).cast(default_int())
        else:
            noise = type(self).rand(count, extent, device=self._place())
            # -log of a uniform number in (0, 1] is exponential; divided by the weight.
            arrival = noise.neg().add(1).log().neg().div(rows)
            chosen = arrival.argsort(1).shrink([None, (0, num_samples)])
        return chosen if self.ndim == 2 else chosen.reshape(num_samples)


def _order(x: UOp, axis: int, descending: bool) -> UOp:
    """Indices that sort along an axis, in the shape of the value; int32."""
    last = x.permute([*(a for a in range(len(x.shape)) if a != axis), axis])
    extent = x.shape[axis]
    rows = 1
    for n in last.shape[:-1]:
        rows *= n
    order = stable_order(sort_keys(last, descending).reshape((rows, extent))).reshape(last.shape)
    return order.permute([*range(axis), len(x.shape) - 1, *range(axis, len(x.shape) - 1)])


def _permuted(x: UOp, axis: int, order: UOp) -> UOp:
    """Elements in an order along an axis; the gradient goes back by the inverse order."""
    tables = [order.cast(dtypes.weak_int) if a == axis else
              iota(n).reshape([n if b == a else 1 for b in range(len(x.shape))])
              for a, n in enumerate(x.shape)]

    def rule(g: UOp, value: UOp, x: UOp) -> tuple[UOp]:
        inverse = _order(order, axis, descending=False).contiguous()
        return (gathered_along(g, axis, inverse),)

    return with_derivative(x.index(*tables), (x,), rule)
