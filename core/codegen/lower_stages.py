"""lower-stages: STAGE becomes storage, a loop that fills it, and reads after the fill.

    INDEX(STAGE(x, j; LOCAL), i)  →  b = BUFFER LOCAL
                                     fill: b[j] = x(j)     for j
                                     LOAD(b[i])            after the fill

Open UPCAST and LANE ranges of x become leading axes of the storage, as in lower-reductions. Where
work items share it, so do open LOCAL ranges; then the items fill it together: item number n of N
writes elements n, N + n, 2N + n, ... A BARRIER stands behind the fill, and before it where the fill
is in a loop, whose last turn may still be read.
"""

from __future__ import annotations

from itertools import count
from math import prod
from typing import Final

from core.codegen.loop_nest import LoopNest, is_expanded, trip_count
from core.codegen.lower_launch import launch_index, launch_items
from core.codegen.lower_reductions import private_buffer, tile_order, tile_position
from core.foundation.errors import CompileError
from core.ir import AxisType, Op, UOp, map_graph, open_ranges, substitute, toposort
from core.plugin import Target
from core.simplify import simplify

# Numbers of LOCAL buffers start here, apart from those of accumulators.
_FIRST_NUMBER: Final = 1000
#: Elements that an item fills without a loop: their loads are under way together.
_UNROLLED: Final = 8


class _Stager:
    def __init__(self, nest: LoopNest, target: Target) -> None:
        self.numbers = count(nest.next_number)
        self.buffers = count(_FIRST_NUMBER)
        self.filled: dict[UOp, tuple[UOp, UOp]] = {}
        self.inner = {r for s in nest.stages for r in s.src[1:]}
        launch = launch_items(nest.sink)
        sizes = [_trips(r) for r in launch]
        shares = max((prod(map(_trips, (*_members(s), *s.src[1:]))) for s in nest.stages
                      if any(r.arg.axis_type is AxisType.GROUP_REDUCE for r in s.src[1:])),
                     default=1)
        limits, total = target.local_limit or (1,), target.local_total or 1
        if shares > prod(sizes) and len(sizes) < len(limits):  # items that only help to reduce
            sizes.append(min(-(-shares // prod(sizes)), limits[len(sizes)], total // prod(sizes)))
        self.member, self.items = UOp.const(0), 1
        for k, size in enumerate(sizes):
            self.member = launch_index(f"l{k}", size) * self.items + self.member
            self.items *= size

    def fill(self, stage: UOp) -> tuple[UOp, UOp]:
        """(storage after its fill, position in it of an element: open tiles and items lead)."""
        if stage in self.filled:
            return self.filled[stage]
        opened = open_ranges(stage)
        tile = [*_members(stage), *tile_order(frozenset(r for r in opened if is_expanded(r)))]
        outer = sorted((r for r in opened if r not in tile), key=lambda r: r.arg.id)
        axes = [*tile, *stage.src[1:]]
        position, size = tile_position(axes)
        storage = private_buffer(next(self.buffers), stage.dtype, size, stage.arg)
        if self.items > 1:
            looping = [r for r in outer if r.arg.axis_type is not AxisType.GLOBAL]
            if self.inner & opened:
                raise CompileError("scratch of a work group is filled where its items share a loop")
            before = (*outer, UOp(Op.BARRIER, tuple(looping))) if looping else outer
            fresh, loops, inside = self._shared(axes)
        else:
            before, inside = outer, None
            fresh = {r: UOp.range(r.src[0], next(self.numbers), r.arg.axis_type) for r in tile}
            loops = sorted((fresh.get(r, r) for r in axes), key=is_expanded)
        at = substitute(position, fresh)
        place = storage.after(*before).index(at if inside is None else at.valid(inside))
        effect = place.store(substitute(stage.src[0], fresh)).end(*loops)
        done = UOp(Op.BARRIER, (effect,)) if self.items > 1 else effect
        self.filled[stage] = storage.after(done), position
        return self.filled[stage]

    def _shared(self, axes: list[UOp]) -> tuple[dict[UOp, UOp], list[UOp], UOp | None]:
        """(the axes as one item sees them, its loops, and where it has an element at all)."""
        lanes = {r: UOp.range(r.src[0], next(self.numbers), AxisType.LANE)
                 for r in axes if r.arg.axis_type is AxisType.LANE}
        total = prod(_trips(r) for r in axes if r not in lanes)
        turns = -(-total // self.items)
        kind = AxisType.UPCAST if turns <= _UNROLLED else AxisType.LOOP
        turn = UOp.range(turns, next(self.numbers), kind)
        rest = (turn * self.items if turns > 1 else UOp.const(0)) + self.member
        inside = rest < total if total % self.items else None
        rest = rest if inside is None else rest.minimum(total - 1)
        fresh = dict(lanes)
        for r in reversed([r for r in axes if r not in lanes]):
            fresh[r], rest = rest % _trips(r), rest // _trips(r)
        return fresh, [*([turn] if turns > 1 else []), *lanes.values()], inside

    def read(self, stage: UOp, index: tuple[UOp, ...]) -> UOp:
        """The value of a STAGE at an index."""
        storage, position = self.fill(stage)
        at = substitute(position, dict(zip(stage.src[1:], index, strict=True)))
        return storage.index(at).load()


def _trips(loop: UOp) -> int:
    return trip_count(loop) or 1


def _members(stage: UOp) -> list[UOp]:
    """The LOCAL ranges that a STAGE depends on: each of their items has a part of its storage."""
    return sorted((r for r in open_ranges(stage) if r.arg.axis_type is AxisType.LOCAL),
                  key=lambda r: r.arg.id)


def lower_stages(sink: UOp, target: Target) -> UOp:
    """Lower every STAGE; an INDEX of one becomes a LOAD after the fill.

    Raises:
        CompileError: Scratch of a work group is filled at a place that its items do not share.
    """
    stager = _Stager(LoopNest(sink), target)

    def visit(node: UOp, original: UOp) -> UOp:
        if node.op is Op.INDEX and node.src[0].op is Op.STAGE:
            return stager.read(node.src[0], node.src[1:])
        return node

    return _with_few_barriers(simplify(map_graph(sink, visit)))


def _with_few_barriers(sink: UOp) -> UOp:
    """Fills of one loop's body that do not read each other share one BARRIER behind them."""
    while True:
        level: dict[UOp, int] = {}
        groups: dict[tuple[int, frozenset[UOp]], list[UOp]] = {}
        for node in toposort(sink):
            level[node] = max((level[s] for s in node.src), default=0)
            if node.op is Op.BARRIER and node.src[0].op is not Op.RANGE:
                level[node] += 1
                loops = frozenset(r for r in open_ranges(node)
                                  if r.arg.axis_type is not AxisType.GLOBAL)
                groups.setdefault((level[node], loops), []).append(node)
        found = next((g for key, g in sorted(groups.items(), key=lambda p: p[0][0])
                      if len(g) > 1), None)
        if found is None:
            return sink
        together = UOp(Op.BARRIER, tuple(s for b in found for s in b.src))
        sink = substitute(sink, dict.fromkeys(found, together))
