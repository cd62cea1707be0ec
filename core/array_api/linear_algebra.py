"""Products of arrays."""

from __future__ import annotations

from collections.abc import Sequence

from core.array_api.data_types import result_type
from core.array_api.manipulation import axis_in
from core.foundation.errors import DTypeError, ShapeError
from core.frontend import Tensor
from core.ir import DType, dtypes


def _operands(name: str, x1: Tensor, x2: Tensor) -> tuple[Tensor, Tensor, DType]:
    """Both in their common dtype, widened where sums of it would be; and that dtype."""
    if dtypes.bool in {x1.dtype, x2.dtype}:
        raise DTypeError(f"{name} is not defined for bool arrays")
    dtype = result_type(x1, x2)
    return x1.cast(dtype), x2.cast(dtype), dtype


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Matrix product, of stacks of matrices too; an array of one axis is a row or a column."""
    first, second, dtype = _operands("matmul", x1, x2)
    if not first.ndim or not second.ndim:
        raise ShapeError("matmul of an array without axes")
    return first.matmul(second).cast(dtype)


def matrix_transpose(x: Tensor, /) -> Tensor:
    """The last two axes exchanged."""
    if x.ndim < 2:
        raise ShapeError(f"matrix_transpose of shape {x.shape}: it needs two axes")
    return x.transpose(-2, -1)


def tensordot(
    x1: Tensor, x2: Tensor, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2
) -> Tensor:
    """Sums of products over axes of both: the last of one and the first of the other, or lists.

    Raises:
        ShapeError: Their extents differ.
    """
    first, second, dtype = _operands("tensordot", x1, x2)
    if isinstance(axes, int):
        if axes < 0 or axes > min(first.ndim, second.ndim):
            raise ShapeError(f"tensordot over {axes} axes of {first.ndim} and {second.ndim}")
        left, right = list(range(first.ndim - axes, first.ndim)), list(range(axes))
    else:
        left = [axis_in(a, first.ndim) for a in axes[0]]
        right = [axis_in(a, second.ndim) for a in axes[1]]
    if [first.shape[a] for a in left] != [second.shape[a] for a in right]:
        raise ShapeError(f"tensordot of {first.shape} and {second.shape} over axes {left} and "
                         f"{right}: their extents differ")
    outer = [a for a in range(first.ndim) if a not in left]
    inner = [a for a in range(second.ndim) if a not in right]
    shape = (*(first.shape[a] for a in outer), *(second.shape[a] for a in inner))
    summed = 1
    for a in left:
        summed *= first.shape[a]
    rows = first.permute((*outer, *left)) if first.ndim else first
    columns = second.permute((*right, *inner)) if second.ndim else second
    row_count = 1
    for a in outer:
        row_count *= first.shape[a]
    column_count = 1
    for a in inner:
        column_count *= second.shape[a]
    product = rows.reshape((row_count, summed)).matmul(columns.reshape((summed, column_count)))
    return product.cast(dtype).reshape(shape)


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Sums of products along an axis of both; the other axes broadcast.

    Raises:
        ShapeError: The extents of the axis differ.
    """
    first, second, dtype = _operands("vecdot", x1, x2)
    if not -min(first.ndim, second.ndim) <= axis < 0:
        raise ShapeError(f"vecdot along axis {axis} of {first.shape} and {second.shape}: it is "
                         "counted from the end")
    if first.shape[axis] != second.shape[axis]:
        raise ShapeError(f"vecdot of {first.shape[axis]} and {second.shape[axis]} elements")
    return (first * second).sum(axis).cast(dtype)
