"""assign-loop-ranges: decide, consumers first, at which loops each value is computed.

SINK(STORE(out, value), ...) → for each node: the demands at which it is computed, the kernel of
each, and whether it is inlined, kept in a row of scratch, or stored by a kernel of its own
(`cost.choose`). `build_kernels` then makes the kernels, sources first. Both walks are linear.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import Any

from core.ir import (
    ELEMENTWISE,
    AxisType,
    Op,
    UOp,
    device_of,
    largest_dimension,
    open_ranges,
)
from core.plugin import Target
from core.schedule.cost import Choice, Question, Use, choose, common_ranges
from core.schedule.graph_facts import (
    FORCED,
    LONGEST_CHAIN,
    inlined_loads,
    leaf_axes,
    leaf_bits,
    melting_sums,
    value_order,
    value_sources,
)
from core.schedule.index_math import Demand, Placeholders, Push, pushes

_HEAVY_FLOPS = 64


@dataclass(eq=False)
class Kernel:
    """One kernel in the making.

    Attributes:
        number: Its number.
        shape: Shape of every value that it stores.
        ranges: Its output loops, one per axis; axes of extent 1 have CONST 0.
        roots: Values that it stores.
        device: Where it runs.
        needs: Kernels whose results it reads.
        leaves: Storage and stored values that it reads.
    """

    number: int
    shape: tuple[Any, ...]
    ranges: tuple[UOp, ...]
    device: Any
    roots: list[UOp] = field(default_factory=list)
    needs: set[int] = field(default_factory=set)
    leaves: set[UOp] = field(default_factory=set)

    @property
    def output_ranges(self) -> frozenset[UOp]:
        """Its loops without the constants of axes of extent 1."""
        return frozenset(r for r in self.ranges if r.op is Op.RANGE)


@dataclass(eq=False)
class Computation:
    """One place where a node is computed.

    Attributes:
        demand: Its index and gate there.
        kernel: The kernel.
        pushes: What it asks of its sources.
        reduce_ranges: Fresh ranges of a REDUCE.
        row_ranges: Fresh inner ranges of a row of scratch, and None for the common axes.
    """

    demand: Demand
    kernel: Kernel
    pushes: list[Push] = field(default_factory=list)
    reduce_ranges: tuple[UOp, ...] = ()
    row_ranges: tuple[UOp | None, ...] = ()


@dataclass(eq=False)
class Plan:
    """Result of the pass.

    Attributes:
        order: The nodes, sources first.
        kernels: By number.
        choices: For nodes with demands.
        demands: Distinct demands on a node, each with the kernel that reads it.
        computations: Where a node is computed.
        stored: Kernel that stores a node.
        unknown: Values that indices depend on.
    """

    order: list[UOp]
    unknown: Placeholders = field(default_factory=Placeholders)
    kernels: dict[int, Kernel] = field(default_factory=dict)
    choices: dict[UOp, Choice] = field(default_factory=dict)
    demands: dict[UOp, list[tuple[Demand, Kernel]]] = field(default_factory=dict)
    computations: dict[UOp, list[Computation]] = field(default_factory=dict)
    stored: dict[UOp, Kernel] = field(default_factory=dict)


class RangeAssigner:
    """The backward walk."""

    def __init__(
        self, outputs: list[UOp], target: Target, forced: frozenset[UOp],
        apart: frozenset[UOp] = frozenset(),
    ) -> None:
        self.target = target
        self.outputs = dict.fromkeys(outputs)
        self.forced = forced
        self.apart = apart  # outputs that share no kernel with earlier ones
        self.plan = Plan(value_order(outputs))
        self.loads = inlined_loads(self.plan.order, forced, target)
        self.leaf_axes = leaf_axes(self.plan.order)
        self.melting = melting_sums(self.plan.order)
        self.homes: dict[UOp, frozenset[UOp]] = {}
        self.numbers = count()
        self.shared: dict[Any, list[Kernel]] = {}
        self.depth: dict[UOp, int] = {}
        self.leaf_bits = leaf_bits(self.plan.order)
        self.copied = {copy_source(n) for n in self.plan.order if n.op is Op.COPY}

    def run(self) -> Plan:
        """Decide every node, consumers first."""
        plan = self.plan
        for node in plan.order:
            plan.demands[node] = []
        for node in reversed(plan.order):
            self._decide(node)
        return plan

    # -- one node ---------------------------------------------------------------------------

    def _decide(self, node: UOp) -> None:
        plan = self.plan
        demands = plan.demands[node] = list(dict.fromkeys(plan.demands[node]))
        if node.op in (Op.PARAM, Op.BUFFER):
            for _, kernel in demands:
                kernel.leaves.add(node)
            if node not in self.outputs:
                return
        is_output = node in self.outputs
        choice = self._choose(node, demands)
        if is_output and _rounds(node) and any(d.index != k.ranges for d, k in demands):
            choice = Choice.BOUNDARY  # it is read, not computed again
        plan.choices[node] = choice
        computations: list[Computation] = []
        if choice is Choice.BOUNDARY or is_output:
            kernel = self._root(node, demands, choice)
            computations.append(Computation(Demand(kernel.ranges, None), kernel))
            if choice is Choice.BOUNDARY:
                for _, reader in demands:
                    reader.needs.add(kernel.number)
                    reader.leaves.add(node)
        if choice is Choice.INLINE:
            seen = {(c.demand, c.kernel) for c in computations}
            computations += [Computation(d, k) for d, k in demands if (d, k) not in seen]
        elif choice is Choice.ROW:
            computations.append(self._row(node, demands))
        plan.computations[node] = computations
        for computation in computations:
            self._push(node, computation)

    def _choose(self, node: UOp, demands: list[tuple[Demand, Kernel]]) -> Choice:
        if not demands:
            return Choice.INLINE
        if node.op in FORCED or node in self.forced or node in self.copied:
            return Choice.BOUNDARY
        if self.depth.get(node, 0) > LONGEST_CHAIN:
            return Choice.BOUNDARY
        if node.op not in ELEMENTWISE and node.op is not Op.REDUCE:
            return Choice.INLINE
        if not node.shape and node.op is not Op.REDUCE:
            return Choice.INLINE
        question = Question(
            shape=tuple(map(largest_dimension, node.shape)),
            itemsize=node.dtype.itemsize,
            load=self.loads[node],
            is_reduce=node.op is Op.REDUCE,
            uses=[_use(d, k) for d, k in demands],
            homes=self.homes,
            melts=node in self.melting,
            rounds=_rounds(node),
            leaf_axes=self.leaf_axes[node],
        )
        return choose(question, self.target)

    def _root(
        self, node: UOp, demands: list[tuple[Demand, Kernel]], choice: Choice
    ) -> Kernel:
        """The kernel that stores a node: one with outputs of the same shape, or a new one."""
        device = device_of(node)
        key = (node.shape, device)
        kernel = None
        if node in self.outputs and node.op is not Op.COPY:
            candidates = self.shared.setdefault(key, [])
            kernel = None if node in self.apart else next(
                (k for k in candidates if self._may_share(k, node, demands, choice)), None)
            if kernel is None:
                kernel = self._new_kernel(node, device)
                candidates.append(kernel)
        else:
            kernel = self._new_kernel(node, device)
        kernel.roots.append(node)
        self.plan.stored[node] = kernel
        return kernel

    def _may_share(
        self, kernel: Kernel, node: UOp, demands: list[tuple[Demand, Kernel]], choice: Choice
    ) -> bool:
        """Whether a kernel may store one more output: buffers, work, and no cycle of kernels."""
        own = any(k is kernel for _, k in demands)
        if choice is Choice.BOUNDARY and own:
            return False
        if not own and self._is_heavy(node):
            return False
        bits = self.leaf_bits[node]
        for root in kernel.roots:
            bits |= self.leaf_bits[root]
        if bits.bit_count() + len(kernel.roots) + 1 > self.target.max_buffers:
            return False
        readers = {k.number for _, k in demands if k is not kernel}
        return choice is not Choice.BOUNDARY or not any(
            self._reaches(r, kernel.number) for r in readers
        )

    def _is_heavy(self, node: UOp) -> bool:
        """Whether computing an element is a long loop: two such outputs tile better apart."""
        return self.loads[node].flops > _HEAVY_FLOPS

    def _reaches(self, start: int, goal: int) -> bool:
        """Whether kernel `goal` needs `start`, directly or through others."""
        pending, seen = [goal], set()
        while pending:
            number = pending.pop()
            if number == start:
                return True
            if number not in seen:
                seen.add(number)
                pending.extend(self.plan.kernels[number].needs)
        return False

    def _new_kernel(self, node: UOp, device: Any) -> Kernel:
        number = len(self.plan.kernels)
        ranges = tuple(self._range(d, AxisType.LOOP) for d in node.shape)
        kernel = Kernel(number, node.shape, ranges, device)
        self.plan.kernels[number] = kernel
        return kernel

    def _range(self, bound: Any, axis_type: AxisType) -> UOp:
        if isinstance(bound, int) and bound == 1:
            return UOp.const(0)
        return UOp.range(bound, next(self.numbers), axis_type)

    def _row(self, node: UOp, demands: list[tuple[Demand, Kernel]]) -> Computation:
        uses = [_use(d, k) for d, k in demands]
        common = common_ranges(uses, tuple(map(largest_dimension, node.shape)))
        index: list[UOp] = []
        inner: list[UOp | None] = []
        for i, bound in zip(demands[0][0].index, node.shape, strict=True):
            if i in common:
                index.append(i)
                inner.append(None)
            else:
                fresh = self._range(bound, AxisType.LOOP)
                index.append(fresh)
                inner.append(fresh)
        return Computation(Demand(tuple(index), None), demands[0][1], row_ranges=tuple(inner))

    def _push(self, node: UOp, computation: Computation) -> None:
        demand = computation.demand
        if node.op is Op.REDUCE:
            source = node.src[0]
            fresh = tuple(
                self._range(d, AxisType.REDUCE) for d in source.shape[: node.arg.axes]
            )
            around = frozenset().union(*map(open_ranges, demand.index))
            for r in fresh:
                if r.op is Op.RANGE:
                    self.homes[r] = around
            computation.reduce_ranges = fresh
            computation.pushes = [Push(source, Demand(fresh + demand.index, demand.gate))]
        elif node.op is Op.COPY:
            # The source is stored on its own device; nothing is computed at an index.
            source = copy_source(node)
            first = Demand((UOp.const(0),) * len(source.shape), None)
            self.plan.demands[source].append((first, computation.kernel))
            return
        else:
            computation.pushes = pushes(node, demand, self.plan.unknown)
        depth = self.depth.get(node, 0) + 1
        if self.plan.choices.get(node) is Choice.BOUNDARY or node in self.plan.stored:
            depth = 1
        for push in computation.pushes:
            self.plan.demands[push.source].append((push.demand, computation.kernel))
            self.depth[push.source] = max(self.depth.get(push.source, 0), depth)


def copy_source(node: UOp) -> UOp:
    """The value a COPY reads: a RESHAPE of storage is the storage."""
    source = node.src[0]
    while source.op is Op.RESHAPE:
        source = source.src[0]
    return source if source.op in (Op.PARAM, Op.BUFFER) else node.src[0]


def _rounds(node: UOp) -> bool:
    """Whether another order of a reduction may give another last bit."""
    return node.op is Op.REDUCE and node.dtype.is_float and node.arg.op is not Op.MAX


def _use(demand: Demand, kernel: Kernel) -> Use:
    ranges = frozenset().union(*map(open_ranges, demand.index)) if demand.index else frozenset()
    bare = {i: p for p, i in enumerate(demand.index) if i.op is Op.RANGE}
    return Use(ranges, bare, kernel.number, kernel.output_ranges)


def assign_ranges(outputs: list[UOp], target: Target) -> Plan:
    """Decide where every value of a schedule is computed.

    Args:
        outputs: Values to store, distinct.
        target: Cost numbers, cores, L2 and the number of buffers that a kernel takes.
    """
    forced: frozenset[UOp] = frozenset()
    apart: frozenset[UOp] = frozenset()
    while True:
        plan = RangeAssigner(outputs, target, forced, apart).run()
        crowded = {
            k.number: k for k in plan.kernels.values()
            if len(k.leaves) + len(k.roots) > target.max_buffers
        }
        if not crowded:
            return plan
        stored, leaving = _reliefs(crowded, plan, target)
        if not stored - forced and not leaving - apart:
            return plan
        forced, apart = forced | stored, apart | leaving


def _reliefs(
    crowded: dict[int, Kernel], plan: Plan, target: Target
) -> tuple[frozenset[UOp], frozenset[UOp]]:
    """(values to store, outputs to store by another kernel) so that kernels read fewer buffers.

    One walk for all kernels. Where a value would read too many, the source with most buffers below
    it is stored. Where no single value does, but all outputs together, the last one leaves.
    """
    below: dict[tuple[UOp, int], frozenset[UOp]] = {}
    cut: set[UOp] = set()
    relieved: set[int] = set()
    best: dict[int, UOp] = {}

    def may_store(node: UOp) -> bool:
        return (node.op in ELEMENTWISE and node not in plan.stored
                and plan.choices.get(node) is Choice.INLINE)

    for node in plan.order:
        numbers = {k.number for _, k in plan.demands[node]}
        if node in plan.stored:
            numbers.add(plan.stored[node].number)
        for number in numbers & crowded.keys():
            kernel = crowded[number]
            if node in kernel.leaves or node in cut:
                below[node, number] = frozenset((node,))
                continue
            sets = {s: below[s, number] for s in value_sources(node) if (s, number) in below}
            union = frozenset().union(*sets.values())
            while len(union) + len(kernel.roots) > target.max_buffers:
                source = max(filter(may_store, sets), key=lambda s: len(sets[s]), default=None)
                if source is None or len(sets[source]) < 2:
                    break
                cut.add(source)
                relieved.add(number)
                sets[source] = below[source, number] = frozenset((source,))
                union = frozenset().union(*sets.values())
            below[node, number] = union
            if may_store(node) and 2 <= len(union) < target.max_buffers and (
                    number not in best or len(union) >= len(below[best[number], number])):
                best[number] = node
    others = [k for number, k in crowded.items() if number not in relieved]
    cut |= {best[k.number] for k in others if len(k.roots) == 1 and k.number in best}
    return frozenset(cut), frozenset(k.roots[-1] for k in others if len(k.roots) > 1)
