"""Which loop actions a kernel gets without search, for a target with vector registers and threads.

Everything is read from `Target` (vector bytes, registers, cores) and from how the kernel's loads
and stores move along its loops. In order: neighbouring loops that always move together become
one; one loop of each nest becomes lanes; for reductions, output loops along which an operand does
not move become a register tile (rows x vectors + vectors + 1 <= registers, cpu-recipes.md 1);
the outermost output loop goes to threads if there is a microsecond of work for them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Final

from core.codegen.actions import Action, Merge, Order, Retype, Split, Stage, Tail, find_range
from core.codegen.linear_index import LinearIndex, linear_index
from core.codegen.loop_nest import LoopNest, is_expanded, trip_count
from core.ir import AxisType, Op, UOp, dtypes, open_ranges, operation_flops, storage_of, toposort
from core.plugin import Target
from core.simplify import simplify

# Two threads pay from about a microsecond of work while they are awake (cpu-recipes.md 6).
_WORTH_THREADS_NANOSECONDS: Final = 4_000
_ELEMENTWISE_VECTORS: Final = 2
_REDUCE_ACCUMULATORS: Final = 4
# Passes over a packed operand that pay for packing it, and most tiles packed at once.
_WORTH_STAGING: Final = 8
_LARGEST_BLOCK: Final = 8


@dataclass
class Access:
    """One load or store: how its index moves."""

    node: UOp
    index: LinearIndex
    ranges: frozenset[UOp]

    def along(self, loop: UOp) -> int | None:
        """Step along a loop: 0 if the access does not depend on it, None if not constant."""
        if loop not in self.ranges:
            return 0
        return self.index.along(loop)


def access_of(node: UOp) -> Access | None:
    """The access of a LOAD or STORE through INDEX; None for other places."""
    place = node.src[0]
    if place.op is not Op.INDEX:
        return None
    return Access(node, linear_index(place.src[1]), open_ranges(place))


def scratch_access(node: UOp) -> Access:
    """How an element of a STAGE is chosen, as of storage that holds its rows in order."""
    index = UOp.const(0)
    for position, loop in zip(node.src[1:], node.src[0].src[1:], strict=True):
        index = index * loop.src[0] + position
    return Access(node, linear_index(simplify(index)), open_ranges(node) - open_ranges(node.src[0]))


class Heuristic:
    """Chooses actions one after the other, reading the kernel again after each."""

    def __init__(self, sink: UOp, target: Target) -> None:
        self.sink, self.target = sink, target
        self.actions: list[Action] = []
        # Parts of a word are written by adding what changes: twice would be wrong.
        words = dtypes.uint8 not in target.dtypes and any(
            s.src[1].dtype.itemsize < 4 for s in self.nest().stores)
        self.overlap = Tail.MASK if words else Tail.CLAMP

    def do(self, action: Action) -> None:
        """Apply and remember an action."""
        self.sink = action.apply(self.sink)
        self.actions.append(action)

    # -- reading ----------------------------------------------------------------------------

    def nest(self) -> LoopNest:
        """The kernel as it is now."""
        return LoopNest(self.sink)

    def lanes(self, nest: LoopNest) -> int:
        """Elements of the widest stored or loaded dtype in a vector register."""
        sizes = [n.dtype.itemsize for n in nest.loads] + [
            s.src[1].dtype.itemsize for s in nest.stores]
        return max(1, self.target.vector_bytes // max([*sizes, 4]))

    # -- order ------------------------------------------------------------------------------

    def hoist(self) -> None:
        """Loops on which reductions depend go outermost: inside of others they would run again."""
        outputs = self.nest().output_ranges
        fewer = self._shared_loops()
        order = sorted(outputs, key=lambda r: -sum(r in loops for loops in fewer))
        if fewer and tuple(order) != outputs:
            self.do(Order(tuple(r.arg.id for r in order)))

    def _shared_loops(self) -> list[frozenset[UOp]]:
        """Output loops of each reduction and scratch that does not depend on all of them."""
        nest = self.nest()
        outputs = frozenset(nest.output_ranges)
        found = [open_ranges(n) & outputs for n in (*nest.reductions, *nest.stages)]
        return [loops for loops in found if loops < outputs]

    # -- merging ----------------------------------------------------------------------------

    def merge_neighbours(self) -> None:
        """Merge loops whose every access moves as along one loop."""
        while (action := self._mergeable()) is not None:
            self.do(action)

    def _mergeable(self) -> Merge | None:
        nest = self.nest()
        lists = [nest.output_ranges, *(n.src[1:] for n in (*nest.reductions, *nest.stages))]
        accesses = [access_of(n) for n in (*nest.loads, *nest.stores)]
        inside_indices = {n for a in accesses if a for n in toposort(a.node.src[0])}
        free = {r for n in nest.order if n not in inside_indices
                and n.op not in (Op.END, Op.REDUCE, Op.STAGE) for r in n.src if r.op is Op.RANGE}
        for ranges in lists:
            for a, b in pairwise(ranges):
                count = trip_count(b)
                if a in free or b in free or count is None or trip_count(a) is None:
                    continue
                if all(self._moves_as_one(x, a, b, count) for x in accesses):
                    return Merge(a.arg.id, b.arg.id)
        return None

    @staticmethod
    def _moves_as_one(access: Access | None, a: UOp, b: UOp, count: int) -> bool:
        if access is None:
            return False
        if a not in access.ranges and b not in access.ranges:
            return True
        gate = access.node.src[0].src[1]
        if gate.op is Op.WHERE and {a, b} & open_ranges(gate.src[0]):
            return False
        outer, inner = access.along(a), access.along(b)
        return outer is not None and inner is not None and outer == inner * count

    # -- lanes and tiles --------------------------------------------------------------------

    def vectorise(self) -> None:
        """Lanes for every nest: outputs (with the reductions they run through), then others."""
        nest = self.nest()
        lane = self._output_lane(nest)
        through = [n for n in nest.reductions if lane is not None and lane in open_ranges(n)]
        if through and lane is not None:
            self._tile(nest, lane, through)
        elif lane is not None:
            crossing = self._crossing_loop(nest, lane)
            if crossing is not None:
                self._upcast(crossing, self.lanes(nest))
            self._split_lane(
                lane, self.lanes(nest), 1 if crossing is not None else _ELEMENTWISE_VECTORS)
        for reduce in self._other_nests():
            self._vectorise_inner(reduce)

    def _output_lane(self, nest: LoopNest) -> UOp | None:
        """The output loop along which every store moves by 1 and the loads by 0 or 1."""
        stores = [access_of(s) for s in nest.stores]
        for loop in reversed(nest.output_ranges):
            count = trip_count(loop)
            if count is None or count < 2 or any(a is None or a.along(loop) != 1 for a in stores):
                continue
            return loop
        return None

    @staticmethod
    def _crossing_loop(nest: LoopNest, lane: UOp) -> UOp | None:
        """The output loop along which a load is contiguous that jumps along the lanes.

        A tile over both uses every element of the cache lines that it touches (cpu-recipes 4).
        """
        for access in map(access_of, nest.loads):
            if access is not None and access.along(lane) not in (0, 1):
                for loop in nest.output_ranges:
                    if access.along(loop) == 1 and (trip_count(loop) or 1) > 1:
                        return loop
        return None

    def _accesses(self, roots: list[UOp]) -> list[Access]:
        order = toposort(*roots)
        found = [a for a in map(access_of, (n for n in order if n.op is Op.LOAD)) if a is not None]
        return found + [scratch_access(n) for n in order
                        if n.op is Op.INDEX and n.src[0].op is Op.STAGE]

    def _tile(self, nest: LoopNest, lane: UOp, through: list[UOp]) -> None:
        """A register tile: lanes along outputs, or along the sum where both operands run so."""
        accesses = self._accesses(through)
        unit = all(a.along(lane) in (0, 1) for a in accesses)
        # A short row of outputs leaves lanes empty; a longer sum may fill them.
        short = (trip_count(lane) or 1) < self.lanes(nest)
        if not unit or short:
            inner = self._sum_lane(through, accesses)
            if inner is not None and (not unit or (trip_count(inner) or 0) > 2 * (
                    trip_count(lane) or 1)):
                self._tile_sum(nest, inner, accesses)
                return
            if sum(a.along(lane) not in (0, 1) for a in accesses) * 2 > len(accesses):
                return
        lanes = self.lanes(nest)
        count = trip_count(lane) or 1
        width = min(lanes, 1 << (count.bit_length() - 1))
        varying = [a for a in accesses if lane in a.ranges]
        fixed = [a for a in accesses if lane not in a.ranges]
        registers = self.target.vector_registers
        vectors = 2 if count >= 2 * width and fixed else 1
        rows_loop = self._reuse_loop(nest, lane, varying) if fixed else None
        rows = (registers - 1 - vectors) // vectors
        if rows_loop is not None and rows > 1:
            self._upcast(rows_loop, min(rows, 6 if vectors == 2 else 8))
        elif not fixed and count >= 4 * width:
            vectors = 4
        self._split_lane(lane, width, vectors)
        if rows_loop is not None:
            self._stage_operand()

    def _stage_operand(self) -> None:
        """Pack the operand that has the lanes, if a tile of it is strided and too large for L1."""
        nest = self.nest()
        for load in nest.loads:
            access = access_of(load)
            if access is None or not any(r.arg.axis_type is AxisType.LANE for r in access.ranges):
                continue
            outer = [r for r in nest.output_ranges if r.arg.axis_type is AxisType.LOOP]
            blocks = [r for r in outer if r in access.ranges]
            again = [r for r in outer if r not in access.ranges]
            inside = [r for r in access.ranges if r not in outer]
            tile = turns(inside) * load.dtype.itemsize
            repeats = turns(again)
            strided = any(access.along(r) not in (0, prod(
                trip_count(q) or 1 for q in inside if q is not r)) for r in inside
                if r.arg.axis_type is AxisType.REDUCE)
            total = tile * turns(blocks)
            room = min(self.target.l2_bytes // 2, self.target.scratch_bytes)
            if not (blocks and repeats >= _WORTH_STAGING and strided
                    and total > self.target.l1_bytes and tile <= room):
                continue
            self._stage_block(storage_of(load.src[0]), blocks[-1].arg.id, room // tile,
                              batched=len(blocks) > 1)
            return

    def _stage_block(self, storage: UOp, block: int, tiles: int, *, batched: bool) -> None:
        """Stage as many tiles at once as fit, outside of the loop that uses them again."""
        count = trip_count(find_range(self.nest(), block)) or 1
        most = count if batched else max(1, count // (2 * self.target.cores))
        most = min(tiles, _LARGEST_BLOCK, most)
        factor = next(f for f in range(max(most, 1), 0, -1) if count % f == 0)
        split = 1 < factor < count
        if split:
            self.do(Split(block, factor, AxisType.LOOP))
        nest = self.nest()
        _, access = self._packed(nest, storage)
        loops = [r for r in nest.output_ranges if not is_expanded(r)]
        tile = [r for r in nest.output_ranges if is_expanded(r)]
        mine = [r for r in loops if r in access.ranges]
        inner = mine[-1:] if split or factor == count > 1 else []
        outside = [r for r in mine if r not in inner]
        others = [r for r in loops if r not in mine]
        self.do(Order(tuple(r.arg.id for r in (*outside, *others, *inner, *tile))))
        position, access = self._packed(self.nest(), storage)
        inside = sorted((r for r in access.ranges if r not in outside),
                        key=lambda r: (_layout_order(r), r.arg.id))
        self.do(Stage(position, tuple(r.arg.id for r in inside)))

    @staticmethod
    def _packed(nest: LoopNest, storage: UOp) -> tuple[int, Access]:
        """The load from some storage that has lanes: its position among the loads."""
        for position, load in enumerate(nest.loads):
            access = access_of(load)
            if access is not None and storage_of(load.src[0]) is storage and any(
                    r.arg.axis_type is AxisType.LANE for r in access.ranges):
                return position, access
        raise AssertionError("the operand to pack is gone")

    def _reuse_loop(self, nest: LoopNest, lane: UOp, varying: list[Access]) -> UOp | None:
        """An output loop for rows: the operand with the lanes, loaded once, serves all of them."""
        candidates = [
            r for r in nest.output_ranges
            if r is not lane and (trip_count(r) or 1) > 1
            and all(r not in a.ranges for a in varying)
        ]
        return max(candidates, key=lambda r: trip_count(r) or 1, default=None)

    def _sum_lane(self, through: list[UOp], accesses: list[Access]) -> UOp | None:
        """A reduce loop along which every operand moves by 0 or 1."""
        for reduce in through:
            for loop in reversed(reduce.src[1:]):
                if (trip_count(loop) or 0) >= 4 and all(
                        a.along(loop) in (0, 1) for a in accesses):
                    return loop
        return None

    def _tile_sum(self, nest: LoopNest, inner: UOp, accesses: list[Access]) -> None:
        """Dot products: lanes along the sum, a tile of outputs along which operands repeat."""
        lanes = self.lanes(nest)
        rows: list[UOp] = []
        for access in accesses:
            for loop in nest.output_ranges:
                repeated = loop not in access.ranges and (trip_count(loop) or 1) > 1
                if repeated and loop not in rows:
                    rows.append(loop)
        rows.sort(key=lambda r: -(trip_count(r) or 1))
        if lanes < 2:
            rows = []  # registers are for parts of the sum: one long sum rounds badly
        for loop, factor in zip(rows[:2], (3, 4), strict=False):
            self._upcast(loop, factor)
        # Sums that nothing is shared between keep one adder waiting for its last result.
        accumulators = 1 if rows else 2 * _REDUCE_ACCUMULATORS
        self._split_sum(inner, min(lanes, _power_below(trip_count(inner) or 1)), accumulators)

    def _upcast(self, loop: UOp, factor: int) -> None:
        """Copies along an output loop; a loop that does not divide gets an overlapping tile."""
        count = trip_count(loop) or 1
        factor = min(factor, count)
        # An overlap costs at most one tile in `count // factor`: only short loops avoid it.
        smallest = factor if count >= 8 * factor else max(factor // 2, 1) + 1
        for candidate in range(factor, smallest - 1, -1):
            if count % candidate == 0:
                self.do(Split(loop.arg.id, candidate, AxisType.UPCAST))
                return
        if factor > 1:
            self.do(Split(loop.arg.id, factor, AxisType.UPCAST, self.overlap))

    def _split_lane(self, lane: UOp, lanes: int, vectors: int) -> None:
        """Lanes and, outside of them, several vectors a step."""
        count = trip_count(lane) or 1
        width = min(lanes, _power_below(count))
        if width < 2:
            return
        vectors = max(1, min(vectors, count // width))
        while vectors > 1 and count % (width * vectors) and count < 4 * width * vectors:
            vectors -= 1
        tail = Tail.EXACT if count % (width * vectors) == 0 else self.overlap
        if vectors == 1:
            self.do(Split(lane.arg.id, width, AxisType.LANE, tail))
            return
        self.do(Split(lane.arg.id, width * vectors, AxisType.LANE, tail))
        inner = self._newest(AxisType.LANE)
        self.do(Retype(inner.arg.id, AxisType.UPCAST))
        self.do(Split(inner.arg.id, width, AxisType.LANE))

    def _newest(self, kind: AxisType) -> UOp:
        loops = [n for n in self.nest().order
                 if n.op is Op.RANGE and n.arg.axis_type is kind]
        return max(loops, key=lambda r: r.arg.id)

    def _split_sum(self, loop: UOp, width: int, accumulators: int) -> None:
        """Lanes along a reduce loop, and several accumulators."""
        count = trip_count(loop)
        if count is None or width * accumulators < 2:
            return
        while accumulators > 1 and count % (width * accumulators):
            accumulators //= 2
        tail = Tail.EXACT if count % (width * accumulators) == 0 else Tail.MASK
        if width < 2:
            if accumulators > 1:
                self.do(Split(loop.arg.id, accumulators, AxisType.UPCAST, tail))
            return
        self.do(Split(loop.arg.id, width * accumulators, AxisType.LANE, tail))
        if accumulators > 1:
            inner = self._newest(AxisType.LANE)
            self.do(Retype(inner.arg.id, AxisType.UPCAST))
            self.do(Split(inner.arg.id, width, AxisType.LANE))

    # -- reductions and rows that the output lanes do not run through -----------------------

    def _other_nests(self) -> list[UOp]:
        """REDUCEs and STAGEs without lanes, by the numbers of their loops."""
        nest = self.nest()
        return [
            n for n in (*nest.reductions, *nest.stages)
            if not _has_lane((*n.src[1:], *open_ranges(n)))
        ]

    def _vectorise_inner(self, seen: UOp) -> None:
        """Lanes along the loop of a REDUCE or STAGE along which its loads move by 1."""
        numbers = {r.arg.id for r in seen.src[1:]}
        nest = self.nest()
        node = next((n for n in (*nest.reductions, *nest.stages) if len(n.src) > 1
                     and n.op is seen.op and {r.arg.id for r in n.src[1:]} == numbers), None)
        if node is None or _has_lane(open_ranges(node)):
            return  # the loops round it were given lanes in the meantime
        accesses = self._accesses([node.src[0]])
        lanes = self.lanes(nest)
        inner = [n for n in (*nest.reductions, *nest.stages) if _has_lane(n.src[1:])]
        for loop in reversed(node.src[1:]):
            count = trip_count(loop)
            if count is None or count < 2 or loop.arg.axis_type is AxisType.UPCAST \
                    or any(loop in open_ranges(n) for n in inner):
                continue
            mine = [a for a in accesses if loop in a.ranges]
            if not mine or not all(a.along(loop) in (0, 1) for a in mine):
                continue
            width = min(lanes, _power_below(count))
            if node.op is Op.STAGE:
                if count % width == 0:
                    self.do(Split(loop.arg.id, width, AxisType.LANE))
            else:
                self._split_sum(loop, width, _REDUCE_ACCUMULATORS)
            return

    # -- threads ----------------------------------------------------------------------------

    def thread(self) -> None:
        """Give the output loop with most tiles to threads, outermost."""
        if not self.target.has_threads or self.target.cores < 2:
            return
        nest = self.nest()
        loops = [r for r in nest.output_ranges if r.arg.axis_type is AxisType.LOOP]
        if not loops or estimated_nanoseconds(nest, self.target) < _WORTH_THREADS_NANOSECONDS:
            return
        wanted = 2 * self.target.cores
        shared = self._shared_loops()
        loops = [r for r in loops if all(r in s for s in shared if s)] or loops
        chosen = next((r for r in loops if (trip_count(r) or 0) >= wanted), None)
        if chosen is None:
            chosen = max(loops, key=lambda r: trip_count(r) or 0)
            if (trip_count(chosen) or 0) < 2:
                return
        order = [chosen, *(r for r in nest.output_ranges if r is not chosen)]
        if tuple(order) != nest.output_ranges:
            self.do(Order(tuple(r.arg.id for r in order)))
        self.do(Retype(chosen.arg.id, AxisType.THREAD))


def _layout_order(loop: UOp) -> int:
    """Place of a loop in a staged tile: blocks, then the sum, then the tile's vectors."""
    kind = loop.arg.axis_type
    return {AxisType.LOOP: 0, AxisType.REDUCE: 1, AxisType.UPCAST: 2}.get(kind, 3)


def turns(loops: Iterable[UOp]) -> int:
    """Turns of loops inside of each other; those of unknown extent count once."""
    return prod(trip_count(r) or 1 for r in loops)


def _has_lane(loops: Iterable[UOp]) -> bool:
    """Whether one of some loops is the lanes of a vector: vectors do not nest."""
    return any(r.arg.axis_type is AxisType.LANE for r in loops)


def _power_below(count: int) -> int:
    """Largest power of two that is at most `count`."""
    return 1 << (max(count, 1).bit_length() - 1)


def estimated_nanoseconds(nest: LoopNest, target: Target) -> float:
    """Rough time of a kernel on one thread, from its operations and accesses."""
    total = 0.0
    for node in nest.order:
        cost = operation_flops(node.op) * target.flop_nanoseconds
        if node.op in (Op.LOAD, Op.STORE):
            moved = node if node.op is Op.LOAD else node.src[1]
            cost += moved.dtype.itemsize * target.dram_byte_nanoseconds
        total += cost and cost * turns(open_ranges(node))
    return total


def choose_actions(sink: UOp, target: Target) -> list[Action]:
    """Actions for a kernel; none for a target without vectors and threads."""
    heuristic = Heuristic(sink, target)
    heuristic.hoist()
    heuristic.merge_neighbours()
    if target.vector_bytes:
        heuristic.vectorise()
    heuristic.thread()
    return heuristic.actions
