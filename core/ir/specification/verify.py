"""Specifications as rows of allowed nodes, and the check of a graph against one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from core.foundation.errors import VerificationError
from core.ir.operation import Op
from core.ir.text import text
from core.ir.traversal import toposort
from core.ir.uop import UOp

_LONGEST_GRAPH = 200


def always(node: UOp) -> bool:
    """No condition beyond the op."""
    return True


@dataclass(frozen=True)
class Row:
    """Nodes that are allowed: their ops, a condition, and the condition in words."""

    ops: frozenset[Op]
    meaning: str
    allows: Callable[[UOp], bool] = always


class Specification:
    """A named set of rows; a node is allowed if a row of its op allows it."""

    def __init__(self, name: str, bit: int, rows: Iterable[Row]) -> None:
        """`bit` is the specification's own bit in the mark of verified nodes."""
        self.name, self.mark, self.rows = name, 1 << bit, tuple(rows)
        self.by_op: dict[Op, list[Row]] = {}
        for row in self.rows:
            for op in row.ops:
                self.by_op.setdefault(op, []).append(row)

    def refusal(self, node: UOp) -> str | None:
        """Why a node is not allowed, or None where it is."""
        rows = self.by_op.get(node.op)
        if rows is None:
            return f"{node.op.name} may not stand in a {self.name}"
        if any(row.allows(node) for row in rows):
            return None
        return f"{node.op.name} must be: " + ", or ".join(row.meaning for row in rows)


def verify(root: UOp, specification: Specification, after: str = "") -> None:
    """Check every node of a graph; a node found good once is not looked at again.

    Args:
        root: The graph.
        specification: What it may hold.
        after: Name of the pass that made it, for the message.

    Raises:
        VerificationError: Names the node, the rule it breaks and the pass; shows the graph.
    """
    mark = specification.mark
    if (root._verified or 0) & mark:
        return
    order = toposort(root, enter=lambda n: not (n._verified or 0) & mark)
    # Users first: a CALL that is wrong because of an argument is named, not the argument.
    for node in reversed(order):
        if (node._verified or 0) & mark:
            continue
        refusal = specification.refusal(node)
        if refusal is not None:
            made = f" after {after}" if after else ""
            graph = text(root) if len(order) <= _LONGEST_GRAPH else text(node)
            raise VerificationError(
                f"the {specification.name}{made} is malformed: {refusal}\nnode: {node!r}\n{graph}"
            )
    for node in order:
        node._verified = (node._verified or 0) | mark
