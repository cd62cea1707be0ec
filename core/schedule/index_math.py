"""What a node asks of its sources: an index tuple pushed down through one op.

A demand is (index, gate): one rank 0 weak int per axis, and a bool under which the index is in
bounds (None: always). Movement ops rewrite the tuple, elementwise ops pass it on. The index is
simplified at once, so that equal demands are the same nodes and dedupe by identity.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from core.ir import (
    ELEMENTWISE,
    AddressSpace,
    CustomText,
    Op,
    UOp,
    bounds,
    dimensions,
    dtypes,
    product,
    same_dimension,
    substitute,
)
from core.simplify import simplify


class Demand(NamedTuple):
    """At which index a value is wanted, and under which gate that index is in bounds."""

    index: tuple[UOp, ...]  # type: ignore[assignment]  # hides tuple.index, which nobody needs
    gate: UOp | None


class Push(NamedTuple):
    """A demand on one source of a node."""

    source: UOp
    demand: Demand


class Placeholders:
    """Names for values that an index depends on before they are lowered.

    A placeholder is CUSTOMI(index..., gate?; "value k"): opaque to the simplifier, open in the
    ranges of its index. `build_kernels` replaces it by the lowered value of tensor k at that index,
    which is in bounds under the gate only.
    """

    def __init__(self) -> None:
        self.numbers: dict[UOp, int] = {}
        self.tensors: list[UOp] = []

    def make(self, tensor: UOp, demand: Demand) -> UOp:
        """The placeholder of a tensor's value at a demand."""
        number = self.numbers.setdefault(tensor, len(self.tensors))
        if number == len(self.tensors):
            self.tensors.append(tensor)
        src = demand.index if demand.gate is None else (*demand.index, demand.gate)
        return UOp(Op.CUSTOMI, src, CustomText(f"value {number}", tensor.dtype))

    def meaning(self, placeholder: UOp) -> Push:
        """The tensor whose value a placeholder stands for, and where it is wanted."""
        tensor = self.tensors[int(placeholder.arg.text.removeprefix("value "))]
        rank, src = len(tensor.shape), placeholder.src
        return Push(tensor, Demand(src[:rank], src[rank] if len(src) > rank else None))

    @staticmethod
    def within(root: UOp) -> list[UOp]:
        """Placeholders in an expression, not looking inside their own indices."""
        found, seen, pending = [], set(), [root]
        while pending:
            n = pending.pop()
            if n in seen:
                continue
            seen.add(n)
            if n.op is Op.CUSTOMI:
                found.append(n)
            else:
                pending.extend(n.src)
        return found


_ZERO = UOp.const(0)


def conjunction(*gates: UOp | None) -> UOp | None:
    """AND of gates, None where all are None or true."""
    result: UOp | None = None
    for gate in gates:
        if gate is None or (gate.op is Op.CONST and gate.value is True):
            continue
        result = gate if result is None or result is gate else result & gate
    return None if result is None else simplify(result)


def flatten_index(index: Sequence[UOp], shape: Sequence[Any]) -> UOp:
    """Row-major position of an index in a shape, not simplified."""
    position, stride = _ZERO, 1
    for i, extent in zip(reversed(index), reversed(shape), strict=True):
        position = i * stride + position
        stride = extent * stride
    return position


def flat_position(index: Sequence[UOp], shape: Sequence[Any]) -> UOp:
    """Row-major position of an index in a shape, simplified."""
    return simplify(flatten_index(index, shape))


def _split_position(position: UOp, shape: Sequence[Any]) -> list[UOp]:
    """Index into `shape` of a row-major position."""
    result: list[UOp] = []
    for place, extent in enumerate(reversed(shape)):
        if place == len(shape) - 1:
            result.append(position)
        else:
            result.append(position % extent)
            position = position // extent
    return result[::-1]


def _reshape_index(index: Sequence[UOp], new: Sequence[Any], old: Sequence[Any]) -> list[UOp]:
    """Index into shape `old` of an index into shape `new`, group by group of equal products."""
    result: list[UOp] = []
    i = j = 0
    while i < len(new) or j < len(old):
        if j < len(old) and same_dimension(old[j], 1):
            result.append(_ZERO)
            j += 1
            continue
        if i < len(new) and same_dimension(new[i], 1):
            i += 1
            continue
        i_end, j_end = i + 1, j + 1
        left, right = product(new[i:i_end]), product(old[j:j_end])
        while not same_dimension(left, right):
            if (i_end < len(new) and isinstance(left, int) and isinstance(right, int)
                    and left < right) or j_end >= len(old):
                i_end += 1
                left = product(new[i:i_end])
            else:
                j_end += 1
                right = product(old[j:j_end])
        if i_end - i == 1 and j_end - j == 1:
            result.append(index[i])
        else:
            flat = simplify(flatten_index(index[i:i_end], new[i:i_end]))
            result += [simplify(p) for p in _split_position(flat, old[j:j_end])]
        i, j = i_end, j_end
    return result


def _pad(node: UOp, demand: Demand) -> list[Push]:
    inner, offset = node.src[0].shape, dimensions(node.src[1])
    index, gates = [], [demand.gate]
    for i, n, at, outer in zip(demand.index, inner, offset, node.shape, strict=True):
        if same_dimension(n, outer):
            index.append(i)
            continue
        shifted = simplify(i - at)
        low, high = bounds(shifted)
        if low < 0:
            gates.append(shifted >= 0)
        if not (isinstance(n, int) and high < n):
            gates.append(shifted < n)
        index.append(shifted)
    return [Push(node.src[0], Demand(tuple(index), conjunction(*gates)))]


def _tabulated(node: UOp, index: Sequence[UOp]) -> UOp:
    """Value of STAGE ALU at an index: its ranges replaced."""
    return simplify(substitute(node.src[0], dict(zip(node.src[1:], index, strict=True))))


def broadcast_index(index: Sequence[UOp], shape: Sequence[Any]) -> tuple[UOp, ...]:
    """Index into `shape` of an index into a shape that it broadcasts to."""
    aligned = index[len(index) - len(shape):]
    return tuple(
        _ZERO if same_dimension(n, 1) else i for i, n in zip(aligned, shape, strict=True)
    )


def _index_value(node: UOp, demand: Demand, unknown: Placeholders) -> UOp:
    """An index operand at a demand: functions of RANGEs as they are, data as a placeholder."""
    index, gate = demand
    while node.op in (Op.RESHAPE, Op.PERMUTE, Op.EXPAND, Op.SHRINK, Op.FLIP, Op.CAST):
        if node.op is Op.CAST:
            if node.dtype.kind != "weak_int":
                break
            inner = _index_value(node.src[0], Demand(index, gate), unknown)
            return simplify(inner.cast(dtypes.weak_int))
        (push,) = pushes(node, Demand(index, None), unknown)
        node, index = push.source, push.demand.index
    if node.op is Op.CONST or (node.op is Op.PARAM and node.arg.space is AddressSpace.ALU):
        return node
    if node.op is Op.STAGE and node.arg is AddressSpace.ALU:
        return _tabulated(node, index)
    if node.op in ELEMENTWISE and _is_known(node):
        src = tuple(
            _index_value(s, Demand(index if s.shape else (), gate), unknown) for s in node.src)
        return simplify(UOp(node.op, src, node.arg))
    return unknown.make(node, Demand(index, gate))


def _is_known(node: UOp) -> bool:
    """Whether an index expression is made of tabulated functions and constants only."""
    pending = [node]
    while pending:
        n = pending.pop()
        if n.op in (Op.BUFFER, Op.PARAM, Op.REDUCE, Op.INDEX, Op.STACK, Op.COPY, Op.CONTIGUOUS):
            return False
        if n.op is not Op.STAGE:
            pending.extend(n.src[:1] if n.op in (Op.RESHAPE, Op.EXPAND, Op.SHRINK) else n.src)
    return True


def _gather(node: UOp, demand: Demand, unknown: Placeholders) -> list[Push]:
    """INDEX: index operands become part of the source's index; each is checked or proven."""
    value, operands = node.src[0], node.src[1:]
    rank = len(node.shape) - (len(value.shape) - len(operands))
    front, rest = demand.index[:rank], demand.index[rank:]
    index, gates = [], [demand.gate]
    result: list[Push] = []
    # What the demand itself depends on was asked for by the gather that it comes from.
    asked = {p for i in (*demand.index, *filter(None, (demand.gate,))) for p in unknown.within(i)}
    for operand, extent in zip(operands, value.shape, strict=False):
        at = broadcast_index(front, operand.shape) if operand.shape else ()
        position = _index_value(operand, Demand(at, demand.gate), unknown)
        gate = None
        if position.op is Op.WHERE and position.src[2].is_invalid:
            gate, position = position.src[0], position.src[1]
        for expression in (position,) if gate is None else (position, gate):
            result.extend(unknown.meaning(p) for p in unknown.within(expression)
                          if p not in asked)
        position, in_bounds = _within(position, extent, gate)
        gates += [gate, in_bounds]
        index.append(position)
    gate = conjunction(*gates)
    return [Push(value, Demand((*index, *rest), gate)), *result]


def _within(position: UOp, extent: Any, known: UOp | None) -> tuple[UOp, UOp | None]:
    """A position counted from the end where negative, and the check that it is in bounds.

    A position that comes with a gate of its own is in bounds where the gate holds.
    """
    if known is not None:
        return position, None
    low, high = bounds(position)
    gate = None
    if low < 0:
        if high < 0:
            position = position + extent
        else:
            position = (position < 0).where(position + extent, position)
        position = simplify(position)
    if not isinstance(extent, int) or low < -extent or high >= extent:
        gate = simplify((position >= 0) & (position < extent))
    return position, gate


def _stack(node: UOp, demand: Demand) -> list[Push]:
    first, rest = demand.index[0], demand.index[1:]
    result = []
    for k, source in enumerate(node.src):
        chosen = simplify(first.eq(k))
        if not (chosen.op is Op.CONST and not chosen.value):
            result.append(Push(source, Demand(rest, conjunction(demand.gate, chosen))))
    return result


_TRANSPARENT = frozenset({
    Op.DETACH, Op.CONTIGUOUS_BACKWARD, Op.BITCAST, Op.CONTIGUOUS, Op.COPY,
})


def pushes(node: UOp, demand: Demand, unknown: Placeholders) -> list[Push]:
    """What a demand on a node asks of its sources (REDUCE is handled by its caller)."""
    op, index, gate = node.op, demand.index, demand.gate
    if op in ELEMENTWISE:
        empty = Demand((), None)
        return [Push(s, demand if s.shape else empty) for s in node.src]
    if op in _TRANSPARENT:
        return [Push(node.src[0], demand)]
    if op is Op.PERMUTE:
        inverse = [index[0]] * len(index)
        for a, i in zip(node.arg, index, strict=True):
            inverse[a] = i
        return [Push(node.src[0], Demand(tuple(inverse), gate))]
    if op is Op.EXPAND:
        return [Push(node.src[0], Demand(index[len(node.src[1].src):], gate))]
    if op is Op.RESHAPE:
        new = tuple(_reshape_index(index, node.shape, node.src[0].shape))
        return [Push(node.src[0], Demand(new, gate))]
    if op is Op.FLIP:
        new = tuple(
            simplify(n + (-1) - i) if flag and not isinstance(n, int)
            else simplify(UOp.const(n - 1) - i) if flag else i
            for i, flag, n in zip(index, node.arg, node.shape, strict=True)
        )
        return [Push(node.src[0], Demand(new, gate))]
    if op is Op.SHRINK:
        new = tuple(
            i if same_dimension(at, 0) else simplify(i + at)
            for i, at in zip(index, dimensions(node.src[1]), strict=True)
        )
        return [Push(node.src[0], Demand(new, gate))]
    if op is Op.PAD:
        return _pad(node, demand)
    if op is Op.INDEX:
        return _gather(node, demand, unknown)
    if op is Op.STACK:
        return _stack(node, demand)
    return []
