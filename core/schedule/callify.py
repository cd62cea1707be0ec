"""callify: the values to realise become one stateless CALL.

    x * y, realised to a fresh BUFFER
    → CALL(SINK(STORE(PARAM 0, MUL(PARAM 1, PARAM 2))), BUFFER 7, BUFFER 3, BUFFER 4)

The interned body is the key of the schedule cache. To keep bodies equal from step to step,
contiguous slices of storage are arguments (a batch at another offset is the same program), and so
are rank 0 buffers (learning rates, the random counter) and Variables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

from core.ir import (
    AddressSpace,
    Op,
    ParamSlot,
    UOp,
    device_of,
    dimensions,
    largest_dimension,
    map_graph,
)
from core.schedule.prepare_graph import inline_call, is_graph_call


class Callified(NamedTuple):
    """CALLs in order, and for each value the storage that will hold it.

    Attributes:
        calls: CALL(SINK(STORE(PARAM k, value)...), arguments...); one, or several where functions
            are units of their own, or none if all is realised.
        outputs: BUFFER-rooted UOp of each value, in order, of the value's shape.
        stored: The values that the last call stores, and the fresh BUFFER of each.
        between: Fresh BUFFERs that one call stores and a later one reads.
    """

    calls: tuple[UOp, ...]
    outputs: tuple[UOp, ...]
    stored: tuple[tuple[UOp, UOp], ...]
    between: tuple[UOp, ...] = ()

    @property
    def call(self) -> UOp | None:
        """The CALL that stores the values, or None if all is realised."""
        return self.calls[-1] if self.calls else None


def callify(
    values: Sequence[UOp], default_device: str, realized: Callable[[UOp], UOp | None]
) -> Callified:
    """Make the CALLs that realise some values.

    Args:
        values: What to realise; a value may come twice.
        default_device: Device of values that live on none (constants, iotas).
        realized: Storage of a node that was realised before, of the node's shape, or None.
    """
    walk = _Walk(default_device, realized)
    walk.run(values)
    replaced = walk.result
    fresh: dict[UOp, UOp] = {}
    outputs = []
    for value in values:
        node = replaced[value]
        if is_storage_view(node):
            outputs.append(node)
            continue
        if node not in fresh:
            fresh[node] = walk.new_buffer(node)
        outputs.append(_as_shaped(fresh[node], node))
    stored = tuple((v, o) for v, o in zip(values, outputs, strict=True) if replaced[v] in fresh)
    calls = [*walk.calls, _parametrise(fresh)] if fresh else walk.calls
    return Callified(tuple(calls), tuple(outputs), stored, tuple(walk.between))


def _as_shaped(buffer: UOp, value: UOp) -> UOp:
    """A buffer, of the largest size, as its value's shape."""
    if buffer.shape == value.shape:
        return buffer
    return buffer.shrink(tuple(0 for _ in value.shape), value.shape)


class _Walk:
    """Each node below some values, realised parts replaced by their storage and not entered.

    A CALL of a graph becomes its body. The body of one that is a unit is stored by a CALL of its
    own, after another one for those of its arguments that are not storage.
    """

    def __init__(self, default_device: str, realized: Callable[[UOp], UOp | None]) -> None:
        self._default_device, self._realized = default_device, realized
        self._bodies: dict[UOp, UOp] = {}
        self._stored: dict[UOp, UOp] = {}
        self.result: dict[UOp, UOp] = {}
        self.calls: list[UOp] = []
        self.between: list[UOp] = []

    def new_buffer(self, value: UOp) -> UOp:
        """Storage for a value, at its largest."""
        device = device_of(value) or self._default_device
        return UOp.new_buffer(device, value.dtype, tuple(map(largest_dimension, value.shape)))

    def run(self, values: Sequence[UOp]) -> None:
        """Fill `result`."""
        result, stack = self.result, list(reversed(values))
        while stack:
            node = stack[-1]
            if node in result:
                stack.pop()
                continue
            storage = (None if node.op in (Op.CONST, Op.BUFFER, Op.STACK)
                       else self._realized(node))
            if storage is not None:
                result[node] = storage
                continue
            is_call = is_graph_call(node)
            sources = node.src[1:] if is_call else node.src
            missing = [s for s in sources if s not in result]
            if missing:
                stack.extend(reversed(missing))
            elif is_call:
                self._enter(node, stack)
            else:
                src = tuple([result[s] for s in sources])
                built = node if src == node.src else node.replace(src=src)
                is_known = built.op is Op.GETTUPLE and built.src[0].op is Op.TUPLE
                result[node] = built.src[0].src[built.arg] if is_known else built

    def _enter(self, call: UOp, stack: list[UOp]) -> None:
        """The body of a CALL, with its arguments; at the second look its result."""
        is_unit = call.arg is not None and call.arg.precompile
        body = self._bodies.get(call)
        if body is not None and body in self.result:
            found = self.result[body]
            self.result[call] = self._as_unit(found) if is_unit else found
            return
        arguments = [self.result[s] for s in call.src[1:]]
        if is_unit:
            arguments = self._store(arguments)
        body = self._bodies[call] = inline_call(call.replace(src=(call.src[0], *arguments)))
        stack.append(body)

    def _as_unit(self, body: UOp) -> UOp:
        values = body.src if body.op is Op.TUPLE else (body,)
        stored = self._store(values)
        return UOp(Op.TUPLE, tuple(stored)) if body.op is Op.TUPLE else stored[0]

    def _store(self, values: Sequence[UOp]) -> list[UOp]:
        """The values in storage, by a CALL for those that are not."""
        fresh = {v: self.new_buffer(v) for v in values
                 if v not in self._stored and not _is_argument(v)}
        if fresh:
            self.calls.append(_parametrise(fresh))
            self.between += fresh.values()
            self._stored.update({v: _as_shaped(b, v) for v, b in fresh.items()})
        return [self._stored.get(v, v) for v in values]


def _is_argument(node: UOp) -> bool:
    """Whether a value may be an argument as it is: storage, a piece of it, a number."""
    return (node.op in (Op.CONST, Op.PARAM) or is_storage_view(node)
            or contiguous_slice(node) is not None)


def is_storage_view(node: UOp) -> bool:
    """Whether a value is storage, reshaped at most."""
    while node.op is Op.RESHAPE:
        node = node.src[0]
    return node.op is Op.BUFFER


def contiguous_slice(node: UOp) -> tuple[UOp, int, int] | None:
    """(BUFFER, element offset, elements) of SHRINKs and INDEXes that are one piece of it."""
    if node.op not in (Op.SHRINK, Op.INDEX):
        return None
    position, count = 0, prod(node.shape) if all(isinstance(n, int) for n in node.shape) else -1
    inner = node
    while inner.op is not Op.BUFFER:
        if inner.op is not Op.RESHAPE:
            start = _start_of_piece(inner)
            if start is None or count < 0:
                return None
            position += start
        inner = inner.src[0]
    return inner, position, count


def _start_of_piece(node: UOp) -> int | None:
    """Element of its source at which a SHRINK or INDEX starts; None unless it is contiguous."""
    if node.op is Op.INDEX and all(i.op is Op.CONST for i in node.src[1:]):
        offset = tuple(i.value for i in node.src[1:])
        box: tuple[Any, ...] = tuple(1 for _ in offset)
    elif node.op is Op.SHRINK:
        offset, box = dimensions(node.src[1]), dimensions(node.src[2])
    else:
        return None
    outer = node.src[0].shape
    if not all(isinstance(v, int) for v in (*offset, *box, *outer)):
        return None
    offset = (*offset, *(0 for _ in outer[len(offset):]))
    box = (*box, *outer[len(box):])
    if not all(0 <= at <= at + n <= extent
               for at, n, extent in zip(offset, box, outer, strict=True)):
        return None
    inner = next((k for k, n in enumerate(box) if n != 1), len(box))
    if any(n != extent for n, extent in zip(box[inner + 1:], outer[inner + 1:], strict=True)):
        return None
    position = 0
    for at, extent in zip(offset, outer, strict=True):
        position = position * extent + at
    return position


def flat_slice(piece: tuple[UOp, int, int]) -> UOp:
    """The piece that `contiguous_slice` found, as an argument: a SHRINK of rank 1."""
    buffer, offset, count = piece
    return buffer.reshape((prod(buffer.shape),)).shrink((offset,), (count,))


class _Parameters:
    """The arguments found so far, each a PARAM of the body."""

    def __init__(self, outputs: Sequence[UOp]) -> None:
        self.arguments: list[UOp] = []
        self.found: dict[Any, UOp] = {}
        for buffer in outputs:
            self.add(buffer, buffer.dtype, buffer.shape, device_of(buffer))

    def add(self, argument: UOp, dtype: Any, shape: tuple[Any, ...], device: Any) -> UOp:
        """PARAM for an argument; the same argument in the same shape is the same PARAM."""
        key = (argument, shape)
        if key not in self.found:
            self.found[key] = UOp.param(len(self.arguments), dtype, shape, device)
            self.arguments.append(argument)
        return self.found[key]

    def visit(self, node: UOp, original: UOp) -> UOp:
        """Replace storage, slices of storage and Variables."""
        piece = contiguous_slice(original)
        if piece is not None:
            return self.add(flat_slice(piece), node.dtype, node.shape, device_of(piece[0]))
        if node.op is Op.BUFFER:
            return self.add(node, node.dtype, node.shape, device_of(node))
        if node.op is Op.PARAM and node.arg.space is AddressSpace.ALU:
            if node not in self.found:
                slot: ParamSlot = node.arg._replace(slot=len(self.arguments))
                self.found[node] = node.replace(arg=slot)
                self.arguments.append(node)
            return self.found[node]
        return node


def _parametrise(fresh: dict[UOp, UOp]) -> UOp:
    """The CALL that stores each value of `fresh` to its buffer."""
    parameters = _Parameters(list(fresh.values()))
    done: dict[UOp, UOp] = {}
    stores = []
    for slot, (value, buffer) in enumerate(fresh.items()):
        body = map_graph(value, parameters.visit, done)
        place = parameters.add(buffer, buffer.dtype, buffer.shape, device_of(buffer))
        assert place.arg.slot == slot
        stores.append(place.store(body))
    used = _used_slots(UOp.sink(*stores))
    return _renumbered(UOp.sink(*stores), parameters.arguments, used)


def _used_slots(sink: UOp) -> list[int]:
    seen: set[UOp] = set()
    slots: dict[int, None] = {}
    pending = [sink]
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.op is Op.PARAM:
            slots[node.arg.slot] = None
        pending.extend(node.src)
    return sorted(slots)


def _renumbered(sink: UOp, arguments: Sequence[UOp], used: Sequence[int]) -> UOp:
    """The CALL without arguments that no PARAM names (the storage below a slice)."""
    numbers = {slot: k for k, slot in enumerate(used)}

    def visit(node: UOp, original: UOp) -> UOp:
        if node.op is Op.PARAM:
            return node.replace(arg=node.arg._replace(slot=numbers[node.arg.slot]))
        return node

    return map_graph(sink, visit).call(*(arguments[slot] for slot in used))
