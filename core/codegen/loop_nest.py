"""Reading a kernel: its loops, stores, loads and reductions.

A kernel is SINK(END(GROUP(STORE(INDEX(PARAM, index), value)...), output ranges...)); inside are
REDUCEs over their own ranges and STAGEs over theirs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from core.ir import AxisType, Op, UOp, map_graph, toposort

EXPANDED = frozenset({AxisType.UPCAST, AxisType.LANE, AxisType.UNROLL})


def is_expanded(loop: UOp) -> bool:
    """Whether a RANGE becomes copies or lanes instead of a loop."""
    return loop.arg.axis_type in EXPANDED


def trip_count(loop: UOp) -> int | None:
    """Iterations of a RANGE, None if symbolic."""
    bound = loop.src[0]
    return int(bound.value) if bound.op is Op.CONST else None


def _nodes(op: Op) -> cached_property[list[UOp]]:
    return cached_property(lambda nest: [n for n in nest.order if n.op is op])


@dataclass(frozen=True)
class LoopNest:
    """A kernel, read once.

    Attributes:
        sink: The kernel.
        reductions: The REDUCEs, inner ones first; so, too, its `stages`, `stores` and `loads`.
    """

    sink: UOp

    @cached_property
    def order(self) -> list[UOp]:
        """All nodes, sources first."""
        return toposort(self.sink)

    @cached_property
    def output_ranges(self) -> tuple[UOp, ...]:
        """The loops round the stores, outermost first."""
        ends = [e for e in self.sink.src if e.op is Op.END]
        return tuple(dict.fromkeys(r for e in ends for r in e.src[1:]))

    reductions = _nodes(Op.REDUCE)
    stages = _nodes(Op.STAGE)
    stores = _nodes(Op.STORE)
    loads = _nodes(Op.LOAD)

    @cached_property
    def next_number(self) -> int:
        """A number that no RANGE of the kernel has."""
        return 1 + max((n.arg.id for n in self.order if n.op is Op.RANGE), default=-1)


def replace_range(sink: UOp, loop: UOp, value: UOp, ranges: tuple[UOp, ...]) -> UOp:
    """Replace a loop by an expression of other loops.

    END, REDUCE and STAGE lists that hold `loop` hold `ranges` in its place.
    """

    def visit(node: UOp, original: UOp) -> UOp:
        if original.op in (Op.END, Op.REDUCE, Op.STAGE) and loop in original.src[1:]:
            src = [node.src[0]]
            for old, new in zip(original.src[1:], node.src[1:], strict=True):
                src.extend(ranges if old is loop else (new,))
            return UOp(node.op, tuple(src), node.arg, node.tag)
        if original.op is Op.INDEX and original.src[0].op is Op.STAGE:
            return _read_of_stage(node, original, loop, ranges)
        return node

    return map_graph(sink, visit, {loop: value})


def _read_of_stage(node: UOp, original: UOp, loop: UOp, ranges: tuple[UOp, ...]) -> UOp:
    """An element of a STAGE whose axis became two: i → (i // inner, i % inner)."""
    stage = original.src[0]
    if loop not in stage.src[1:] or len(ranges) != 2:
        return node
    axis = stage.src[1:].index(loop)
    inner = ranges[1].src[0]
    index = list(node.src[1:])
    index[axis:axis + 1] = [index[axis] // inner, index[axis] % inner]
    return node.replace(src=(node.src[0], *index))
