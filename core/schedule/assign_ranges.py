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
    operation_flops,
)
from core.plugin import Target
from core.schedule.cost import Choice, Load, Question, Use, choose, common_ranges, nanoseconds
from core.schedule.index_math import Demand, Placeholders, Push, pushes

_LEAVES = frozenset({Op.PARAM, Op.BUFFER, Op.CONST})
_MOVES = frozenset({Op.PERMUTE, Op.FLIP, Op.RESHAPE, Op.SHRINK, Op.PAD, Op.INDEX})
_FORCED = frozenset({Op.CONTIGUOUS, Op.COPY})
# Nodes inlined into one kernel before the next is stored: bounds the time LLVM needs for one.
_LONGEST_CHAIN = 1500
_HEAVY_FLOPS = 64


def value_sources(node: UOp) -> tuple[UOp, ...]:
    """The sources through which values flow: not shapes, not the body of a tabulated function."""
    if node.op in (Op.RESHAPE, Op.EXPAND, Op.SHRINK, Op.PAD):
        return node.src[:1]
    if node.op in _LEAVES or node.op in (Op.STAGE, Op.RANGE):
        return ()
    return node.src


def value_order(roots: list[UOp]) -> list[UOp]:
    """Toposort through `value_sources`."""
    done: dict[UOp, None] = {}
    opened: set[UOp] = set()
    stack = list(reversed(roots))
    while stack:
        node = stack[-1]
        sources = value_sources(node)
        if node in done:
            stack.pop()
        elif node in opened or not sources:
            done[node] = None
            stack.pop()
        else:
            opened.add(node)
            stack.extend(s for s in reversed(sources) if s not in done)
    return list(done)


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


def _loads(order: list[UOp], stored: frozenset[UOp], target: Target) -> dict[UOp, Load]:
    """Work and bytes of one element of each node if what is below is inlined.

    What is stored in any case is read: it costs its bytes. So does, to what is above it, a
    reduction dearer than writing and reading an element: it may always be stored.
    """
    result: dict[UOp, Load] = {}
    below: dict[UOp, Load] = {}
    for node in order:
        if node.op in (Op.PARAM, Op.BUFFER) or node.op in _FORCED or node in stored:
            result[node] = below[node] = Load(0.0, node.dtype.itemsize)
            continue
        load = Load(operation_flops(node.op), 0.0)
        for s in value_sources(node):
            load.flops += below[s].flops
            load.bytes += below[s].bytes
        extent = 1
        if node.op is Op.REDUCE:
            for d in node.src[0].shape[: node.arg.axes]:
                extent *= largest_dimension(d)
            load = Load((load.flops + 1) * extent, load.bytes * extent)
        elif node.op is Op.EXPAND:
            for d in node.shape[: len(node.src[1].src)]:
                extent *= largest_dimension(d)
            extent = max(extent, 1)
            load = Load(load.flops / extent, load.bytes / extent)
        result[node] = below[node] = load
        if node.op is Op.REDUCE and nanoseconds(load, target) > (
                2 * node.dtype.itemsize * target.dram_byte_nanoseconds):
            below[node] = Load(0.0, node.dtype.itemsize)
    return result


def _leaf_axes(order: list[UOp]) -> dict[UOp, dict[UOp, frozenset[int]]]:
    """For each node: the storage below it, and along which axes of the node that is read.

    Kept for small sets only: a node over more than eight leaves counts as varying everywhere.
    """
    result: dict[UOp, dict[UOp, frozenset[int]]] = {}
    for node in order:
        rank = len(node.shape)
        found: dict[UOp, frozenset[int]] = {}
        if node.op in (Op.PARAM, Op.BUFFER):
            found = {node: frozenset(range(rank))}
        for s in value_sources(node):
            for leaf, axes in result[s].items():
                mapped = _map_axes(node, s, axes)
                found[leaf] = found.get(leaf, frozenset()) | mapped
        result[node] = found if len(found) <= 8 else {}
    return result


def _map_axes(node: UOp, source: UOp, axes: frozenset[int]) -> frozenset[int]:
    """Axes of a node along which its source varies, if that varies along `axes`."""
    op, rank = node.op, len(node.shape)
    if op in ELEMENTWISE or op in (Op.SHRINK, Op.PAD, Op.FLIP):
        return axes
    if op is Op.PERMUTE:
        return frozenset(k for k, a in enumerate(node.arg) if a in axes)
    if op is Op.EXPAND:
        return frozenset(a + len(node.src[1].src) for a in axes)
    if op is Op.REDUCE:
        return frozenset(a - node.arg.axes for a in axes if a >= node.arg.axes)
    if op is Op.RESHAPE:
        return _reshape_axes(node, axes)
    return axes if rank == len(source.shape) else frozenset(range(rank))


def _reshape_axes(node: UOp, axes: frozenset[int]) -> frozenset[int]:
    """Axes of a RESHAPE whose strides fall into the span of one of the source's axes."""
    spans = []
    for shape in (node.src[0].shape, node.shape):
        stride, rows = 1, []
        for n in reversed([largest_dimension(d) for d in shape]):
            rows.append((stride, stride * n))
            stride *= max(n, 1)
        spans.append(rows[::-1])
    old, new = spans
    return frozenset(
        k for k, (low, high) in enumerate(new)
        if high > low and any(low < old[a][1] and old[a][0] < high for a in axes)
    )


def _melting_sums(order: list[UOp]) -> frozenset[UOp]:
    """Sums whose elements only another sum of this dtype takes, each in its place or 0 instead."""
    users: dict[UOp, list[UOp]] = {}
    for node in order:
        for s in dict.fromkeys(value_sources(node)):
            users.setdefault(s, []).append(node)
    result: set[UOp] = set()
    taken: set[UOp] = set()  # nodes whose value goes into one sum only
    for node in reversed(order):
        uses = users.get(node, ())
        if len(uses) != 1:
            continue
        user = uses[0]
        into_sum = user.op is Op.REDUCE and user.arg.op is Op.ADD and user.dtype is node.dtype
        moved = user in taken and user.src[0] is node and user.op in _MOVES
        chosen = (user in taken and user.op is Op.WHERE and user.src[1] is node
                  and _is_zero(user.src[2]))
        if into_sum or moved or chosen:
            taken.add(node)
            if node.op is Op.REDUCE and node.arg.op is Op.ADD:
                result.add(node)
    return frozenset(result)


def _is_zero(node: UOp) -> bool:
    """Whether a value is +0 everywhere."""
    while node.op in (Op.EXPAND, Op.RESHAPE):
        node = node.src[0]
    return node.op is Op.CONST and node is node.const_like(0)


class RangeAssigner:
    """The backward walk."""

    def __init__(self, outputs: list[UOp], target: Target, forced: frozenset[UOp]) -> None:
        self.target = target
        self.outputs = dict.fromkeys(outputs)
        self.forced = forced
        self.plan = Plan(value_order(outputs))
        self.loads = _loads(self.plan.order, forced, target)
        self.leaf_axes = _leaf_axes(self.plan.order)
        self.melting = _melting_sums(self.plan.order)
        self.homes: dict[UOp, frozenset[UOp]] = {}
        self.numbers = count()
        self.shared: dict[Any, list[Kernel]] = {}
        self.depth: dict[UOp, int] = {}
        self.leaf_bits = _leaf_bits(self.plan.order)
        self.copied = {_copy_source(n) for n in self.plan.order if n.op is Op.COPY}

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
        if node.op in _FORCED or node in self.forced or node in self.copied:
            return Choice.BOUNDARY
        if self.depth.get(node, 0) > _LONGEST_CHAIN:
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
            kernel = next((k for k in candidates if self._may_share(k, node, demands, choice)), None)
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
        common = common_ranges(uses)
        index, inner = [], []
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
            self.plan.demands[_copy_source(node)].append((demand, computation.kernel))
            return
        else:
            computation.pushes = pushes(node, demand, self.plan.unknown)
        depth = self.depth.get(node, 0) + 1
        if self.plan.choices.get(node) is Choice.BOUNDARY or node in self.plan.stored:
            depth = 1
        for push in computation.pushes:
            self.plan.demands[push.source].append((push.demand, computation.kernel))
            self.depth[push.source] = max(self.depth.get(push.source, 0), depth)


def _copy_source(node: UOp) -> UOp:
    """The value a COPY reads: a RESHAPE of storage is the storage."""
    source = node.src[0]
    while source.op is Op.RESHAPE:
        source = source.src[0]
    return source if source.op in (Op.PARAM, Op.BUFFER) else node.src[0]


def _leaf_bits(order: list[UOp]) -> dict[UOp, int]:
    """For each node the set of storage below it, one bit a leaf."""
    numbers: dict[UOp, int] = {}
    result: dict[UOp, int] = {}
    for node in order:
        if node.op in (Op.PARAM, Op.BUFFER):
            result[node] = 1 << numbers.setdefault(node, len(numbers))
            continue
        bits = 0
        for s in value_sources(node):
            bits |= result[s]
        result[node] = bits
    return result


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
    while True:
        plan = RangeAssigner(outputs, target, forced).run()
        crowded = [
            k for k in plan.kernels.values() if len(k.leaves) + len(k.roots) > target.max_buffers
        ]
        extra = frozenset(filter(None, (_relief(k, plan, target) for k in crowded)))
        if not extra - forced:
            return plan
        forced |= extra


def _relief(kernel: Kernel, plan: Plan, target: Target) -> UOp | None:
    """A value to store so that a kernel reads fewer buffers: the one with most buffers below it
    that a kernel of its own can still read.
    """
    below: dict[UOp, frozenset[UOp]] = {}
    best: UOp | None = None
    for node in plan.order:
        if node in kernel.leaves:
            below[node] = frozenset((node,))
            continue
        sets = [below[s] for s in value_sources(node) if s in below]
        below[node] = frozenset().union(*sets) if sets else frozenset()
        inlined = plan.choices.get(node) is Choice.INLINE and node not in plan.stored
        if (inlined and node.op in ELEMENTWISE and node.shape
                and 2 <= len(below[node]) < target.max_buffers
                and any(k is kernel for _, k in plan.demands[node])
                and (best is None or len(below[node]) >= len(below[best]))):
            best = node
    return best
