"""lower-stages: STAGE becomes storage, a loop that fills it, and reads after the fill.

    INDEX(STAGE(x, j; LOCAL), i)  →  b = BUFFER LOCAL
                                     fill: b[j] = x(j)     for j
                                     LOAD(b[i])            after the fill

Open UPCAST and LANE ranges of x become leading axes of the storage, as in lower-reductions.
"""

from __future__ import annotations

from itertools import count

from core.codegen.loop_nest import LoopNest, is_expanded, trip_count
from core.codegen.lower_reductions import private_buffer, tile_order, tile_position
from core.ir import Op, UOp, map_graph, open_ranges, substitute
from core.simplify import simplify

# Numbers of LOCAL buffers start here, apart from those of accumulators.
_FIRST_NUMBER = 1000


class _Stager:
    def __init__(self, nest: LoopNest) -> None:
        self.numbers = count(nest.next_number)
        self.buffers = count(_FIRST_NUMBER)
        self.filled: dict[UOp, tuple[UOp, list[UOp]]] = {}

    def fill(self, stage: UOp) -> tuple[UOp, list[UOp]]:
        """(storage after its fill, open tile ranges that are its leading axes)."""
        if stage in self.filled:
            return self.filled[stage]
        value, ranges = stage.src[0], list(stage.src[1:])
        opened = open_ranges(stage)
        tile = tile_order(frozenset(r for r in opened if is_expanded(r)))
        fresh = {r: UOp.range(r.src[0], next(self.numbers), r.arg.axis_type) for r in tile}
        axes = [*fresh.values(), *ranges]
        position, size = tile_position(axes)
        storage = private_buffer(next(self.buffers), stage.dtype, size, stage.arg)
        outer = sorted((r for r in opened if not is_expanded(r)), key=lambda r: r.arg.id)
        place = storage.after(*outer).index(position)
        moved = substitute(value, fresh)
        loops = [r for r in ranges if not is_expanded(r)]
        expanded = [r for r in axes if is_expanded(r)]
        effect = place.store(moved).end(*loops, *expanded)
        self.filled[stage] = storage.after(effect), tile
        return self.filled[stage]

    def read(self, stage: UOp, index: tuple[UOp, ...]) -> UOp:
        """The value of a STAGE at an index."""
        storage, tile = self.fill(stage)
        position, stride = UOp.const(0), 1
        loops = (*tile, *stage.src[1:])
        for i, loop in zip(reversed([*tile, *index]), reversed(loops), strict=True):
            position = i * stride + position
            stride *= _trips(loop)
        return storage.index(position).load()


def _trips(loop: UOp) -> int:
    return trip_count(loop) or 1


def lower_stages(sink: UOp) -> UOp:
    """Lower every STAGE; an INDEX of one becomes a LOAD after the fill."""
    stager = _Stager(LoopNest(sink))

    def visit(node: UOp, original: UOp) -> UOp:
        if node.op is Op.INDEX and node.src[0].op is Op.STAGE:
            return stager.read(node.src[0], node.src[1:])
        return node

    return simplify(map_graph(sink, visit))
