"""lower-gates: the gate of an index becomes a source of its LOAD or STORE.

    LOAD(INDEX(b, WHERE(g, i, Invalid)))      → LOAD(INDEX(b, i), g)
    STORE(INDEX(b, WHERE(g, i, Invalid)), v)  → STORE(INDEX(b, i), v, g)

A gated-off load gives 0, a gated-off store does nothing.
"""

from __future__ import annotations

from core.ir import Op, UOp, map_graph


def split_gate(index: UOp) -> tuple[UOp, UOp | None]:
    """(index, gate) of an index that may be gated, once or more."""
    gate: UOp | None = None
    while index.op is Op.WHERE and index.src[2].is_invalid:
        gate = index.src[0] if gate is None else gate & index.src[0]
        index = index.src[1]
    return index, gate


def lower_gates(sink: UOp) -> UOp:
    """Move every gate from an index to the access."""

    def visit(node: UOp, original: UOp) -> UOp:
        if node.op not in (Op.LOAD, Op.STORE) or node.src[0].op is not Op.INDEX:
            return node
        place = node.src[0]
        index, gate = split_gate(place.src[1])
        if gate is None:
            return node
        bare = place.replace(src=(place.src[0], index))
        return node.replace(src=(bare, *node.src[1:], gate))

    return map_graph(sink, visit)
