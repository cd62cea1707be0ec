"""choose-index-dtypes: weak integers become int32 or int64.

    ADD(RANGE:weak, 5:weak) → ADD(RANGE:int32, 5:int32)

Addresses are int64 where the target's addresses are (a narrower sum would have to be widened at
each access), else int32 where bounds allow. What is computed with, or compared, is int32 where
bounds allow. Floor division of what cannot be negative becomes truncating division.
"""

from __future__ import annotations

from typing import Final

from core.ir import DType, Op, UOp, bounds, dtypes, toposort
from core.ir.operation import COMPARISON, ELEMENTWISE

_COUNTERS: Final = frozenset({Op.RANGE, Op.SPECIAL})
_PLACES: Final = frozenset({Op.INDEX, Op.SHRINK})
_TRUNCATING: Final = {Op.FLOORDIV: Op.TRUNCDIV, Op.FLOORMOD: Op.TRUNCMOD}


def _fits_int32(node: UOp) -> bool:
    low, high = bounds(node)
    return bool(low >= dtypes.int32.minimum and high <= dtypes.int32.maximum)


def _lowered(node: UOp, dtype: DType, done: dict[tuple[UOp, DType], UOp]) -> UOp:
    """A weak node in a dtype, its sources done in both."""
    op = node.op
    if op is Op.CONST:
        return node.const_like(0).replace(arg=UOp.const(node.value, dtype).arg)
    if op in _COUNTERS:
        return node.replace(src=(done[node.src[0], dtype],))
    if op is Op.CAST:
        return done[node.src[0], node.src[0].dtype].cast(dtype)
    if op is Op.PARAM:
        slot = node.arg._replace(dtype=dtypes.int64)
        return node.replace(arg=slot).cast(dtype)
    src = tuple(done[s, dtype if s.dtype is dtypes.weak_int else s.dtype] for s in node.src)
    if op in _TRUNCATING and bounds(node.src[0])[0] >= 0 and bounds(node.src[1])[0] > 0:
        op = _TRUNCATING[op]
    return UOp(op, src, node.arg, node.tag)


def choose_index_dtypes(sink: UOp, *, wide: bool) -> UOp:
    """Give every weak integer a machine dtype.

    Args:
        sink: The kernel.
        wide: Whether addresses are int64 whatever their bounds.
    """
    done: dict[tuple[UOp, DType], UOp] = {}
    range_dtype: dict[UOp, DType] = {}
    for node in toposort(sink):
        if node.dtype is dtypes.weak_int:
            if node.op in _COUNTERS:
                chosen = dtypes.int64 if wide or not _fits_int32(node.src[0]) else dtypes.int32
                range_dtype[node] = chosen
                loop = _lowered(node, chosen, done)
                done[node, dtypes.int32] = loop.cast(dtypes.int32)
                done[node, dtypes.int64] = loop.cast(dtypes.int64)
            else:
                for dtype in (dtypes.int32, dtypes.int64):
                    done[node, dtype] = _lowered(node, dtype, done)
            continue
        done[node, node.dtype] = _machine_node(node, wide, done, range_dtype)
    return done[sink, sink.dtype]


def _machine_node(
    node: UOp, wide: bool, done: dict[tuple[UOp, DType], UOp], range_dtype: dict[UOp, DType]
) -> UOp:
    """A node that is not weak, on its lowered sources."""
    weak = [s for s in node.src if s.dtype is dtypes.weak_int]
    if not weak:
        src = tuple(done[s, s.dtype] for s in node.src)
        return node if src == node.src else node.replace(src=src)
    fits = all(_fits_deeply(s) for s in weak)
    if node.op in _PLACES:
        dtype = dtypes.int32 if fits and not wide else dtypes.int64
    elif node.op in ELEMENTWISE or node.op in COMPARISON:
        dtype = dtypes.int32 if fits else dtypes.int64
    else:
        dtype = dtypes.int64 if wide else dtypes.int32
    sources = []
    for s in node.src:
        if s.dtype is not dtypes.weak_int:
            sources.append(done[s, s.dtype])
        elif s.op is Op.RANGE and node.op in (Op.END, Op.AFTER, Op.BARRIER):
            sources.append(done[s, range_dtype[s]])
        else:
            sources.append(done[s, dtype])
    return node.replace(src=tuple(sources))


def _fits_deeply(root: UOp) -> bool:
    """Whether an expression and all its weak parts fit int32."""
    seen: set[UOp] = set()
    pending = [root]
    while pending:
        node = pending.pop()
        if node in seen or node.dtype is not dtypes.weak_int:
            continue
        seen.add(node)
        if not _fits_int32(node):
            return False
        pending.extend(node.src if node.op is not Op.RANGE else ())
    return True
