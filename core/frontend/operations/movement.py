"""Operations that move elements and change none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from core.foundation.errors import ShapeError
from core.frontend.base import check_devices
from core.frontend.broadcasting import (
    aligned,
    along,
    as_axes,
    as_axis,
    as_reshape,
    as_shape,
    as_size,
    back_from_front,
    broadcast,
    elementwise,
    front,
    show,
)
from core.frontend.conversion import common, number
from core.frontend.iota import box_mask, iota, tabulate
from core.frontend.operations.inverse_functions import InverseFunctionOperations
from core.ir import Op, UOp, dtypes


class MovementOperations(InverseFunctionOperations):
    """Reshaping, reordering, cutting and joining."""

    __slots__ = ()

    def reshape(self, *shape: Any) -> Self:
        """The same elements in another shape; one size may be -1.

        Raises:
            ShapeError: The numbers of elements differ.
        """
        return self._of(self.uop.reshape(as_reshape(shape, self.shape)))

    view = reshape

    def permute(self, *order: Any) -> Self:
        """Axis k of the result is axis order[k].

        Raises:
            ShapeError: `order` does not name each axis once.
        """
        given = _unpacked(order)
        axes = tuple(as_axis(a, self.shape) for a in given)
        if sorted(axes) != list(range(self.ndim)):
            raise ShapeError(f"{given} does not name each axis of shape {show(self.shape)} once")
        return self._of(self.uop.permute(axes))

    def transpose(self, dim0: int = 1, dim1: int = 0) -> Self:
        """Two axes exchanged."""
        if self.ndim < 2:
            as_axis(min(dim0, dim1), self.shape)
            return self._renamed()
        order = list(range(self.ndim))
        a, b = as_axis(dim0, self.shape), as_axis(dim1, self.shape)
        order[a], order[b] = order[b], order[a]
        return self._of(self.uop.permute(order))

    @property
    def T(self) -> Self:  # noqa: N802 - numpy's name
        """The axes in reverse order."""
        return self._of(self.uop.permute(range(self.ndim)[::-1]))

    def flip(self, axis: Any = None, *more: int) -> Self:
        """Elements in reverse order along some axes; along all if none is given."""
        axes = as_axes((axis, *more) if more else axis, self.shape)
        return self._of(self.uop.flip([a in axes for a in range(self.ndim)]))

    def expand(self, *shape: Any) -> Self:
        """Repeat along new axes and axes of extent 1; -1 keeps an extent.

        Raises:
            ShapeError: The shapes do not broadcast.
        """
        given = _unpacked(shape)
        lead = len(given) - self.ndim
        sizes = [self.shape[k - lead] if s == -1 and k >= lead else s
                 for k, s in enumerate(given)]
        return self._of(broadcast(self.uop, as_shape(sizes)))

    def shrink(self, bounds: Sequence[tuple[int, int] | None]) -> Self:
        """The part [start, stop) of each axis; None keeps an axis.

        Raises:
            ShapeError: A part leaves the tensor.
        """
        pairs = [(0, n) if p is None else tuple(p) for p, n in
                 zip(bounds, self.shape, strict=True)]
        for (start, stop), extent in zip(pairs, self.shape, strict=True):
            if not 0 <= start <= stop <= extent:
                raise ShapeError(f"part {start}:{stop} leaves an axis of extent {extent}")
        return self._of(self.uop.shrink([a for a, _ in pairs], [b - a for a, b in pairs]))

    def pad(self, padding: Any, mode: str = "constant", value: Any = 0) -> Self:
        """Add elements round the edges, or remove them where an amount is negative.

        Args:
            padding: Per axis (before, after) or None; or flat as in torch: (before, after) of the
                last axis, then of the one before it...
            mode: "constant", "reflect", "replicate" or "circular".
            value: What "constant" fills with.

        Raises:
            ShapeError: Amounts that do not fit the shape.
        """
        pairs = as_padding(padding, self.shape)
        if mode != "constant":
            return self._pad_from_itself(pairs, mode)
        uop = self.uop
        dtype = uop.dtype if not isinstance(value, float) else common(uop.dtype, dtypes.weak_float)
        return self._of(padded(uop.cast(dtype), pairs, number(value, dtype)))

    def _pad_from_itself(self, pairs: Sequence[tuple[int, int]], mode: str) -> Self:
        """Modes whose new elements are old ones: an index table per axis."""
        if mode not in _SOURCE_OF_PAD:
            known = ", ".join(map(repr, ("constant", *_SOURCE_OF_PAD)))
            raise ValueError(f"pad mode is one of {known}, not {mode!r}")
        cut = self._of(padded(self.uop, [(min(a, 0), min(b, 0)) for a, b in pairs], None))
        result = cut.uop
        for axis, amounts in enumerate(pairs):
            before, after = max(amounts[0], 0), max(amounts[1], 0)
            extent = cut.shape[axis]
            if not before and not after:
                continue
            limit = {"reflect": extent - 1, "circular": extent}.get(mode)
            if extent == 0 or (limit is not None and max(before, after) > limit):
                raise ShapeError(f"{mode} padding of {max(before, after)} is too large for an axis "
                                 f"of extent {extent}")
            source = _SOURCE_OF_PAD[mode]
            table = tabulate(
                lambda r, b=before, n=extent, s=source: s(r - b, n), before + extent + after)
            result = back_from_front(front(result, [axis]).index(table), axis)
        return self._of(result)

    def squeeze(self, axis: Any = None) -> Self:
        """Drop axes of extent 1: all, or the given ones where their extent is 1."""
        axes = as_axes(axis, self.shape)
        sizes = [s for a, s in enumerate(self.shape) if not (a in axes and s == 1)]
        return self._of(self.uop.reshape(sizes))

    def unsqueeze(self, axis: int) -> Self:
        """A new axis of extent 1 at a position."""
        at = as_axis(axis, self.shape, extra=1)
        return self._of(self.uop.reshape([*self.shape[:at], 1, *self.shape[at:]]))

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Self:
        """Axes from `start_dim` to `end_dim` as one."""
        first, last = as_axis(start_dim, self.shape), as_axis(end_dim, self.shape)
        if self.ndim == 0:
            return self.reshape(1)
        count = 1
        for extent in self.shape[first:last + 1]:
            count = count * extent
        return self._of(self.uop.reshape([*self.shape[:first], count, *self.shape[last + 1:]]))

    def unflatten(self, axis: int, sizes: Sequence[int]) -> Self:
        """One axis as several; one size may be -1."""
        at = as_axis(axis, self.shape)
        inner = as_reshape(tuple(sizes), (self.shape[at],))
        return self._of(self.uop.reshape([*self.shape[:at], *inner, *self.shape[at + 1:]]))

    def repeat(self, *repeats: Any) -> Self:
        """The tensor repeated along each axis, as numpy's tile."""
        counts = as_shape(repeats)
        if len(counts) < self.ndim:
            raise ShapeError(f"repeat needs a count per axis of {show(self.shape)}, got {counts}")
        shape = (1,) * (len(counts) - self.ndim) + self.shape
        wide = self.uop.reshape([s for extent in shape for s in (1, extent)])
        wide = broadcast(wide, tuple(
            s for c, extent in zip(counts, shape, strict=True) for s in (c, extent)))
        return self._of(wide.reshape([c * n for c, n in zip(counts, shape, strict=True)]))

    def repeat_interleave(self, repeats: int, axis: int | None = None) -> Self:
        """Each element repeated; along the flattened tensor if no axis is given."""
        source = self.flatten() if axis is None else self
        at = as_axis(axis or 0, source.shape)
        shape = source.shape
        wide = source.uop.reshape([*shape[:at + 1], 1, *shape[at + 1:]])
        wide = broadcast(wide, (*shape[:at + 1], as_size(repeats), *shape[at + 1:]))
        return self._of(wide.reshape([*shape[:at], shape[at] * repeats, *shape[at + 1:]]))

    # -- joining and cutting ----------------------------------------------------------------

    def stack(self, *others: Any, dim: int = 0) -> Self:
        """Tensors of one shape along a new axis; also called as Tensor.stack([a, b])."""
        tensors = MovementOperations._joined(self, others)
        for tensor in tensors[1:]:
            if tensor.shape != tensors[0].shape:
                raise ShapeError(f"stack needs equal shapes, got {show(tensors[0].shape)} and "
                                 f"{show(tensor.shape)}")
        at = as_axis(dim, tensors[0].shape, extra=1)
        return tensors[0]._of(back_from_front(UOp.stack(*(t.uop for t in tensors)), at))

    def cat(self, *others: Any, dim: int = 0) -> Self:
        """Tensors one after the other along an axis; also called as Tensor.cat([a, b]).

        Raises:
            ShapeError: They differ in another axis.
        """
        tensors = MovementOperations._joined(self, others)
        shape = tensors[0].shape
        at = as_axis(dim, shape)
        for tensor in tensors:
            rest = tensor.shape[:at] + tensor.shape[at + 1:]
            if tensor.ndim != len(shape) or not shape or rest != shape[:at] + shape[at + 1:]:
                raise ShapeError(f"cat along axis {dim}: shapes {show(shape)} and "
                                 f"{show(tensor.shape)} do not fit")
        return tensors[0]._of(concatenated([t.uop for t in tensors], at))

    def _joined(self, others: Sequence[Any]) -> list[Self]:
        """Operands of cat and stack in their common dtype."""
        items: list[Any] = [o for other in (self, *others)  # self is a list in Tensor.cat([a, b])
                            for o in (other if isinstance(other, (list, tuple)) else (other,))]
        first: Self = items[0]
        tensors = [first, *(first._tensor(o) for o in items[1:])]
        check_devices(*(t.uop for t in tensors))
        dtype = common(*(t.dtype for t in tensors))
        return [t.cast(dtype) for t in tensors]

    def split(self, sizes: Any, dim: int = 0) -> tuple[Self, ...]:
        """Parts of a given size, the last may be smaller; or parts of given sizes.

        Raises:
            ShapeError: Sizes that do not add up to the extent.
        """
        at = as_axis(dim, self.shape)
        extent = self.shape[at]
        if isinstance(sizes, int):
            if sizes <= 0:
                raise ShapeError(f"split into parts of {sizes} elements")
            sizes = [min(sizes, extent - k) for k in range(0, extent, sizes)] or [0]
        if sum(sizes) != extent:
            raise ShapeError(f"split sizes {list(sizes)} do not add up to {extent}")
        parts, start = [], 0
        for size in sizes:
            whole: list[tuple[int, int] | None] = [None] * self.ndim
            whole[at] = (start, start + size)
            parts.append(self.shrink(whole))
            start += size
        return tuple(parts)

    def chunk(self, chunks: int, dim: int = 0) -> tuple[Self, ...]:
        """At most that many parts of equal size, the last may be smaller."""
        if chunks <= 0:
            raise ShapeError(f"chunk into {chunks} parts")
        extent = self.shape[as_axis(dim, self.shape)]
        if extent == 0:
            return (self,) * chunks
        return self.split(-(-extent // chunks), dim)

    def roll(self, shifts: Any, dims: Any = None) -> Self:
        """Elements moved along axes, those that leave come in at the other end."""
        if dims is None:
            return self.flatten().roll(shifts, 0).reshape(self.shape)
        moves = shifts if isinstance(shifts, (tuple, list)) else (shifts,)
        axes = dims if isinstance(dims, (tuple, list)) else (dims,)
        if len(moves) != len(axes):
            raise ShapeError(f"roll: {len(moves)} shifts for {len(axes)} axes")
        result = self
        for move, axis in zip(moves, axes, strict=True):
            at = as_axis(axis, self.shape)
            extent = self.shape[at]
            start = -move % extent if extent else 0
            if start:
                head, tail = result.split([start, extent - start], at)
                result = tail.cat(head, dim=at)
        return result

    def tril(self, diagonal: int = 0) -> Self:
        """The part on and below a diagonal of the last two axes, zeros above."""
        return self._triangle(lambda r, c: c <= r + diagonal)

    def triu(self, diagonal: int = 0) -> Self:
        """The part on and above a diagonal of the last two axes, zeros below."""
        return self._triangle(lambda r, c: r + diagonal <= c)

    def _triangle(self, keeps: Any) -> Self:
        if self.ndim < 2:
            raise ShapeError(f"a triangle needs two axes, the shape is {show(self.shape)}")
        mask = broadcast(tabulate(keeps, *self.shape[-2:]), self.shape)
        return self._of(elementwise(Op.WHERE, mask, self.uop, self.uop.const_like(0)))

    def diagonal(self) -> Self:
        """The diagonal of a matrix."""
        if self.ndim != 2:
            raise ShapeError(f"diagonal of a tensor of shape {show(self.shape)}, not a matrix")
        place = iota(min(self.shape))
        return self._of(self.uop.index(place, place))


def _unpacked(given: tuple[Any, ...]) -> tuple[Any, ...]:
    """f(2, 3) and f((2, 3)) alike."""
    if len(given) == 1 and isinstance(given[0], (tuple, list)):
        return tuple(given[0])
    return given


def as_padding(padding: Any, shape: tuple[Any, ...]) -> list[tuple[int, int]]:
    """Amounts (before, after) per axis, from either way of writing them.

    Raises:
        ShapeError: They do not fit the shape.
    """
    if isinstance(padding, int):
        padding = (padding,) * (2 * len(shape))
    given = list(padding)
    if given and all(isinstance(p, int) for p in given):
        if len(given) % 2 or len(given) > 2 * len(shape):
            raise ShapeError(f"padding {tuple(given)} does not fit shape {show(shape)}: it needs "
                             "two amounts per axis")
        named = [(given[k], given[k + 1]) for k in range(0, len(given), 2)][::-1]
        pairs = [(0, 0)] * (len(shape) - len(named)) + named
    else:
        if len(given) != len(shape):
            raise ShapeError(f"padding {tuple(given)} does not fit shape {show(shape)}")
        pairs = [(0, 0) if p is None else (int(p[0]), int(p[1])) for p in given]
    for (before, after), extent in zip(pairs, shape, strict=True):
        if min(before, 0) + min(after, 0) + extent < 0:
            raise ShapeError(f"padding ({before}, {after}) removes more than the {extent} elements")
    return pairs


def padded(uop: UOp, pairs: Sequence[tuple[int, int]], fill: UOp | None) -> UOp:
    """A value with edges removed (negative amounts), then added and filled."""
    if any(before < 0 or after < 0 for before, after in pairs):
        starts = [max(-before, 0) for before, _ in pairs]
        sizes = [n - s - max(-after, 0) for n, s, (_, after) in
                 zip(uop.shape, starts, pairs, strict=True)]
        uop = uop.shrink(starts, sizes)
    offsets = [max(before, 0) for before, _ in pairs]
    shape = tuple(o + n + max(after, 0) for o, n, (_, after) in
                  zip(offsets, uop.shape, pairs, strict=True))
    if shape == uop.shape or fill is None:
        return uop
    return placed(uop, offsets, shape, fill)


def placed(uop: UOp, offsets: Sequence[int], shape: tuple[int, ...], otherwise: UOp) -> UOp:
    """A value in a box of a larger shape, and another one (or rank 0) outside of the box.

    Raises:
        ShapeError: The box leaves the shape.
    """
    if uop.shape == shape:
        return uop
    axes = [a for a in range(len(shape)) if uop.shape[a] != shape[a]]
    mask = box_mask(tuple(offsets[a] for a in axes), tuple(uop.shape[a] for a in axes),
                    tuple(shape[a] for a in axes))
    wide = mask.reshape([shape[a] if a in axes else 1 for a in range(len(shape))])
    return elementwise(Op.WHERE, broadcast(wide, shape), uop.pad(offsets, shape),
                       aligned(otherwise, shape))


def concatenated(parts: Sequence[UOp], axis: int) -> UOp:
    """Values one after the other along an axis.

    Equal parts are stacked; unequal ones are each placed at their offset, later ones outside.
    """
    if len(parts) == 1:
        return parts[0]
    first = parts[0].shape
    if all(p.shape == first for p in parts):
        joined = back_from_front(UOp.stack(*parts), axis)
        return joined.reshape([*first[:axis], len(parts) * first[axis], *first[axis + 1:]])
    parts = [p for p in parts if p.shape[axis] != 0] or list(parts[:1])
    total = sum(p.shape[axis] for p in parts)
    shape = (*first[:axis], total, *first[axis + 1:])
    position = broadcast(along(iota(total), axis, len(first)), shape)
    result: UOp | None = None
    end = total
    for part in reversed(parts):
        start = end - part.shape[axis]
        moved = part.pad([start if a == axis else 0 for a in range(len(first))], shape)
        result = moved if result is None else (position < end).where(moved, result)
        end = start
    assert result is not None
    return result


def _reflected(r: UOp, extent: int) -> UOp:
    size = r.maximum(r.const_like(0) - r)
    over = size - (extent - 1)
    return (over > 0).where(UOp.const(extent - 1) - over, size)


_SOURCE_OF_PAD = {
    "reflect": _reflected,
    "replicate": lambda r, extent: (r < 0).where(0, (r < extent).where(r, extent - 1)),
    "circular": lambda r, extent: r % extent,
}
