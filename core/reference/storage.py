"""Storage of a kernel, with the checks of an oracle: bounds, and what was never written."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from core.foundation.errors import IndexOutOfRangeError, ShapeError, VerificationError
from core.ir import AddressSpace, DType, UOp
from core.reference.formats import HELD, STORED, Array, decode, encode
from core.reference.values import Axes, AxisOrder, Value, conjunction, spread

_SPACES: Final = {AddressSpace.REG: "REG", AddressSpace.LOCAL: "LOCAL"}


class Private(NamedTuple):
    """A BUFFER of a kernel; its storage is made when it is first accessed."""

    node: UOp


class Place(NamedTuple):
    """Elements of storage: a scalar index, or one with a dimension of lanes."""

    storage: Storage | Private
    at: Value


class Storage:
    """Flat storage; private storage has a copy for each position of the loops that run at once.

    Attributes:
        name: For messages: "PARAM 0", "REG 3".
        dtype: dtype of the elements.
        elements: One axis per range of `axes`, then the elements as they lie in storage.
        axes: Ranges each of whose positions has a copy of its own.
        written: Which elements hold something; None: all of them.
    """

    def __init__(
        self, name: str, dtype: DType, elements: Array, axes: Axes = (), *, empty: bool = False
    ) -> None:
        self.name, self.dtype, self.elements, self.axes = name, dtype, elements, axes
        self.written = np.zeros(elements.shape, np.bool_) if empty else None

    @property
    def size(self) -> int:
        """Number of elements of one copy."""
        return int(self.elements.shape[-1])

    def _located(
        self, index: Value, gates: list[Value], others: list[Value], order: AxisOrder
    ) -> tuple[Axes, int, Array, Array]:
        """(axes, rank, index, where the access happens), the last two broadcast together."""
        everything = [index, *gates, *others]
        axes = order.union([self.axes, *(v.axes for v in everything)])
        rank = max(v.rank for v in everything)
        lead = tuple(dict(zip(self.axes, self.elements.shape, strict=False)).get(r, 1)
                     for r in axes)
        masks = [spread(v.valid, v.axes, axes, rank) for v in everything if v.valid is not None]
        masks += [spread(g.array, g.axes, axes, rank) for g in gates]
        shapes = [spread(v.array, v.axes, axes, rank).shape for v in everything]
        shape = np.broadcast_shapes(lead + (1,) * rank, *shapes)
        at = np.broadcast_to(spread(index.array, index.axes, axes, rank), shape)
        there = conjunction(masks)
        on = np.broadcast_to(np.asarray(True) if there is None else there, shape)
        self._check(at, on)
        return axes, rank, at, on

    def _check(self, at: Array, on: Array) -> None:
        wrong = on & ((at < 0) | (at >= self.size))
        if wrong.any():
            raise IndexOutOfRangeError(
                f"{self.name} has {self.size} elements; an access is at {int(at[wrong].flat[0])}")

    def _copies(self, axes: Axes, rank: int) -> list[Array]:
        return [spread(np.arange(n), (loop,), axes, rank)
                for loop, n in zip(self.axes, self.elements.shape, strict=False)]

    def read(self, index: Value, gates: list[Value], order: AxisOrder) -> Value:
        """The elements at an index; 0 where the index is not there or a gate is off.

        Raises:
            IndexOutOfRangeError: An access leaves the storage.
            VerificationError: An element was never written.
        """
        axes, rank, at, on = self._located(index, gates, [], order)
        if not on.any():
            return Value(np.zeros(on.shape, HELD[self.dtype]), None, axes)
        place = (*self._copies(axes, rank), np.where(on, at, 0))
        if self.written is not None and (on & ~self.written[place]).any():
            missing = int(at[on & ~self.written[place]].flat[0])
            raise VerificationError(
                f"element {missing} of {self.name} is read before it is written")
        values = decode(np.asarray(self.elements[place]), self.dtype)
        return Value(np.where(on, values, values.dtype.type(0)), None, axes)

    def write(self, index: Value, value: Value, gates: list[Value], order: AxisOrder) -> None:
        """Write where index and value are there and all gates are on; the last one wins.

        Raises:
            IndexOutOfRangeError: An access leaves the storage.
        """
        axes, rank, at, on = self._located(index, gates, [value], order)
        values = np.broadcast_to(spread(value.array, value.axes, axes, rank), on.shape)
        copies = [np.broadcast_to(c, on.shape)[on] for c in self._copies(axes, rank)]
        place = (*copies, at[on])
        self.elements[place] = encode(values[on], self.dtype)
        if self.written is not None:
            self.written[place] = True

    def add(self, index: Value, value: Value, gates: list[Value], order: AxisOrder) -> Value:
        """Add to each place in turn; the value is what was there before."""
        axes, rank, at, on = self._located(index, gates, [value], order)
        values = np.broadcast_to(spread(value.array, value.axes, axes, rank), on.shape)
        old = np.zeros(on.shape, HELD[self.dtype])
        with np.errstate(all="ignore"):
            for place in map(tuple, np.argwhere(on)):
                where = int(at[place])
                old[place] = decode(self.elements[where:where + 1], self.dtype)[0]
                total = np.asarray([old[place] + values[place]], HELD[self.dtype])
                self.elements[where] = encode(total, self.dtype)[0]
        return Value(old, None, axes)

    def viewed(self, dtype: DType) -> Storage:
        """The same bytes as elements of another dtype."""
        return Storage(f"{self.name} as {dtype.name}", dtype, self.elements.view(STORED[dtype]))


def global_storage(param: UOp, buffer: Array, size: int) -> Storage:
    """The storage of a PARAM.

    Args:
        param: The PARAM.
        buffer: A flat array of its dtype as stored, or bytes; may be longer than is needed.
        size: Number of elements of the PARAM.

    Raises:
        ShapeError: The array is too short or not flat.
    """
    wanted = STORED[param.dtype]
    if buffer.ndim != 1:
        raise ShapeError(f"buffer {param.arg.slot} of a kernel must be flat")
    if buffer.dtype != wanted:
        whole = buffer.nbytes // wanted.itemsize * wanted.itemsize
        buffer = buffer.view(np.uint8)[:whole].view(wanted)
    if len(buffer) < size:
        raise ShapeError(f"PARAM {param.arg.slot} has {size} elements, its buffer {len(buffer)}")
    return Storage(f"PARAM {param.arg.slot}", param.dtype, buffer[:size])


def private_storage(buffer: UOp, size: int, axes: Axes, lengths: dict[UOp, int]) -> Storage:
    """Empty storage of a BUFFER in REG or LOCAL space."""
    shape: Any = (*(lengths[r] for r in axes), size)
    name = f"{_SPACES.get(buffer.arg.space, 'BUFFER')} {buffer.arg.slot}"
    return Storage(name, buffer.dtype, np.zeros(shape, STORED[buffer.dtype]), axes, empty=True)
