"""build-kernels: the planned computations, sources first, become kernel SINKs and a LINEAR.

    plan → LINEAR(CALL(SINK(END(STORE(INDEX(PARAM 0, i), value), i)), storage...), ...)

A lowered value comes with a gate under which it is there (Invalid elsewhere); REDUCE skips what
is not there, WHERE may remove the gate, storage is filled with 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from core.ir import (
    ELEMENTWISE,
    AddressSpace,
    KernelInfo,
    LoopRange,
    Op,
    ParamSlot,
    UOp,
    bounds,
    dtypes,
    largest_dimension,
    map_graph,
    neutral_element,
    substitute,
    toposort,
)
from core.schedule.assign_ranges import Computation, Kernel, Plan
from core.schedule.cost import Choice, extent
from core.schedule.index_math import Demand, Placeholders, conjunction, flat_position
from core.simplify import conjuncts, simplify


class Lowered(NamedTuple):
    """A rank 0 value, and the bool under which it is there (None: always)."""

    value: UOp
    valid: UOp | None


def _where_valid(condition: UOp, yes: UOp | None, no: UOp | None) -> UOp | None:
    """Gate of WHERE(condition, yes, no) from those of its branches."""
    if yes is not None and conjuncts(yes).keys() <= conjuncts(condition).keys():
        yes = None
    if yes is None and no is None:
        return None
    true = UOp.const(True, condition.dtype)
    return conjunction(simplify(
        condition.where(true if yes is None else yes, true if no is None else no)
    ))


class KernelBuilder:
    """The forward walk."""

    def __init__(self, plan: Plan, storage: dict[UOp, UOp]) -> None:
        """`storage` names the flat PARAM of each stored node; leaves are their own."""
        self.plan = plan
        self.storage = storage
        self.values: dict[tuple[UOp, Demand, int], Lowered] = {}
        self.outputs: dict[int, list[tuple[UOp, UOp]]] = {n: [] for n in plan.kernels}

    def run(self) -> None:
        """Lower every node at every place where it is computed or read."""
        plan = self.plan
        for node in plan.order:
            choice = plan.choices.get(node)
            if node.op in (Op.PARAM, Op.BUFFER):
                for demand, kernel in plan.demands[node]:
                    self.values[node, demand, kernel.number] = self._read(node, demand)
            for computation in plan.computations.get(node, ()):
                self._compute(node, computation)
            if choice is Choice.BOUNDARY:
                for demand, kernel in plan.demands[node]:
                    self.values[node, demand, kernel.number] = self._read(node, demand)

    def _read(self, node: UOp, demand: Demand) -> Lowered:
        """The value of storage at an index."""
        if node.op is Op.PARAM and node.arg.space is AddressSpace.ALU:
            return Lowered(node, None)
        position = flat_position(demand.index, node.shape)
        low, high = bounds(position)
        # Outside of its gate a value is not looked at: the gate only keeps the place in storage.
        if demand.gate is not None and not 0 <= low <= high < flat_size(node):
            position = position.valid(demand.gate)
        return Lowered(self.storage[node].index(position).load(), None)

    def _compute(self, node: UOp, computation: Computation) -> None:
        kernel, demand = computation.kernel, computation.demand
        if node.op is Op.COPY:
            return
        lowered = self._value(node, computation)
        if computation.row_ranges:
            self._store_row(node, computation, lowered)
            return
        if self.plan.stored.get(node) is kernel and demand.index is kernel.ranges:
            self.outputs[kernel.number].append((node, _filled(lowered)))
        self.values[node, demand, kernel.number] = lowered

    def _store_row(self, node: UOp, computation: Computation, lowered: Lowered) -> None:
        rows = computation.row_ranges
        fresh = tuple(r for r in rows if r is not None and r.op is Op.RANGE)
        stage = _filled(lowered).stage(*fresh, space=AddressSpace.LOCAL)
        kept = [r is not None and r.op is Op.RANGE for r in rows]
        for demand, kernel in self.plan.demands[node]:
            # A gated index may leave the row, which is read without a gate.
            inner = [i if demand.gate is None else demand.gate.where(i, 0)
                     for i, keep in zip(demand.index, kept, strict=True) if keep]
            value = stage.index(*inner) if inner else stage
            self.values[node, demand, kernel.number] = Lowered(value, None)

    def _sources(self, computation: Computation) -> list[Lowered]:
        number = computation.kernel.number
        return [self.values[p.source, p.demand, number] for p in computation.pushes]

    def _value(self, node: UOp, computation: Computation) -> Lowered:
        op, demand = node.op, computation.demand
        if op is Op.CONST:
            if node.is_invalid:
                return Lowered(node.const_like(0), UOp.const(False, dtypes.bool))
            return Lowered(node, None)
        if op in (Op.PARAM, Op.BUFFER):
            return self._read(node, demand)
        if op is Op.STAGE:
            return self._tabulated(node, demand)
        sources = self._sources(computation)
        if op in ELEMENTWISE:
            return self._elementwise(node, sources)
        if op is Op.REDUCE:
            return self._reduce(node, computation, sources[0])
        if op is Op.STACK:
            return self._stack(node, computation)
        value = sources[0].value
        if op is Op.BITCAST:
            value = value.bitcast(node.dtype)
        gate = computation.pushes[0].demand.gate
        extra = None if gate is demand.gate else gate
        # Behind the value stand those that its index depends on: Invalid there is Invalid here.
        return Lowered(value, conjunction(*(s.valid for s in sources), extra))

    def _tabulated(self, node: UOp, demand: Demand) -> Lowered:
        value = substitute(node.src[0], dict(zip(node.src[1:], demand.index, strict=True)))
        value = simplify(value)
        if value.op is Op.WHERE and value.src[2].is_invalid:
            return Lowered(value.src[1], value.src[0])
        return Lowered(value, None)

    @staticmethod
    def _elementwise(node: UOp, sources: Sequence[Lowered]) -> Lowered:
        value = UOp(node.op, tuple(s.value for s in sources), node.arg)
        if node.op is Op.WHERE:
            valid = _where_valid(sources[0].value, sources[1].valid, sources[2].valid)
            return Lowered(value, conjunction(sources[0].valid, valid))
        return Lowered(value, conjunction(*(s.valid for s in sources)))

    @staticmethod
    def _reduce(node: UOp, computation: Computation, source: Lowered) -> Lowered:
        value, op = source.value, node.arg.op
        if source.valid is not None:
            value = source.valid.where(value, value.const_like(neutral_element(op, value.dtype)))
        ranges = [r for r in computation.reduce_ranges if r.op is Op.RANGE]
        if op is Op.ADD:
            value, inner = _melted(value)
            ranges += inner
        return Lowered(value.reduce(op, *ranges), None)

    def _stack(self, node: UOp, computation: Computation) -> Lowered:
        first, number = computation.demand.index[0], computation.kernel.number
        result: Lowered | None = None
        for k, source in reversed(list(enumerate(node.src))):
            condition = simplify(first.eq(k))
            wanted = conjunction(computation.demand.gate, condition)
            demand = next((p.demand for p in computation.pushes
                           if p.source is source and p.demand.gate is wanted), None)
            if demand is None:
                continue
            part = self.values[source, demand, number]
            if result is None:
                result = part
                continue
            valid = _where_valid(condition, part.valid, result.valid)
            result = Lowered(condition.where(part.value, result.value), valid)
        assert result is not None
        return result


def _melted(value: UOp) -> tuple[UOp, tuple[UOp, ...]]:
    """The terms of a sum, and more ranges to sum over, if each term is a sum itself.

    sum_r where(g, sum_k x, 0) = sum_r,k where(g, x, 0): g is outside of k.
    """
    gates = []
    inside = value
    while inside.op is Op.WHERE and inside.src[2] is inside.const_like(0):
        gates.append(inside.src[0])
        inside = inside.src[1]
    if inside.op is not Op.REDUCE or inside.arg.op is not Op.ADD:
        return value, ()
    terms, gate = inside.src[0], conjunction(*gates)
    return terms if gate is None else gate.where(terms, terms.const_like(0)), inside.src[1:]


def _filled(lowered: Lowered) -> UOp:
    """A value with 0 where it is not there."""
    if lowered.valid is None:
        return lowered.value
    return lowered.valid.where(lowered.value, lowered.value.const_like(0))


def resolve_placeholders(root: UOp, builder: KernelBuilder, kernel: Kernel) -> UOp:
    """Replace placeholders by lowered values, which may hold placeholders themselves."""
    unknown = builder.plan.unknown
    while found := Placeholders.within(root):
        replacements = {}
        for placeholder in found:
            lowered = builder.values[*unknown.meaning(placeholder), kernel.number]
            replacements[placeholder] = _filled(lowered)
        root = map_graph(root, lambda node, original: node, dict(replacements))
    return root


def kernel_sink(stores: Sequence[tuple[UOp, UOp]], kernel: Kernel) -> UOp:
    """SINK of one kernel from its (flat storage, value) pairs."""
    position = flat_position(kernel.ranges, kernel.shape)
    effects = [place.index(position).store(value) for place, value in stores]
    ranges = tuple(r for r in kernel.ranges if r.op is Op.RANGE)
    return UOp.sink(UOp.group(*effects).end(*ranges))


def normalise_kernel(sink: UOp) -> tuple[UOp, tuple[UOp, ...]]:
    """Number PARAMs and RANGEs by first appearance, so that equal kernels are one node.

    Returns:
        The kernel, and the PARAMs of the schedule that are its arguments.
    """
    arguments: list[UOp] = []
    numbers = 0
    renumbered: dict[UOp, ParamSlot | LoopRange] = {}
    for node in _by_appearance(sink):
        if node.op is Op.PARAM:
            renumbered[node] = ParamSlot(len(arguments), node.dtype, None, node.arg.space,
                                         node.arg.minimum, node.arg.maximum, None)
            arguments.append(node)
        elif node.op is Op.RANGE:
            renumbered[node] = LoopRange(numbers, node.arg.axis_type)
            numbers += 1

    def visit(node: UOp, original: UOp) -> UOp:
        # The rebuilt node: the bound of a RANGE may be a Variable, with a new number too.
        return node.replace(arg=renumbered[original]) if original in renumbered else node

    renamed = map_graph(sink, visit)
    return renamed.replace(arg=KernelInfo(kernel_name(renamed))), tuple(arguments)


def _by_appearance(sink: UOp) -> list[UOp]:
    """Toposort, but the PARAMs that are written first."""
    order = toposort(sink)
    written = [n.src[0].src[0] for n in order if n.op is Op.STORE]
    return list(dict.fromkeys([*written, *order]))


def kernel_name(sink: UOp) -> str:
    """A name that tells people the extents: outputs, then what is reduced."""
    order = toposort(sink)
    reduced = {r for n in order if n.op is Op.REDUCE for r in n.src[1:]}
    loops = [n for n in order if n.op is Op.RANGE]
    outer = [str(extent(r)) for r in loops if r not in reduced]
    inner = [str(extent(r)) for r in loops if r in reduced]
    kind = "reduce" if reduced else "map"
    return "_".join([kind, "x".join(outer) or "1", *(["x".join(inner)] if inner else [])])


def flat_size(node: UOp) -> int:
    """Elements of storage for a value, symbolic sizes at their maximum."""
    return prod(map(largest_dimension, node.shape))
