"""expand-tiles: UPCAST and UNROLL ranges become copies, LANE ranges become vectors.

    END(STORE(a[u], x(u)), u)        → GROUP(STORE(a[0], x(0)), STORE(a[1], x(1)), ...)
    END(STORE(b[i*8 + l], x(l)), l)  → STORE(SHRINK(b, i*8, 8), x(<0..7>))

A place whose index moves by 1 along the lanes is a contiguous vector; any other becomes a gather
or a scatter. What depends on no tile range is shared by all copies.
"""

from __future__ import annotations

from itertools import product

from core.codegen.linear_index import linear_index
from core.codegen.loop_nest import is_expanded, trip_count
from core.ir import AxisType, Op, UOp, map_graph, open_ranges, substitute
from core.simplify import simplify


def lanes_of(loop: UOp) -> UOp:
    """The vector <0, 1, ...> of a LANE range."""
    return UOp.stack(*(UOp.const(k) for k in range(trip_count(loop) or 1)))


class _Expander:
    """Copies of effects at points of tile ranges; one memo per point of the ranges a node uses."""

    def __init__(self) -> None:
        self.memo: dict[tuple[UOp, tuple[tuple[UOp, UOp], ...]], UOp] = {}

    def at(self, root: UOp, point: dict[UOp, UOp]) -> UOp:
        """`root` with each range of `point` replaced; nodes that use none of them are shared."""
        stack = [root]
        while stack:
            node = stack[-1]
            key = self._key(node, point)
            if key in self.memo:
                stack.pop()
                continue
            if not key[1]:
                self.memo[key] = node
                stack.pop()
                continue
            if node.op is Op.RANGE:
                self.memo[key] = point[node]
                stack.pop()
                continue
            place = self._contiguous(node, point)
            sources = node.src if place is None else place
            missing = [s for s in sources if self._key(s, point) not in self.memo]
            if missing:
                stack.extend(missing)
                continue
            built = tuple(self.memo[self._key(s, point)] for s in sources)
            if place is None:
                self.memo[key] = UOp(node.op, _gathered(node.op, built), node.arg, node.tag)
            else:
                lanes = next(v for r, v in point.items() if r.arg.axis_type is AxisType.LANE)
                self.memo[key] = vector_place(built[0], built[1], lanes)
            stack.pop()
        return self.memo[self._key(root, point)]

    @staticmethod
    def _key(node: UOp, point: dict[UOp, UOp]) -> tuple[UOp, tuple[tuple[UOp, UOp], ...]]:
        opened = open_ranges(node)
        return node, tuple((r, v) for r, v in point.items() if r in opened)

    @staticmethod
    def _contiguous(node: UOp, point: dict[UOp, UOp]) -> tuple[UOp, UOp] | None:
        """(storage, first index) of a place whose index moves by 1 along the lanes."""
        if node.op is not Op.INDEX or len(node.src) != 2:
            return None
        lane = next((r for r in point if r.arg.axis_type is AxisType.LANE), None)
        if lane is None or lane not in open_ranges(node.src[1]):
            return None
        if linear_index(node.src[1]).along(lane) != 1:
            return None
        return node.src[0], simplify(substitute(node.src[1], {lane: UOp.const(0)}))


def _gathered(op: Op, sources: tuple[UOp, ...]) -> tuple[UOp, ...]:
    """Sources of a node; a LOAD of one place under a gate of many lanes becomes a gather."""
    if op is not Op.LOAD or len(sources) < 2 or sources[0].shape or not sources[1].shape:
        return sources
    place, gate = sources
    index = UOp.stack(*(place.src[1],) * gate.shape[0])
    return place.replace(src=(place.src[0], index)), gate


def vector_place(storage: UOp, start: UOp, lanes: UOp) -> UOp:
    """Neighbouring elements of storage from `start` on.

    A box must not leave its storage. Where a gate keeps lanes from leaving it (a padded row), the
    place is one for each lane.
    """
    if not open_ranges(start):
        start = simplify(start)
        count = lanes.shape[0]
        if start.op is Op.CONST and not 0 <= start.value <= storage.shape[0] - count:
            return storage.index(lanes + start)
    return storage.lanes(start, lanes.shape[0])


def expand_tiles(sink: UOp) -> UOp:
    """Expand every END over tile ranges, inner ones first."""
    expander = _Expander()

    def visit(node: UOp, original: UOp) -> UOp:
        if node.op is not Op.END:
            return node
        tile = [r for r in node.src[1:] if is_expanded(r)]
        if not tile:
            return node
        loops = [r for r in node.src[1:] if not is_expanded(r)]
        copied = [r for r in tile if r.arg.axis_type is not AxisType.LANE]
        lanes = {r: lanes_of(r) for r in tile if r.arg.axis_type is AxisType.LANE}
        effects: list[UOp] = []
        for chosen in product(*(range(trip_count(r) or 1) for r in copied)):
            point = dict(zip(copied, map(UOp.const, chosen), strict=True)) | lanes
            effects.append(expander.at(node.src[0], point))
        return UOp.group(*dict.fromkeys(effects)).end(*loops)

    return map_graph(simplify(map_graph(sink, visit)), as_vectors)


def as_vectors(node: UOp, original: UOp) -> UOp:
    """Repeated constants are vectors here, and a gate that is always open is none."""
    if node.op is Op.EXPAND and not node.src[0].shape:
        return UOp.stack(*(node.src[0],) * node.shape[0])
    places = 1 if node.op is Op.LOAD else 2
    if node.op in (Op.LOAD, Op.STORE) and len(node.src) > places and _is_true(node.src[places]):
        return node.replace(src=node.src[:places])
    return node


def _is_true(gate: UOp) -> bool:
    lanes = gate.src if gate.op is Op.STACK else (gate,)
    return all(lane.op is Op.CONST and lane.value is True for lane in lanes)
