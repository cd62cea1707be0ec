"""Tensors made of nothing: constants, ranges, identity."""

from __future__ import annotations

import math
from typing import Any, Self

from core.foundation.errors import DTypeError, ShapeError
from core.frontend.base import TensorBase, scalar_storage
from core.frontend.broadcasting import as_shape, as_size, show
from core.frontend.conversion import as_dtype, common, default_float, number, number_dtype, strong
from core.frontend.iota import iota, tabulate
from core.ir import DType, UOp, dtypes


class CreationOperations(TensorBase):
    """Creation. Every function takes `dtype`, `device` and `requires_grad`."""

    __slots__ = ()

    @classmethod
    def full(
        cls, shape: Any, fill_value: Any, dtype: Any = None, device: str | None = None,
        requires_grad: bool | None = None,
    ) -> Self:
        """A tensor of one value.

        A float is kept in storage of its own: equal constants are one node of the graph, and a
        gradient could not tell two tensors of ones apart.

        Raises:
            ShapeError: A size is negative or huge.
            DTypeError: The value does not fit the dtype.
        """
        sizes = as_shape((shape,) if not isinstance(shape, (list, tuple)) else tuple(shape))
        if isinstance(fill_value, TensorBase):
            value = fill_value.uop if dtype is None else fill_value.cast(dtype).uop
            if value.shape not in ((), (1,)):
                raise ShapeError(f"full: the value is one number, not a tensor of shape "
                                 f"{show(value.shape)}", cure="broadcast it: value.expand(shape)")
            value = value.reshape(())
        elif not isinstance(fill_value, (bool, int, float)):
            raise DTypeError(f"full: the value is a number, not {fill_value!r}")
        else:
            wanted = strong(number_dtype(fill_value)) if dtype is None else as_dtype(dtype)
            value = number(fill_value, wanted)
            if wanted.is_float:
                value, device = scalar_storage(value.value, wanted, device), None
        return cls._created(value.expand(sizes), device, requires_grad)

    @classmethod
    def zeros(
        cls, *shape: Any, dtype: Any = None, device: str | None = None,
        requires_grad: bool | None = None,
    ) -> Self:
        """Zeros, in the default float dtype if none is given."""
        return cls.full(as_shape(shape), 0, dtype or default_float(), device, requires_grad)

    @classmethod
    def ones(
        cls, *shape: Any, dtype: Any = None, device: str | None = None,
        requires_grad: bool | None = None,
    ) -> Self:
        """Ones, in the default float dtype if none is given."""
        return cls.full(as_shape(shape), 1, dtype or default_float(), device, requires_grad)

    @classmethod
    def empty(
        cls, *shape: Any, dtype: Any = None, device: str | None = None,
        requires_grad: bool | None = None,
    ) -> Self:
        """Values of which nothing is said; zeros."""
        return cls.zeros(*shape, dtype=dtype, device=device, requires_grad=requires_grad)

    def full_like(
        self, fill_value: Any, dtype: Any = None, device: str | None = None,
        requires_grad: bool | None = None,
    ) -> Self:
        """A tensor of one value in this shape and dtype."""
        wanted = self.dtype if dtype is None else as_dtype(dtype)
        return type(self).full(self.shape, fill_value, wanted, device or self._place(),
                               requires_grad)

    def zeros_like(self, dtype: Any = None, **options: Any) -> Self:
        """Zeros in this shape and dtype."""
        return self.full_like(0, dtype, **options)

    def ones_like(self, dtype: Any = None, **options: Any) -> Self:
        """Ones in this shape and dtype."""
        return self.full_like(1, dtype, **options)

    def empty_like(self, dtype: Any = None, **options: Any) -> Self:
        """Values of which nothing is said in this shape and dtype; zeros."""
        return self.full_like(0, dtype, **options)

    def _place(self) -> str | None:
        """This tensor's device where it is a single one."""
        return self.device if isinstance(self.device, str) else None

    @classmethod
    def arange(
        cls, start: Any, stop: Any = None, step: Any = 1, dtype: Any = None,
        device: str | None = None, requires_grad: bool | None = None,
    ) -> Self:
        """Evenly spaced values from `start` on, all below `stop`; with one argument from 0 on.

        Raises:
            ValueError: The step is 0.
            DTypeError: An element does not fit the dtype.
        """
        if stop is None:
            start, stop = 0, start
        if step == 0:
            raise ShapeError("arange: the step is 0")
        if dtype is None:
            wanted = common(*map(number_dtype, (start, stop, step)))
        else:
            wanted = as_dtype(dtype)
        count = _count(start, stop, step)
        if count:
            number(start, wanted), number(start + (count - 1) * step, wanted)
        return cls._created(progression(start, step, as_size(count), wanted), device,
                            requires_grad)

    @classmethod
    def linspace(
        cls, start: float, stop: float, steps: int, dtype: Any = None, device: str | None = None,
        requires_grad: bool | None = None,
    ) -> Self:
        """`steps` evenly spaced values from `start` to `stop`, both included exactly.

        Raises:
            ShapeError: `steps` is negative.
        """
        wanted = default_float() if dtype is None else as_dtype(dtype)
        count = as_size(steps)
        if count <= 1 or not wanted.is_float:
            step = (stop - start) / (count - 1) if count > 1 else 0.0
            exact = dtypes.float64 if not wanted.is_float else wanted
            return cls._created(progression(float(start), step, count, exact).cast(wanted),
                                device, requires_grad)
        position = iota(count)
        spaced = progression(float(start), (stop - start) / (count - 1), count, wanted)
        value = position.eq(count - 1).where(UOp.const(stop, wanted), spaced)
        return cls._created(value, device, requires_grad)

    @classmethod
    def eye(
        cls, rows: int, columns: int | None = None, dtype: Any = None, device: str | None = None,
        requires_grad: bool | None = None,
    ) -> Self:
        """Ones on the diagonal of a matrix of zeros."""
        wanted = default_float() if dtype is None else as_dtype(dtype)
        shape = as_shape((rows, rows if columns is None else columns))
        value = tabulate(lambda r, c: r.eq(c).cast(wanted), *shape)
        return cls._created(value, device, requires_grad)


def _count(start: float, stop: float, step: float) -> int:
    """How many values start, start + step, ... lie before stop."""
    if isinstance(start, int) and isinstance(stop, int) and isinstance(step, int):
        return max(0, -((start - stop) // step))  # len(range(...)) refuses large ones
    if not all(math.isfinite(v) for v in (start, stop, step)):
        raise ShapeError(f"arange: from {start} to {stop} in steps of {step} is no finite range")
    return max(0, math.ceil((stop - start) / step))


def progression(start: Any, step: Any, count: int, dtype: DType) -> UOp:
    """start + k * step for k below count."""
    if dtype.is_float:
        first, difference = UOp.const(start, dtype), UOp.const(step, dtype)
        if step == 1 and start == 0:
            return tabulate(lambda r: r.cast(dtype), count)
        return tabulate(lambda r: r.cast(dtype) * difference + first, count)
    if any(isinstance(v, float) and v != int(v) for v in (start, step)):
        raise DTypeError(f"arange in steps of {step} from {start} has no {dtype.name} values",
                         cure="choose a float dtype and cast")
    return tabulate(lambda r: (r * int(step) + int(start)).cast(dtype), count)
