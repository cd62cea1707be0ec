"""What rules ask about nodes: is a value there everywhere, which of two comes first.

Invalid is a value that is not there. An elementwise op of Invalid is Invalid, so a rule that drops
an operand (x * 0 → 0) holds only where the operand is there at every index.
"""

from __future__ import annotations

from functools import cmp_to_key
from typing import Final

from core.ir import ELEMENTWISE, AddressSpace, Op, UOp

_ALWAYS_THERE: Final = frozenset({
    Op.PARAM, Op.BUFFER, Op.RANGE, Op.SPECIAL, Op.LOAD, Op.REDUCE, Op.CUSTOMI, Op.WMMA,
    Op.GETADDR, Op.ATOMIC_ADD,
})
_AS_THEIR_SOURCES: Final = ELEMENTWISE | {
    Op.STACK, Op.BITCAST, Op.DETACH, Op.CONTIGUOUS_BACKWARD, Op.AFTER, Op.EXPAND, Op.RESHAPE,
    Op.PERMUTE, Op.FLIP, Op.SHRINK,
}
_LARGEST_SEARCH: Final = 256


def is_definite(*roots: UOp) -> bool:
    """Whether no Invalid can come out of these values; False where that is not plain."""
    pending = list(roots)
    seen: set[UOp] = set()
    while pending:
        node = pending.pop()
        if node.op in _ALWAYS_THERE or node in seen:
            continue
        if node.op is Op.CONST:
            if node.is_invalid:
                return False
            continue
        scratch = node.op is Op.STAGE and node.arg is not AddressSpace.ALU
        if scratch or (node.op is Op.INDEX and node.src[0].op is Op.STAGE
                       and node.src[0].arg is not AddressSpace.ALU):
            continue
        if node.op not in _AS_THEIR_SOURCES or len(seen) > _LARGEST_SEARCH:
            return False
        seen.add(node)
        pending.extend(node.src)
    return True


def is_x_definite(x: UOp) -> bool:
    """`is_definite` as the condition of a row that drops its x."""
    return is_definite(x)


def is_g_definite(g: UOp) -> bool:
    """`is_definite` as the condition of a row that drops its g."""
    return is_definite(g)


def is_gated(node: UOp) -> bool:
    """Whether this is WHERE(gate, value, Invalid)."""
    return node.op is Op.WHERE and node.src[2].is_invalid


def filled(value: object, model: UOp) -> UOp:
    """A constant in the dtype and shape of a node."""
    return model.const_like(value).expand(model.shape)


def _primary(node: UOp) -> tuple[int, int]:
    """Loops by number, then scalars by slot, then everything else by op."""
    if node.op is Op.RANGE:
        return 0, node.arg.id
    if node.op is Op.PARAM:
        return 1, node.arg.slot
    return 2, int(node.op)


def compare(a: UOp, b: UOp) -> int:
    """Order of two nodes by structure alone: the same in every process.

    Nodes are interned, so two that differ have a pair of sources that differ, or differ
    themselves: the search goes straight down to the first difference.
    """
    while a is not b:
        first, second = _primary(a), _primary(b)
        if first != second:
            return -1 if first < second else 1
        if a.arg != b.arg or a.tag != b.tag:
            return -1 if repr((a.arg, a.tag)) < repr((b.arg, b.tag)) else 1
        if len(a.src) != len(b.src):
            return len(a.src) - len(b.src)
        a, b = next((x, y) for x, y in zip(a.src, b.src, strict=True) if x is not y)
    return 0


structural_order: Final = cmp_to_key(compare)
