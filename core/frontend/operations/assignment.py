"""Assignment: a name stands for a new value; whatever was computed before keeps the old one."""

from __future__ import annotations

from math import prod
from typing import Any, Self

from core.foundation.errors import DTypeError
from core.frontend.base import Selection, TensorBase, assigned_tensors, moved, named_tensors
from core.frontend.broadcasting import broadcast, elementwise, front, inverse
from core.frontend.conversion import working
from core.frontend.operations.indexing import IndexingOperations, broadcast_shape
from core.frontend.scattering import added_along, gathered_along, last_along, last_update
from core.frontend.selection import Gather, Key, Line, put, take
from core.ir import DType, Op, UOp, device_of, dtypes


class AssignmentOperations(IndexingOperations):
    """Assignment, writing into parts, scatter."""

    __slots__ = ()

    def assign(self, value: Any) -> Self:
        """Make this name stand for another value of this shape and dtype.

        A part that was chosen by a basic index writes the tensor it was chosen from. Tensors
        computed before keep the old value.

        Raises:
            ShapeError: The value does not broadcast to this shape.
            DTypeError: It is of a wider kind: a float for an integer tensor.
        """
        given = self._tensor(value, None if isinstance(value, TensorBase) else self.dtype)
        if not _same_kind(given.dtype, self.dtype):
            raise DTypeError(f"cannot assign {given.dtype.name} to a tensor of {self.dtype.name}",
                             cure=f"cast the value: value.cast(dtypes.{self.dtype.name})")
        new = broadcast(self._here(given.uop).cast(self.dtype), self.shape)
        if self.requires_grad and self._selection is None:
            new = UOp(Op.DETACH, (new,))  # a parameter stays a leaf
        self._write(new)
        return self

    def replace(self, value: Any) -> Self:
        """`assign`, of another tensor."""
        return self.assign(value)

    def _here(self, value: UOp) -> UOp:
        """A value on this tensor's device."""
        mine, theirs = device_of(self.uop), device_of(value)
        if isinstance(mine, str) and theirs is not None and mine != theirs:
            return moved(value, mine)
        return value

    def _write(self, value: UOp) -> None:
        """Set the value, and that of the tensors this one is a part of."""
        name: Any = self
        name.uop = value
        while name._selection is not None:
            selection: Selection = name._selection
            root = selection.root
            root.uop = put(name.uop, selection.key, root.uop)
            selection.written = root.uop
            name = root
        named_tensors[id(self)] = self
        named_tensors[id(name)] = assigned_tensors[id(name)] = name

    def __setitem__(self, key: Any, value: Any) -> None:
        """Replace a part of the tensor; of several values for one place the last one stays.

        Raises:
            ShapeError: The value does not broadcast to the part.
        """
        if isinstance(value, TensorBase) and value._selection is not None:
            selection = value._selection
            if selection.root is self and selection.written is self.uop:
                return  # x[k] += y: the in-place operator wrote already
        mask = self._as_mask(key)
        if mask is not None and not (isinstance(value, TensorBase) and value.ndim):
            chosen = broadcast(mask.uop.reshape(
                (*mask.shape, *(1 for _ in range(self.ndim - mask.ndim)))), self.shape)
            new = self._value_to_put(value)
            self._write(elementwise(Op.WHERE, chosen, new.reshape(()), self.uop))
            return
        normal = self._normal_key(key)
        new = self._value_to_put(value)
        if normal.is_basic:
            self._write(put(new, normal, self.uop))
        else:
            self._write(_put_gathered(new, normal, self.uop))

    def _as_mask(self, key: Any) -> Self | None:
        """The key where it is one mask over the first axes."""
        if isinstance(key, TensorBase) and key.dtype is dtypes.bool \
                and key.shape == self.shape[:key.ndim]:
            return self._tensor(key)
        return None

    def _value_to_put(self, value: Any) -> UOp:
        given = self._tensor(value, self.dtype if isinstance(value, (bool, int)) else None)
        return self._here(given.uop).cast(self.dtype)

    def scatter(self, dim: int, index: Self, src: Any, reduce: str | None = None) -> Self:
        """This tensor with result[..., index[..., i, ...], ...] = src[..., i, ...].

        Of several values for one place the last one stays; with reduce="add" they are added.

        Raises:
            ShapeError: The index does not fit this tensor or `src`.
        """
        at = self._check_along("scatter", dim, index)
        source = self._tensor(src, self.dtype if isinstance(src, (bool, int, float)) else None)
        if source.ndim == 0:
            source = source.expand(index.shape)
        source = source.shrink([(0, n) for n in index.shape]).cast(self.dtype)
        if reduce not in (None, "add"):
            raise ValueError(f"scatter: reduce is None or 'add', not {reduce!r}")
        covered = [None if a == at else (0, index.shape[a]) for a in range(self.ndim)]
        part = self.shrink(covered)
        if reduce == "add":
            wide = working(self.dtype)  # a small float is rounded once
            sums = self._of(added_along(part.shape, at, index.uop, source.cast(wide).uop))
            new = part.cast(wide).add(sums).cast(self.dtype)
        else:
            new = self._of(_replaced(part.uop, at, index.uop, source.uop))
        key = Key(tuple(Line(0, 1, n) for n in part.shape), tuple(range(self.ndim)))
        return self._of(put(new.uop, key, self.uop))

    def masked_fill(self, mask: Any, value: Any) -> Self:
        """`value` where a mask holds."""
        return self._tensor(mask).where(value, self)


def _same_kind(given: DType, own: DType) -> bool:
    """Whether values may be cast silently: to the same kind or a wider one."""
    order = {"bool": 0, "unsigned": 1, "signed": 1, "float": 2}
    return order[given.kind] <= order[own.kind]


def _put_gathered(value: UOp, key: Key, old: UOp) -> UOp:
    """`old` with the places that integer tensors name replaced; the last value stays."""
    lines = tuple(a if isinstance(a, Line) else Line(0, 1, n)
                  for a, n in zip(key.axes, old.shape, strict=True))
    box = Key(lines, tuple(range(len(old.shape))))
    places = [a for a, entry in enumerate(key.axes) if isinstance(entry, Gather)]
    indices = [entry.index for entry in key.axes if isinstance(entry, Gather)]
    part = take(old, box)
    value = _updates(value, key, part, places, indices)
    if value.shape[0] == 0:
        return old
    moved_part = front(part, places)
    shape, rest = moved_part.shape, moved_part.shape[len(places):]
    number = last_update(shape[:len(places)], indices)
    found = value.index((number < 0).where(0, number).cast(dtypes.weak_int))
    wide = broadcast(number.reshape((*number.shape, *(1 for _ in rest))), shape)
    order = [*places, *(a for a in range(len(shape)) if a not in places)]
    new = (wide < 0).where(moved_part, found).permute(inverse(order))
    return put(new, box, old)


def _updates(
    value: UOp, key: Key, part: UOp, places: list[int], indices: list[UOp]
) -> UOp:
    """The values to put as (update, other axes): in the order in which the indices name places."""
    gathers = [k for k, a in enumerate(key.order) if a is not None and a in places]
    common = broadcast_shape(indices)
    rest = [a for a in key.order if a is None or a not in places]
    sizes = [1 if a is None else part.shape[a] for a in rest]
    for a in rest:
        line = None if a is None else key.axes[a]
        assert line is None or (isinstance(line, Line) and line.keeps)
    together = gathers == list(range(gathers[0], gathers[0] + len(gathers)))
    before = gathers[0] if together else 0
    wide = broadcast(value, (*sizes[:before], *common, *sizes[before:]))
    rank, total = len(common), len(wide.shape)
    ordered = wide.permute(
        [*range(before, before + rank), *range(before), *range(before + rank, total)])
    kept = [n for n, a in zip(sizes, rest, strict=True) if a is not None]
    return ordered.reshape((prod(common), *kept))


def _replaced(part: UOp, axis: int, index: UOp, source: UOp) -> UOp:
    """Scatter along an axis; the last update stays."""
    number = last_along(part.shape, axis, index)
    found = gathered_along(source, axis, (number < 0).where(0, number))
    return (number < 0).where(part, found)
