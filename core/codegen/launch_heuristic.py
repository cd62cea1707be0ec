"""Which loops become launch dimensions, for a target that has them.

The loop along which most accesses move by one element gives the work items of a group, so that
neighbouring items touch neighbouring memory; other output loops become work groups. An output loop
of unknown extent is walked in steps of a fixed number of work groups.
"""

from __future__ import annotations

from typing import Final

from core.codegen.actions import Order, Retype, Split, Tail, find_range
from core.codegen.heuristic import Heuristic, access_of
from core.codegen.loop_nest import trip_count
from core.ir import AxisType, UOp

#: Work items of a group: a multiple of every device's width that is known (32, 64).
_GROUP_ITEMS: Final = 64
#: Groups for each core that walk a loop of unknown extent.
_GROUPS_PER_CORE: Final = 16


class LaunchHeuristic(Heuristic):
    """Actions for launch dimensions."""

    def choose(self) -> None:
        """Merge what can be, give items to one or two loops, and groups to the rest."""
        self.merge_neighbours()
        outputs = self.nest().output_ranges
        if not outputs or not self._one_nest():
            return
        chosen = self._by_contiguity()
        order = [r for r in outputs if r not in chosen] + chosen[::-1]
        if tuple(order) != outputs:
            self.do(Order(tuple(r.arg.id for r in order)))  # the innermost loop is the first axis
        limits, room = self.target.local_limit, self.target.local_total or _GROUP_ITEMS
        assert limits is not None
        room = min(room, _GROUP_ITEMS)
        for loop, limit in zip(chosen, limits, strict=False):
            if min(room, limit) > 1:
                room //= self._give_items(loop.arg.id, min(room, limit))
        for loop in self.nest().output_ranges:
            if loop.arg.axis_type is AxisType.LOOP:
                self._give_groups(loop)

    def _one_nest(self) -> bool:
        """Whether all stores stand in the same loops: these then are the launch."""
        ends = [e for e in self.sink.src if e.src[1:]]
        return len(ends) == len(self.sink.src) and len({frozenset(e.src[1:]) for e in ends}) == 1

    def _by_contiguity(self) -> list[UOp]:
        """Output loops, those along which most accesses move by one element first."""
        nest = self.nest()
        accesses = [a for n in (*nest.stores, *nest.loads) if (a := access_of(n)) is not None]

        def votes(loop: UOp) -> int:
            return sum(a.along(loop) == 1 for a in accesses)

        inner_first = list(reversed(nest.output_ranges))
        return sorted(inner_first, key=votes, reverse=True)[:2]

    def _give_items(self, number: int, room: int) -> int:
        """Work items along a loop; returns how many."""
        loop = find_range(self.nest(), number)
        count = trip_count(loop)
        if count is not None and count <= room:
            if count > 1:
                self.do(Retype(number, AxisType.LOCAL))
            return count
        exact = count is not None and count % room == 0
        self.do(Split(number, room, AxisType.LOCAL, Tail.EXACT if exact else Tail.MASK))
        return room

    def _give_groups(self, loop: UOp) -> None:
        if trip_count(loop) is None:
            groups = _GROUPS_PER_CORE * self.target.cores
            self.do(Split(loop.arg.id, groups, AxisType.GLOBAL, Tail.MASK))
        else:
            self.do(Retype(loop.arg.id, AxisType.GLOBAL))
