"""Executes a kernel's graph: the SINK as it leaves the scheduler, or between two later passes.

Loops run at once, each as an axis of the arrays, but for two kinds. A loop is *sequential* if a
store under its END writes to places that do not depend on it, or if something is read through an
AFTER that names it: an accumulator, a scatter that adds, a scan. And a loop that would make arrays
too large runs in *blocks*. Nodes that depend on such a loop wait until the END or the REDUCE that
closes it runs them, position by position or block by block.

A LOAD that is after nothing sees what storage held when the kernel began.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np

from core.ir import Op, UOp, bounds, open_ranges, toposort, users
from core.reference.formats import HELD, Array
from core.reference.machine import Machine
from core.reference.nodes import finished, reduce_ranges
from core.reference.reductions import Partial, combine
from core.reference.storage import Storage
from core.reference.values import Axes, AxisOrder, Value

#: Elements of the largest arrays, if loops can be cut to get there: they stay in cache.
LARGEST_ARRAY: Final = 1 << 20


class Part(NamedTuple):
    """Nodes that are run together.

    Attributes:
        nodes: In order.
        waiting: Those among them that a loop inside will run.
        released: By position, the nodes whose last user has that position.
    """

    nodes: list[UOp]
    waiting: frozenset[UOp]
    released: dict[int, list[UOp]]


class LoopPlan:
    """Which loops do not run at once.

    Attributes:
        sequential: Loops that run position by position.
        blocks: Positions of the others that are run at once, where it is not all.
    """

    def __init__(self, order: Sequence[UOp]) -> None:
        self.order = order
        self.sequential: set[UOp] = set()
        self.blocks: dict[UOp, int] = {}
        self.ends = [n for n in order if n.op is Op.END]
        self._find_sequential()
        self._choose_blocks()
        self.split = frozenset(self.sequential) | frozenset(self.blocks)

    def _find_sequential(self) -> None:
        loops = {r for e in self.ends for r in e.src[1:]}
        for node in self.order:
            if node.op is Op.LOAD:
                self.sequential |= loops.intersection(_named_by_after(node.src[0]))
        for end in self.ends:
            below = [n for n in toposort(end.src[0]) if n.op in (Op.STORE, Op.ATOMIC_ADD)]
            for store in below:
                moves = open_ranges(store.src[0])
                self.sequential |= {
                    r for r in end.src[1:] if r in open_ranges(store) and r not in moves}

    def _length(self, loop: UOp) -> int:
        if loop in self.sequential:
            return 1
        return self.blocks.get(loop, max(1, _extent(loop)))

    def _choose_blocks(self) -> None:
        outer = [r for e in reversed(self.ends) for r in e.src[1:]]
        inner = [r for n in self.order if n.op is Op.REDUCE for r in n.src[1:]]
        staged = {r for n in self.order if n.op is Op.STAGE for r in n.src[1:]}
        candidates = [r for r in dict.fromkeys([*outer, *inner])
                      if r not in self.sequential and r not in staged]
        spaces = {(open_ranges(n), _lanes(n)) for n in self.order if n.dtype.kind != "void"}
        for loop in candidates:
            sizes = [prod(map(self._length, s)) * n for s, n in spaces if loop in s]
            excess = max(sizes, default=1) // LARGEST_ARRAY
            if excess > 0 and _extent(loop) > 1:
                self.blocks[loop] = max(1, _extent(loop) // (excess + 1))


def _lanes(node: UOp) -> int:
    return prod(d for d in node.shape if isinstance(d, int)) if node.op not in (
        Op.PARAM, Op.BUFFER, Op.AFTER) else 1


def _extent(loop: UOp) -> int:
    """Positions of a loop, at most."""
    return int(bounds(loop.src[0])[1])


def _named_by_after(place: UOp) -> Iterator[UOp]:
    """Loops that AFTERs on the way to the storage of a place name themselves."""
    while place.op not in (Op.PARAM, Op.BUFFER, Op.STAGE):
        if place.op is Op.AFTER:
            yield from (s for s in place.src[1:] if s.op is Op.RANGE)
        place = place.src[0]


def _is_after(place: UOp) -> bool:
    while place.op not in (Op.PARAM, Op.BUFFER, Op.STAGE):
        if place.op is Op.AFTER:
            return True
        place = place.src[0]
    return False


def _storage_node(place: UOp) -> UOp:
    while place.op not in (Op.PARAM, Op.BUFFER, Op.STAGE):
        place = place.src[0]
    return place


class GraphMachine(Machine):
    """Runs the graph of one kernel."""

    def __init__(self, sink: UOp, buffers: Sequence[Array], scalars: Sequence[Any]) -> None:
        self.nodes = toposort(sink)
        self.plan = LoopPlan(self.nodes)
        nest = [r for e in reversed(self.plan.ends) for r in e.src[1:]]
        super().__init__(sink, buffers, scalars, AxisOrder(nest))
        self.users = users(self.nodes)
        self.active: set[UOp] = set()
        self.bodies: dict[UOp, Part] = {}
        self.stores = [n for n in self.nodes if n.op in (Op.STORE, Op.ATOMIC_ADD)]
        read = {_storage_node(n.src[0]) for n in self.nodes
                if n.op is Op.LOAD and not _is_after(n.src[0])}
        self.reread = read & {_storage_node(s.src[0]) for s in self.stores}
        self.old: dict[UOp, Storage] = {}

    def run(self) -> None:
        """Run the kernel once."""
        whole = self._part(self.nodes, frozenset())
        self._run_part(whole)

    def loops_around(self, buffer: UOp) -> Axes:
        """The loops round all that fills it: its stores are ordered after them."""
        loops: set[UOp] = set(self.launch)
        for store in self.stores:
            if _storage_node(store.src[0]) is buffer:
                place = store.src[0]
                chain = place if place.op is Op.AFTER or not place.src else place.src[0]
                loops |= open_ranges(chain)
        return tuple(loops - self.plan.sequential)

    def version(self, load: UOp, storage: Storage) -> Storage:
        """What storage held in the beginning, unless the LOAD is after something."""
        node = _storage_node(load.src[0])
        if node not in self.old or _is_after(load.src[0]):
            return storage
        old = self.old[node]
        return old if old.dtype is storage.dtype else old.viewed(storage.dtype)

    def execute(self, node: UOp) -> None:
        """Run loops that do not run at once; everything else is a single step."""
        if node.op in (Op.END, Op.REDUCE) and any(r in self.plan.split for r in node.src[1:]):
            self._run_loops(node)
            return
        super().execute(node)
        storage = self.memo[node]
        if node in self.reread and isinstance(storage, Storage):
            self.old[node] = Storage(storage.name, storage.dtype, storage.elements.copy())

    def _part(self, nodes: list[UOp], active: frozenset[UOp]) -> Part:
        split = self.plan.split - active
        waiting = frozenset(n for n in nodes if not split.isdisjoint(open_ranges(n)))
        kept = {s for n in waiting for s in n.src}
        position = {n: k for k, n in enumerate(nodes) if n not in waiting}
        released: dict[int, list[UOp]] = {}
        for node in position:
            uses = [position.get(u, -1) for u in self.users[node]]
            if uses and node not in kept and min(uses) >= 0:
                released.setdefault(max(uses), []).append(node)
        return Part(nodes, waiting, released)

    def _run_part(self, part: Part) -> None:
        for position, node in enumerate(part.nodes):
            if node in part.waiting:
                continue
            if node not in self.memo:
                self.execute(node)
            for unused in part.released.get(position, ()):
                self.memo.pop(unused, None)

    def _run_loops(self, node: UOp) -> None:
        """Run what an END or a REDUCE closes, for each block of its loops."""
        loops = [r for r in node.src[1:] if r in self.plan.split]
        body = self.bodies.get(node)
        if body is None:
            inside = set(loops)
            nodes = [n for n in toposort(node.src[0]) if not inside.isdisjoint(open_ranges(n))]
            body = self.bodies[node] = self._part(
                nodes, frozenset(inside | (open_ranges(node) & self.plan.split)))
        part: tuple[Partial, Axes] | None = None
        self.active.update(loops)
        for starts in product(*(self._starts(r) for r in loops)):
            for inner in body.nodes:
                self.memo.pop(inner, None)
            self.forget_copies(self.plan.blocks.keys() & set(loops))
            for loop, start in zip(loops, starts, strict=True):
                self._enter(loop, start)
            self._run_part(body)
            if node.op is Op.REDUCE:
                new, axes = reduce_ranges(node, self.value(node.src[0]), self.context)
                part = (new if part is None
                        else combine(node.arg.op, node.dtype, part[0], new)), axes
        for inner in body.nodes:
            self.memo.pop(inner, None)
        for loop in loops:
            self.active.discard(loop)
            self.context.lengths.pop(loop, None)
        self.memo[node] = None
        if node.op is Op.REDUCE:
            assert part is not None, "a REDUCE has no sequential loops"
            self.memo[node] = finished(node, *part)

    def _trips(self, loop: UOp) -> int:
        return int(self.value(loop.src[0]).array)

    def _starts(self, loop: UOp) -> range:
        """First positions of the blocks; a loop of none has one empty block."""
        trips = self._trips(loop)
        if loop in self.plan.sequential:
            return range(trips)
        return range(0, max(trips, 1), self.plan.blocks[loop])

    def _enter(self, loop: UOp, start: int) -> None:
        if loop in self.plan.sequential:
            self.memo[loop] = Value(np.asarray(start).astype(HELD[loop.dtype]))
            return
        stop = min(start + self.plan.blocks[loop], self._trips(loop))
        self.memo[loop] = self.context.loop(loop, start, stop)
