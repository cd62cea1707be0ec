"""Which loops become launch dimensions, for a target that has them.

The loop along which most accesses move by one element gives the work items of a group, so that
neighbouring items touch neighbouring memory; other output loops become work groups. An output loop
of unknown extent is walked in steps of a fixed number of work groups. Operands that several outputs
share get a register tile per item, and a tile in work-group memory where that is fast. What no item
needs alone, a row's scratch or a sum with few results, the items of a group compute together.
"""

from __future__ import annotations

from math import prod
from typing import Final

from core.codegen.actions import Order, Retype, Split, Stage, Tail
from core.codegen.heuristic import Heuristic, access_of, turns
from core.codegen.loop_nest import LoopNest, is_expanded, trip_count
from core.ir import ELEMENTWISE, AxisType, Op, UOp, open_ranges

#: Work items of a group: a multiple of every device's width that is known (32, 64).
_GROUP_ITEMS: Final = 64
#: Items along each of two loops with register tiles: the square shares most.
_SQUARE: Final = 8
#: Rows of a register tile, and turns of a sum whose operands are staged at once.
_ROWS: Final = 8
_STAGED_TURNS: Final = 16
#: Groups for each core that walk a loop of unknown extent.
_GROUPS_PER_CORE: Final = 16
#: Items for each core below which a long sum is shared out.
_FEW_PER_CORE: Final = 256
#: Elements of a sum that pay for the barriers of sharing it.
_LONG: Final = 128
#: Vectors are for short kernels: what has no vector form is written out for each lane.
_SHORT: Final = 24


class LaunchHeuristic(Heuristic):
    """Actions for launch dimensions."""

    def choose(self) -> None:
        """Merge what can be, tile, give items to one or two loops, and groups to the rest."""
        self.merge_neighbours()
        nest = self.nest()
        if len({e.src[1:] if e.op is Op.END else () for e in self.sink.src}) > 1:
            return  # stores stand in different loops: no one launch
        tiled = bool(self.target.vector_bytes) and self._tile_item(nest)
        outputs = [r for r in self.nest().output_ranges if not is_expanded(r)]
        rows = frozenset[UOp]() if tiled else self._rows(nest)
        shared = self.target.has_local and not tiled and (bool(rows) or self._is_sum_of_few(nest))
        chosen = [r for r in self._by_contiguity() if r not in rows]
        if shared and not rows:
            reads = self._accesses(nest.reductions)
            chosen = [r for r in chosen if any(a.along(r) == 1 for a in reads)][:1]
        order = [r for r in outputs if r not in chosen] + chosen[::-1]
        order += [r for r in self.nest().output_ranges if is_expanded(r)]
        if tuple(order) != self.nest().output_ranges:
            self.do(Order(tuple(r.arg.id for r in order)))  # the innermost loop is the first axis
        items = self._give_items(chosen, square=tiled or (shared and not rows))
        for loop in self.nest().output_ranges:  # a group walks along its row
            if loop.arg.axis_type is AxisType.LOOP and not (shared and rows and loop not in rows):
                self._give_groups(loop)
        if self.target.has_local:
            self._share_sums(items if items > 1 and rows else _GROUP_ITEMS, shared=shared)
        if tiled and self.target.local_is_fast:
            self._stage_operands()

    # -- items and groups -------------------------------------------------------------------

    def _by_contiguity(self) -> list[UOp]:
        """Output loops, those along which most accesses move by one element first."""
        nest = self.nest()
        accesses = [a for n in (*nest.stores, *nest.loads) if (a := access_of(n)) is not None]

        def votes(loop: UOp) -> int:
            return sum(a.along(loop) == 1 for a in accesses)

        inner_first = [r for r in reversed(nest.output_ranges) if not is_expanded(r)]
        return sorted(inner_first, key=votes, reverse=True)[:2]

    def _give_items(self, loops: list[UOp], *, square: bool) -> int:
        """Work items along some loops; returns how many a group has."""
        items, room = 1, min(self.target.local_total or _GROUP_ITEMS, _GROUP_ITEMS)
        for loop, limit in zip(loops, self.target.local_limit or (), strict=False):
            most = min(room // items, limit, _SQUARE if square else limit)
            count = trip_count(loop)
            if count is not None and count <= most:
                most = count
                if count > 1:
                    self.do(Retype(loop.arg.id, AxisType.LOCAL))
            elif most > 1:
                exact = count is not None and count % most == 0
                self.do(Split(loop.arg.id, most, AxisType.LOCAL,
                              Tail.EXACT if exact else Tail.MASK))
            items *= most
        return items

    def _give_groups(self, loop: UOp) -> None:
        if trip_count(loop) is None:
            groups = _GROUPS_PER_CORE * self.target.cores
            self.do(Split(loop.arg.id, groups, AxisType.GLOBAL, Tail.MASK))
        else:
            self.do(Retype(loop.arg.id, AxisType.GLOBAL))

    # -- what a group computes together -----------------------------------------------------

    def _rows(self, nest: LoopNest) -> frozenset[UOp]:
        """Output loops round scratch and sums that all items along the others share."""
        outputs = frozenset(nest.output_ranges)
        rows = frozenset[UOp]().union(*self._shared_loops())
        if not nest.stages and not rows < outputs:
            return frozenset()
        return rows.union(*(open_ranges(n) & outputs for n in nest.stages))

    def _is_sum_of_few(self, nest: LoopNest) -> bool:
        """Whether long sums have too few results to keep the device busy one item for each."""
        results = prod(trip_count(r) or _LONG for r in nest.output_ranges)
        return results < _FEW_PER_CORE * self.target.cores and any(
            turns(n.src[1:]) >= _LONG for n in nest.reductions)

    def _share_sums(self, items: int, *, shared: bool) -> None:
        """Reductions on which no item depends alone are computed by the whole group."""
        outputs = {r.arg.id for r in self.nest().output_ranges}
        while (found := next((n for n in self.nest().reductions if self._may_share(
                n, outputs, shared=shared)), None)) is not None:
            loop = self._contiguous_loop(found)
            count = trip_count(loop) or 1
            factor = min(max(items // turns(_members(found)), 1), 1 << (count.bit_length() - 1))
            self.do(Split(loop.arg.id, factor, AxisType.GROUP_REDUCE,
                          Tail.EXACT if count % factor == 0 else Tail.MASK))

    def _may_share(self, reduce: UOp, outputs: set[int], *, shared: bool) -> bool:
        """Whether a group may compute a reduction together, and gains by it."""
        nest, opened, members = self.nest(), open_ranges(reduce), _members(reduce)
        grouped = any(r.arg.axis_type is AxisType.LOCAL for r in nest.output_ranges)
        return ((shared or (grouped and not members)) and len(reduce.src) > 1
                and all(r.arg.axis_type is AxisType.REDUCE for r in reduce.src[1:])
                and (trip_count(self._contiguous_loop(reduce)) or 0) >= 2 * _SQUARE
                and all(r.arg.id in outputs and not is_expanded(r) for r in opened)
                and not (members and self._rows(nest)))

    def _contiguous_loop(self, reduce: UOp) -> UOp:
        """The loop of a reduction along which most is contiguous, or the longest."""
        accesses = self._accesses([reduce.src[0]])
        return max(reduce.src[1:], key=lambda r: (
            (trip_count(r) or 0) >= 2 * _SQUARE, sum(a.along(r) == 1 for a in accesses),
            trip_count(r) or 0))

    # -- tiles ------------------------------------------------------------------------------

    def _tile_item(self, nest: LoopNest) -> bool:
        """Vectors and, for sums whose operands several outputs share, rows; whether it has rows."""
        lane = self._output_lane(nest)
        if lane is None or nest.stages:
            return False
        through = [n for n in nest.reductions if lane in open_ranges(n)]
        accesses = self._accesses(through or nest.stores)
        many = nest.reductions == through and (
            turns(nest.output_ranges) >= _FEW_PER_CORE * self.target.cores)
        if not all(a.along(lane) in (0, 1) for a in accesses):
            inner = self._sum_lane(through, accesses) if through and many else None
            if inner is not None:
                self._tile_sum(nest, inner, accesses)
            return inner is not None
        if not through:
            if not nest.reductions and sum(n.op in ELEMENTWISE for n in nest.order) <= _SHORT:
                self._try_vector(lane, 16 // (self.target.vector_bytes // self.lanes(nest)))
            return False
        varying = [a for a in accesses if lane in a.ranges]
        rows = self._reuse_loop(nest, lane, varying) if len(varying) < len(accesses) else None
        if rows is None or not many:
            return False
        self._upcast(rows, min(_ROWS, self.target.vector_registers // 2))
        self._try_vector(lane, self.lanes(nest))
        return True

    def _try_vector(self, lane: UOp, width: int) -> None:
        """Lanes along a loop that they divide."""
        while width > 1 and (trip_count(lane) or 1) % width:
            width //= 2
        if width > 1:
            self.do(Split(lane.arg.id, width, AxisType.LANE))

    def _stage_operands(self) -> None:
        """Tiles of what several items of a group read, for some turns of the sum at a time."""
        sums = self.nest().reductions[0].src[1:]
        count = trip_count(sums[-1]) or 0
        if any(map(is_expanded, sums)) or (count > _STAGED_TURNS and count % _STAGED_TURNS):
            return
        if count > _STAGED_TURNS:
            self.do(Split(sums[-1].arg.id, _STAGED_TURNS, AxisType.REDUCE))
        for position in range(len(self.nest().loads)):
            nest = self.nest()
            load, last = nest.loads[position], nest.reductions[0].src[-1]
            opened = open_ranges(load)
            inside = [r for r in (last, *nest.output_ranges)
                      if r in opened and r.arg.axis_type is not AxisType.GLOBAL]
            shared = any(r.arg.axis_type is AxisType.LOCAL and r not in opened
                         for r in nest.output_ranges)
            size = turns(inside) * load.dtype.itemsize
            if shared and last in opened and 4 * size <= self.target.scratch_bytes:
                self.do(Stage(position, tuple(r.arg.id for r in inside)))


def _members(node: UOp) -> list[UOp]:
    """The loops over items of a group on which a node depends."""
    return [r for r in open_ranges(node) if r.arg.axis_type is AxisType.LOCAL]
