"""Lower what a renderer lacks: functions, small floats, floor division, threefry.

    decompose(root, target, ops): UOps in, UOps out, of the same meaning, built of the operations
    in `ops`. Works on scalars and on vectors; nothing branches.

First the small floats (a change of representation, one walk), then the rows of `RULES` to a fixed
point. Rows whose name ends in "-lacking" fire only where the renderer lacks the operation.
MULACC, which rounds once where `Target.fma`, is written only here.
"""

from __future__ import annotations

from collections.abc import Container

from core.codegen.decompose.arithmetic import Context
from core.codegen.decompose.rules import RULES
from core.codegen.decompose.small_floats import lower_small_floats
from core.ir import Op, UOp, rewrite
from core.plugin.target import Target

__all__ = ["RULES", "decompose"]


def decompose(root: UOp, target: Target, ops: Container[Op]) -> UOp:
    """The graph with only operations of `ops` where a decomposition exists.

    Args:
        root: A kernel (scalars and vectors) or a value.
        target: Which dtypes the device computes in, and whether it has a fused MULACC.
        ops: The renderer's `code_for_op`.
    """
    return rewrite(lower_small_floats(root, target), RULES, Context(target, ops))
