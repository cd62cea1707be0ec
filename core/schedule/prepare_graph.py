"""prepare-graph: what the range assigner need not know about.

    CALL(body, a)            → body with PARAM 0 replaced by a
    value of no elements     → a constant, so that nothing is read
    REDUCE over no elements  → its neutral element
    sum of float16, ...      → CAST of the sum of float32: rounded once (DESIGN 2, Numbers)
    BITCAST, other item size → shifts of unsigned integers
    STACK of many values     → STACK of parts that are stored: a kernel takes `Target.max_buffers`
    REDUCE of many to few    → REDUCE(ko) of CONTIGUOUS(REDUCE(ki)): see `split_reduction`
"""

from __future__ import annotations

from math import prod
from typing import Any, Final

from core.ir import (
    DType,
    Op,
    UOp,
    dtypes,
    largest_dimension,
    map_graph,
    neutral_element,
    toposort,
)
from core.plugin import Target
from core.schedule.graph_facts import value_sources

# Reductions shorter than this stay whole (algorithms.md 4.3).
_LONG: Final = 32_768
_UNSIGNED: Final = {1: dtypes.uint8, 2: dtypes.uint16, 4: dtypes.uint32, 8: dtypes.uint64}
_OPAQUE: Final = frozenset({Op.SINK, Op.PROGRAM, Op.LINEAR, Op.CUSTOM_FUNCTION, Op.COPY})
_KEPT: Final = frozenset({Op.SINK, Op.STORE, Op.CONST, Op.PARAM, Op.BUFFER, Op.STAGE})


def prepare_graph(sink: UOp, target: Target) -> UOp:
    """Apply the rewrites bottom-up, in one walk."""
    shapes = {
        s for n in toposort(sink)
        for s in n.src if s not in value_sources(n) and n.op is not Op.STAGE
    }

    def visit(node: UOp, original: UOp) -> UOp:
        if original in shapes or node.op in _KEPT or not _has_value(node):
            return node
        if is_graph_call(node):
            return inline_call(node)
        if node.op is Op.GETTUPLE and node.src[0].op is Op.TUPLE:
            value: UOp = node.src[0].src[node.arg]
            return value
        if 0 in node.shape:
            return node.const_like(0).expand(node.shape)
        if node.op is Op.STACK:
            return split_stack(node, target.max_buffers - 1)
        if node.op is Op.BITCAST and node.dtype.itemsize != node.src[0].dtype.itemsize:
            return bitcast_by_shifts(node.src[0], node.dtype)
        if node.op is Op.REDUCE:
            if 0 in node.src[0].shape:
                return node.const_like(neutral_element(node.arg.op, node.dtype)).expand(node.shape)
            if node.dtype.is_float and node.dtype.bits < 32 and node.arg.op is not Op.MAX:
                wide = node.src[0].cast(dtypes.float32).reduce(node.arg.op, axes=node.arg.axes)
                return split_reduction(wide, target).cast(node.dtype)
            return split_reduction(node, target)
        return node

    return map_graph(sink, visit)


def _has_value(node: UOp) -> bool:
    return node.dtype.kind != "void" or node.op in (Op.CALL, Op.GETTUPLE)


def is_graph_call(node: UOp) -> bool:
    """Whether a node is a CALL of a graph, which may be substituted."""
    return node.op is Op.CALL and node.src[0].op not in _OPAQUE


def inline_call(call: UOp) -> UOp:
    """Body of a CALL with its PARAMs replaced by the arguments.

    The PARAMs inside the body of a CALL in it are that one's own.
    """
    body, arguments = call.src[0], call.src[1:]
    result: dict[UOp, UOp] = {}
    stack = [body]
    while stack:
        node = stack[-1]
        if node in result:
            stack.pop()
            continue
        if node.op is Op.PARAM and 0 <= node.arg.slot < len(arguments):
            result[node] = arguments[node.arg.slot]
            continue
        kept = node.src[:1] if is_graph_call(node) else ()
        missing = [s for s in node.src[len(kept):] if s not in result]
        if missing:
            stack.extend(reversed(missing))
            continue
        src = (*kept, *[result[s] for s in node.src[len(kept):]])
        result[node] = node if src == node.src else node.replace(src=src)
    return result[body]


def split_stack(node: UOp, limit: int) -> UOp:
    """STACK(x...) → SHRINK(RESHAPE(STACK(CONTIGUOUS(STACK(x...))...))), at most `limit` in each.

    The last part is filled up with its last value, which the SHRINK leaves away.
    """
    count, rest = len(node.src), node.shape[1:]
    if count <= limit or all(s.op is Op.CONST for s in node.src):
        return node
    filled = node.src + node.src[-1:] * (-count % limit)
    parts = [filled[k:k + limit] for k in range(0, count, limit)]
    whole = UOp.stack(*(UOp.stack(*part).contiguous() for part in parts))
    flat = split_stack(whole, limit).reshape((len(parts) * limit, *rest))
    return flat.shrink((0,) * len(node.shape), node.shape)


def bitcast_by_shifts(x: UOp, target: DType) -> UOp:
    """BITCAST between item sizes, little endian: the last axis grows or shrinks by the quotient."""
    sizes = sorted((x.dtype.itemsize, target.itemsize))
    narrow, wide = (_UNSIGNED[size] for size in sizes)
    ratio, (*lead, last) = sizes[1] // sizes[0], x.shape
    part = UOp.range(ratio, 0)
    shifts = (part * (8 * sizes[0])).cast(wide).stage(part)
    if target.itemsize < x.dtype.itemsize:
        words = x.bitcast(wide).expand((ratio,)).permute((*range(1, len(x.shape) + 1), 0))
        parts = words.alu(Op.SHR, shifts.expand(x.shape)).cast(narrow)
        return parts.reshape((*lead, last * ratio)).bitcast(target)
    shape = (*lead, last // ratio, ratio)
    parts = x.bitcast(narrow).reshape(shape).cast(wide)
    moved = parts.alu(Op.SHL, shifts.expand(shape[:-1]))
    axis = len(lead) + 1
    return moved.permute((axis, *range(axis))).reduce(Op.ADD, axes=1).bitcast(target)


def split_reduction(node: UOp, target: Target) -> UOp:
    """Split a long reduction with few results so that all cores take part.

    REDUCE(k) → REDUCE(ko) of CONTIGUOUS(REDUCE(ki)), ko = 4 x cores: a reduction may be split into
    partial sums (DESIGN 2, Numbers).
    """
    source, axes = node.src[0], node.arg.axes
    if not all(isinstance(d, int) for d in source.shape):
        return node
    extent, results = prod(source.shape[:axes]), prod(map(largest_dimension, node.shape))
    if results >= 2 * target.cores or extent <= _LONG:
        return node
    parts = _parts(source.shape[:axes], 4 * target.cores)
    if parts is None:
        return node
    outer_shape, inner_shape, order = parts
    rest: list[Any] = list(node.shape)
    split = source.reshape([*outer_shape, *rest]).permute(
        [*order, *range(len(outer_shape), len(outer_shape) + len(rest))]
    )
    partial = split.reduce(node.arg.op, axes=inner_shape)
    return partial.contiguous().reduce(node.arg.op, axes=1)


def _parts(shape: tuple[int, ...], wanted: int) -> tuple[list[int], int, list[int]] | None:
    """Split the first axis that divides by `wanted`, or all axes as one where they do.

    Returns:
        The shape with the split axis as two, how many axes to reduce first, and the order that
        puts the outer part of the split axis last.
    """
    for axis, extent in enumerate(shape):
        if extent >= 2 * wanted:
            count = next((c for c in range(wanted, 4 * wanted) if extent % c == 0), None)
            if count is not None:
                new = [*shape[:axis], count, extent // count, *shape[axis + 1:]]
                order = [a for a in range(len(new)) if a != axis]
                return new, len(shape), [*order, axis]
    total = prod(shape)
    count = next((c for c in range(wanted, 8 * wanted) if total % c == 0), None)
    return None if count is None else ([count, total // count], 1, [1, 0])
