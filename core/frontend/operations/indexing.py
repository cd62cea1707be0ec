"""Reading parts of a tensor: brackets, gather, one-hot rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from core.foundation.errors import DTypeError, IndexOutOfRangeError, ShapeError
from core.foundation.lazy_import import lazy_import
from core.frontend.base import Selection, TensorBase
from core.frontend.broadcasting import as_axis, broadcast, show
from core.frontend.conversion import as_dtype, default_int
from core.frontend.iota import iota
from core.frontend.operations.matmul import MatmulOperations
from core.frontend.scattering import gathered_along, zeros_out_of_range
from core.frontend.selection import Gather, Key, normal_key, take
from core.ir import Op, UOp, broadcast_shapes, dtypes

if TYPE_CHECKING:
    import numpy as np
else:
    np = lazy_import("numpy")


class IndexingOperations(MatmulOperations):
    """Indexing and gathers.

    An index tensor counts from the end where negative; what is out of range reads 0. An integer
    or a list out of range raises.
    """

    __slots__ = ()

    def __getitem__(self, key: Any) -> Self:
        """Part of the tensor, by integers, slices, None, Ellipsis, integer or bool tensors.

        A part chosen by integers, slices, None and Ellipsis remembers where it comes from:
        assigning to it writes this tensor.

        Raises:
            IndexOutOfRangeError: An integer or a list out of range, or too many indices.
            DTypeError: An index tensor that is neither integer nor bool.
        """
        normal = self._normal_key(key)
        value = take(self.uop, normal)
        if normal.is_basic:
            result = self._of(value)
            result._selection = Selection(self, normal)
            return result
        return self._of(gathered(value, normal))

    def _normal_key(self, key: Any) -> Key:
        items = key if isinstance(key, tuple) else (key,)
        plain: list[Any] = []
        for item in items:
            if not (item is None or item is Ellipsis or isinstance(item, slice)
                    or (isinstance(item, int) and not isinstance(item, bool))):
                plain += self._index_items(item, sum(i is not None for i in plain))
            else:
                plain.append(item)
        if any(isinstance(i, Gather) for i in plain):
            # As in numpy, integers beside index tensors are index tensors without axes.
            plain = [Gather(UOp.const(i)) if isinstance(i, int) else i for i in plain]
        normal = normal_key(plain, self.shape)
        for axis, entry in enumerate(normal.axes):
            if isinstance(entry, Gather) and entry.index.op is Op.CONST:
                _check_range(entry.index.value, entry.index.value, self.shape, axis)
        return normal

    def _index_items(self, item: Any, axis: int) -> list[Any]:
        """An item that is an array of indices or a mask, as Gathers."""
        if hasattr(item, "__index__") and not isinstance(item, (bool, TensorBase)) \
                and not hasattr(item, "shape"):
            return [item]
        if isinstance(item, bool):
            raise DTypeError("a Python bool is no index", cure="use a bool tensor, or an integer")
        if not isinstance(item, TensorBase):
            array = np.asarray(item)
            if array.dtype.kind not in "biuf":
                raise DTypeError(f"{item!r} is no index", cure="use integers, slices, None, "
                                 "Ellipsis, or integer or bool tensors")
            if array.size == 0 and array.dtype.kind == "f":
                array = array.astype("int32")
            if array.dtype.kind in "iu" and array.size and axis < self.ndim:
                self._check_array(array, axis)
            item = type(self)(array, device=self._place())
        if item.dtype is dtypes.bool:
            return [Gather(index.cast(dtypes.weak_int)) for index in self._places(item, axis)]
        if item.dtype.is_float:
            raise DTypeError(f"an index is an integer or a bool tensor, not {item.dtype.name}",
                             cure="cast it: index.cast(dtypes.int32)")
        return [Gather(item.uop.cast(dtypes.weak_int))]

    def _check_array(self, array: Any, axis: int) -> None:
        extent = self.shape[axis]
        if isinstance(extent, int):
            _check_range(int(array.min()), int(array.max()), self.shape, axis)

    def _places(self, mask: TensorBase, axis: int) -> list[UOp]:
        """Where a mask holds, one index per axis of it. Computes the mask."""
        if mask.shape != self.shape[axis:axis + mask.ndim]:
            raise IndexOutOfRangeError(f"a mask of shape {show(mask.shape)} does not fit axis "
                                       f"{axis} of a tensor of shape {show(self.shape)}")
        found = np.nonzero(mask.numpy())  # type: ignore[attr-defined]
        return [type(self)(f.astype("int32"), device=self._place()).uop for f in found]

    def nonzero(self) -> Self:
        """Indices of the nonzero elements, one per row. Computes the tensor."""
        places = self._places(self.cast(dtypes.bool), 0)
        return self._of(UOp.stack(*(p.cast(default_int()) for p in places))).transpose(0, 1)

    def masked_select(self, mask: Self) -> Self:
        """Elements where a mask holds, in order. Computes the mask."""
        return self[mask.expand(self.shape)]

    def gather(self, dim: int, index: Self) -> Self:
        """result[..., i, ...] = self[..., index[..., i, ...], ...] along an axis.

        The index may be smaller than this tensor along other axes.

        Raises:
            ShapeError: The index has other axes, or is larger along one.
        """
        at = self._check_along("gather", dim, index)
        part = self.shrink([None if a == at else (0, index.shape[a]) for a in range(self.ndim)])
        return self._of(gathered_along(part.uop, at, index.uop))

    def _check_along(self, name: str, dim: int, index: Self) -> int:
        at = as_axis(dim, self.shape)
        if index.dtype.is_float or index.dtype is dtypes.bool:
            raise DTypeError(f"{name}: the index is {index.dtype.name}, not an integer")
        fits = len(index.shape) == self.ndim and all(
            a == at or i <= n
            for a, (i, n) in enumerate(zip(index.shape, self.shape, strict=True)))
        if not fits:
            raise ShapeError(f"{name} along axis {dim} of {show(self.shape)}: an index of shape "
                             f"{show(index.shape)} does not fit")
        return at

    def one_hot(self, num_classes: int, dtype: Any = None) -> Self:
        """Rows of zeros with a 1 at the place that each element names; none where out of range."""
        if self.dtype.is_float or self.dtype is dtypes.bool:
            raise DTypeError(f"one_hot of {self.dtype.name}, not an integer")
        wide = self.uop.cast(dtypes.int64) if self.dtype.bits > 32 else self.uop.cast(dtypes.int32)
        classes = broadcast(iota(num_classes, wide.dtype), (*self.shape, num_classes))
        own = broadcast(wide.reshape((*self.shape, 1)), classes.shape)
        return self._of(own.eq(classes).cast(default_int() if dtype is None else as_dtype(dtype)))


def _check_range(low: int, high: int, shape: tuple[int, ...], axis: int) -> None:
    extent = shape[axis]
    if low < -extent or high >= extent:
        raise IndexOutOfRangeError(f"index {low if low < -extent else high} leaves axis {axis} of "
                                   f"a tensor of shape {show(shape)}")


def gathered(value: UOp, key: Key) -> UOp:
    """Apply the Gathers of a key to a value whose Lines were taken.

    As in numpy the axes of the indices stand where the first one stood if all stand side by side,
    else in front.
    """
    places = [k for k, axis in enumerate(key.order)
              if axis is not None and isinstance(key.axes[axis], Gather)]
    indices = [entry.index for entry in key.axes if isinstance(entry, Gather)]
    rank = len(broadcast_shape(indices))
    order = [*places, *(a for a in range(len(value.shape)) if a not in places)]
    result = zeros_out_of_range(value.permute(order).index(*indices), indices,
                                value.permute(order).shape)
    if places != list(range(places[0], places[0] + len(places))):
        return result
    before = places[0]
    total = len(result.shape)
    return result.permute([*range(rank, rank + before), *range(rank), *range(rank + before, total)])


def broadcast_shape(indices: list[UOp]) -> tuple[int, ...]:
    """Shape that indices broadcast to."""
    shape: tuple[int, ...] = ()
    for index in indices:
        shape = broadcast_shapes(shape, index.shape)
    return shape
