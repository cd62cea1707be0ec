"""Executes single nodes of kernels and programs; in which order is for its two drivers to say."""

from __future__ import annotations

from collections.abc import Container, Sequence
from math import prod
from typing import Any, Final, TypeAlias

import numpy as np

from core.foundation.errors import UnsupportedError, VerificationError
from core.ir import AddressSpace, AxisType, LoopRange, Op, UOp, map_graph, maximum_of, toposort
from core.reference.formats import Array, held
from core.reference.movement import dims_of, gather
from core.reference.nodes import Context, node_value
from core.reference.storage import Place, Private, Storage, global_storage, private_storage
from core.reference.values import Axes, AxisOrder, Value

#: What a node stands for: a value, storage, a place in it, or None for an effect that happened.
Result: TypeAlias = "Value | Storage | Private | Place | None"
_ORDER_ONLY: Final = frozenset({
    Op.END, Op.GROUP, Op.SINK, Op.LINEAR, Op.BARRIER, Op.IF, Op.ENDIF,
})
_WITHIN_GROUP: Final = (AxisType.LOCAL, AxisType.WARP)
# Launch indices become ranges with numbers from here on.
_FIRST_LAUNCH_RANGE: Final = 1 << 20


def launch_ranges(root: UOp) -> UOp:
    """SPECIALs as RANGEs that nothing closes: all positions of a launch run at once."""
    specials = [n for n in toposort(root) if n.op is Op.SPECIAL]
    if not specials:
        return root
    mapping = {}
    for number, special in enumerate(specials, _FIRST_LAUNCH_RANGE):
        local = str(special.arg).startswith("l")
        axis_type = AxisType.LOCAL if local else AxisType.GLOBAL
        mapping[special] = UOp(Op.RANGE, special.src, LoopRange(number, axis_type))
    return map_graph(root, lambda node, original: mapping.get(original, node))


def parameters(root: UOp) -> tuple[list[UOp], list[UOp]]:
    """(buffers, scalars): the PARAMs of a kernel in order of slots."""
    params = sorted((n for n in toposort(root) if n.op is Op.PARAM), key=lambda n: n.arg.slot)
    scalars = [p for p in params if p.arg.space is AddressSpace.ALU]
    return [p for p in params if p.arg.space is not AddressSpace.ALU], scalars


class Machine:
    """State of one run of a kernel.

    Attributes:
        context: Order and lengths of the loops that run at once.
        memo: What has been computed and not been forgotten.
        conditions: Conditions of the IFs that are open.
    """

    def __init__(
        self, root: UOp, buffers: Sequence[Array], scalars: Sequence[Any], order: AxisOrder
    ) -> None:
        self.context = Context(order)
        self.memo: dict[UOp, Result] = {}
        self.conditions: list[Value] = []
        self.private: dict[UOp, Storage] = {}
        storage, numbers = parameters(root)
        if len(storage) != len(buffers) or len(numbers) != len(scalars):
            raise VerificationError(
                f"the kernel takes {len(storage)} buffers and {len(numbers)} scalars; "
                f"{len(buffers)} and {len(scalars)} are given")
        self.given: dict[UOp, Any] = dict(zip(storage, buffers, strict=True))
        for param, number in zip(numbers, scalars, strict=True):
            self.given[param] = Value(held(number, param.dtype))
        self.launch = self._unclosed(root)

    @staticmethod
    def _unclosed(root: UOp) -> Axes:
        order = toposort(root)
        closed = {r for n in order if n.op in (Op.END, Op.REDUCE, Op.STAGE) for r in n.src[1:]}
        return tuple(n for n in order if n.op is Op.RANGE and n not in closed)

    def lanes_of(self, buffer: UOp) -> Axes:
        """Loops at each of whose positions private storage has a copy of its own.

        Work items of a group share LOCAL storage.
        """
        loops = self.loops_around(buffer)
        if buffer.arg.space is AddressSpace.REG:
            return loops
        return tuple(r for r in loops if r.arg.axis_type not in _WITHIN_GROUP)

    def loops_around(self, buffer: UOp) -> Axes:
        """Loops at each of whose positions private storage starts anew."""
        raise NotImplementedError

    def value(self, node: UOp) -> Value:
        """The value of a node that has been computed."""
        found = self.memo[node]
        if isinstance(found, Value):
            return found
        raise VerificationError(f"{node!r} is no value, but is used as one")

    def execute(self, node: UOp) -> None:
        """Compute a node whose sources are in `memo`, or let its effect happen."""
        self.memo[node] = self._result(node)

    def _result(self, node: UOp) -> Result:
        op, src = node.op, node.src
        if op in (Op.PARAM, Op.BUFFER):
            return self._storage(node)
        if op is Op.AFTER:
            return self.memo[src[0]]
        if op in _ORDER_ONLY:
            return None
        if op in (Op.INDEX, Op.SHRINK, Op.BITCAST):
            base = self.memo[src[0]]
            if isinstance(base, (Storage, Private)):
                return self._place(node, base)
            if op is Op.INDEX:
                name = f"the value of a {src[0].op.name}"
                return gather(self.value(src[0]), [self.value(s) for s in src[1:]],
                              self.context.order, strict=name)
        if op is Op.LOAD:
            return self._load(node)
        if op in (Op.STORE, Op.ATOMIC_ADD):
            return self._store(node)
        return node_value(node, [self.value(s) for s in src], self.context)

    def _storage(self, node: UOp) -> Result:
        if node.op is Op.PARAM:
            if node.arg.space is AddressSpace.ALU:
                number: Value = self.given[node]
                return number
            return global_storage(node, self.given[node], self._size(node))
        if node.arg.space not in (AddressSpace.REG, AddressSpace.LOCAL):
            raise UnsupportedError("a kernel reads storage through its PARAMs, not a BUFFER")
        return Private(node)

    def _stored(self, found: Storage | Private) -> Storage:
        """Storage to access; that of a BUFFER is made where it is first needed."""
        if isinstance(found, Storage):
            return found
        node = found.node
        if node not in self.private:
            lanes = [r for r in self.lanes_of(node) if r in self.context.lengths]
            axes = self.context.order.union([(r,) for r in lanes] or [()])
            self.private[node] = private_storage(
                node, self._size(node), axes, self.context.lengths)
        return self.private[node]

    def _size(self, node: UOp) -> int:
        return prod(d if isinstance(d, int) else self._dimension(d) for d in node.shape)

    def _dimension(self, dimension: UOp) -> int:
        """A symbolic dimension: what a Variable is now, of anything else the most it can be."""
        number = self.given.get(dimension)
        return int(maximum_of(dimension)) if number is None else int(number.array)

    def _place(self, node: UOp, base: Storage | Private) -> Place | Storage:
        if node.op is Op.BITCAST:
            if isinstance(base, Private):
                raise UnsupportedError("private storage is viewed in no other dtype")
            return base.viewed(node.dtype)
        if node.op is Op.INDEX:
            return Place(base, self.value(node.src[1]))
        start, count = self.value(node.src[1]), dims_of(self.value(node.src[2]))[0]
        lanes = start.array.astype(np.int64) + np.arange(count)
        valid = start.valid
        return Place(base, Value(lanes, valid, start.axes))

    def located(self, node: UOp) -> tuple[Storage, Value]:
        """Storage and index of an access; storage without an index is all of it."""
        found = self.memo[node]
        if isinstance(found, (Storage, Private)):
            storage = self._stored(found)
            return storage, Value(np.arange(storage.size))
        if isinstance(found, Place):
            return self._stored(found.storage), found.at
        raise VerificationError(f"{node!r} is no place in storage")

    def _gates(self, sources: Sequence[UOp]) -> list[Value]:
        return [*(self.value(s) for s in sources), *self.conditions]

    def _load(self, node: UOp) -> Value:
        if isinstance(self.memo[node.src[0]], Value):  # a STAGE is read as a value
            found = self.value(node.src[0])
            return Value(found.filled(), None, found.axes)
        storage, index = self.located(node.src[0])
        storage = self.version(node, storage)
        return storage.read(index, self._gates(node.src[1:]), self.context.order)

    def version(self, load: UOp, storage: Storage) -> Storage:
        """The storage that a LOAD sees."""
        return storage

    def _store(self, node: UOp) -> Value | None:
        storage, index = self.located(node.src[0])
        value, gates = self.value(node.src[1]), self._gates(node.src[2:])
        if node.op is Op.ATOMIC_ADD:
            return storage.add(index, value, gates, self.context.order)
        storage.write(index, value, gates, self.context.order)
        return None

    def forget_copies(self, loops: Container[UOp]) -> None:
        """Drop private storage that has copies for loops which start anew."""
        for node in [n for n, s in self.private.items() if any(r in loops for r in s.axes)]:
            del self.private[node]
