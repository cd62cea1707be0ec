"""What the scheduler knows of the graph before it chooses: work, storage below, sums in sums.

Each function walks the nodes once, in order.
"""

from __future__ import annotations

from typing import Final

from core.ir import ELEMENTWISE, Op, UOp, largest_dimension, operation_flops
from core.plugin import Target
from core.schedule.cost import Load, nanoseconds

LEAVES: Final = frozenset({Op.PARAM, Op.BUFFER, Op.CONST})
#: Values that are stored wherever they stand.
FORCED: Final = frozenset({Op.CONTIGUOUS, Op.COPY})
#: Nodes inlined into one kernel before the next is stored: bounds the time LLVM needs for one.
LONGEST_CHAIN: Final = 1500
_MOVES: Final = frozenset({Op.PERMUTE, Op.FLIP, Op.RESHAPE, Op.SHRINK, Op.PAD, Op.INDEX})


def value_sources(node: UOp) -> tuple[UOp, ...]:
    """The sources through which values flow: not shapes, not the body of a tabulated function."""
    if node.op in (Op.RESHAPE, Op.EXPAND, Op.SHRINK, Op.PAD):
        return node.src[:1]
    if node.op in LEAVES or node.op in (Op.STAGE, Op.RANGE):
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


def inlined_loads(order: list[UOp], stored: frozenset[UOp], target: Target) -> dict[UOp, Load]:
    """Work and bytes of one element of each node if what is below is inlined.

    What is stored in any case is read: it costs its bytes. So does, to what is above it, the end
    of a long chain, and a reduction dearer than writing and reading an element: it may always be
    stored.
    """
    result: dict[UOp, Load] = {}
    below: dict[UOp, Load] = {}
    depth: dict[UOp, int] = {}
    for node in order:
        if node.op in (Op.PARAM, Op.BUFFER) or node.op in FORCED or node in stored:
            result[node] = below[node] = Load(0.0, node.dtype.itemsize)
            continue
        depth[node] = 1 + max((depth.get(s, 0) for s in value_sources(node)), default=0)
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
        dear = node.op is Op.REDUCE and nanoseconds(load, target) > (
            2 * node.dtype.itemsize * target.dram_byte_nanoseconds)
        if dear or depth[node] > LONGEST_CHAIN:
            below[node], depth[node] = Load(0.0, node.dtype.itemsize), 0
    return result


def leaf_axes(order: list[UOp]) -> dict[UOp, dict[UOp, frozenset[int]]]:
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


def melting_sums(order: list[UOp]) -> frozenset[UOp]:
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


def leaf_bits(order: list[UOp]) -> dict[UOp, int]:
    """For each node the set of what a kernel of it probably reads, one bit each.

    That is storage, and reductions, which mostly are stored: what is below them is not counted.
    """
    numbers: dict[UOp, int] = {}
    result: dict[UOp, int] = {}
    for node in order:
        if node.op in (Op.PARAM, Op.BUFFER, Op.REDUCE):
            result[node] = 1 << numbers.setdefault(node, len(numbers))
            continue
        bits = 0
        for s in value_sources(node):
            bits |= result[s]
        result[node] = bits
    return result
