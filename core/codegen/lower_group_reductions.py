"""lower-group-reductions: what a work group reduces together goes through scratch.

    REDUCE(x, k, g GROUP_REDUCE)  →  REDUCE(INDEX(STAGE(REDUCE(x, k), g; LOCAL), u), u UNROLL)

Each item of the group reduces its share; all items then combine the shares, which `lower-stages`
keeps in LOCAL memory. Many are combined in steps: a step's results are the shares of the next.
"""

from __future__ import annotations

from itertools import count
from typing import Final

from core.codegen.loop_nest import LoopNest, trip_count
from core.ir import AddressSpace, AxisType, Op, UOp, map_graph
from core.simplify import simplify

#: Shares that one item combines in one step.
_TOGETHER: Final = 8


def lower_group_reductions(sink: UOp) -> UOp:
    """Lower every REDUCE that has GROUP_REDUCE ranges; a kernel without any stays as it is."""
    numbers = count(LoopNest(sink).next_number)

    def visit(node: UOp, original: UOp) -> UOp:
        if node.op is not Op.REDUCE:
            return node
        shared = [r for r in node.src[1:] if r.arg.axis_type is AxisType.GROUP_REDUCE]
        if not shared:
            return node
        value = node.src[0].reduce(node.arg.op, *(r for r in node.src[1:] if r not in shared))
        for loop in shared:
            value = combined(value, loop, node.arg.op)
        return value

    def combined(value: UOp, loop: UOp, op: Op) -> UOp:
        size = trip_count(loop) or 1
        step = next((f for f in range(_TOGETHER, 1, -1) if size % f == 0), size)
        step = size if size <= 2 * _TOGETHER else step
        unrolled = UOp.range(step, next(numbers), AxisType.UNROLL)
        shares = value.stage(loop, space=AddressSpace.LOCAL)
        if step == size:
            return shares.index(unrolled).reduce(op, unrolled)
        rest = UOp.range(size // step, next(numbers), AxisType.GROUP_REDUCE)
        return combined(shares.index(rest * step + unrolled).reduce(op, unrolled), rest, op)

    return simplify(map_graph(sink, visit))
