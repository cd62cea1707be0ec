"""optimize-loops: apply the loop actions that the heuristic chooses, or those a kernel brings.

    SINK(END(..., i, j); name)  →  SINK(END(..., i THREAD, j0, j1 LANE); name, actions)
"""

from __future__ import annotations

from core.codegen.actions import apply_actions
from core.codegen.heuristic import choose_actions
from core.codegen.launch_heuristic import LaunchHeuristic
from core.foundation.settings import settings
from core.ir import UOp
from core.plugin import Target


def optimize_loops(sink: UOp, target: Target) -> UOp:
    """Loop actions by the heuristic; none with NOOPT=1 or where actions were chosen before."""
    if settings.NOOPT or sink.arg.actions is not None:
        return sink
    if target.global_limit is not None:
        heuristic = LaunchHeuristic(sink, target)
        heuristic.choose()
        return apply_actions(sink, heuristic.actions)
    return apply_actions(sink, choose_actions(sink, target))
