"""The compiler's table of contents: every pass, in order, as data.

`core passes` prints it, `docs/passes.md` is made from it, and the observer of `passes.observe`
sees each step.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Container
from threading import Lock
from typing import Final

from core.codegen.choose_index_dtypes import choose_index_dtypes
from core.codegen.decompose import decompose
from core.codegen.expand_tiles import expand_tiles
from core.codegen.linearize import linearize
from core.codegen.lower_gates import lower_gates
from core.codegen.lower_group_reductions import lower_group_reductions
from core.codegen.lower_integers import lower_integers
from core.codegen.lower_launch import lower_launch
from core.codegen.lower_reductions import lower_reductions
from core.codegen.lower_stages import lower_stages
from core.codegen.optimize_loops import optimize_loops
from core.codegen.scatter_updates import scatter_updates
from core.compiler.passes import Pass, quiet_collector, run_passes
from core.compiler.program_info import program_info
from core.foundation.errors import CompileError
from core.foundation.fork import survive_fork
from core.ir import Op, UOp
from core.ir.specification import KERNEL_GRAPH, PROGRAM, TENSOR_GRAPH
from core.plugin import Target
from core.schedule.create_schedule import create_schedule
from core.schedule.prepare_graph import prepare_graph
from core.simplify import simplify

_REMEMBERED_SCHEDULES: Final = 512


def _makes_programs(target: Target) -> bool:
    """Whether a device takes programs; an interpreter takes the kernel itself."""
    return target.stage == "program"


def _simplified(graph: UOp, target: Target) -> UOp:
    return simplify(graph)


SCHEDULE: Final[tuple[Pass, ...]] = (
    Pass("simplify-tensor-graph", _simplified, TENSOR_GRAPH,
         "fewer nodes to schedule, and constants show"),
    Pass("prepare-graph", prepare_graph, TENSOR_GRAPH,
         "calls inlined, values of no elements gone and long sums split before ranges are chosen"),
    Pass("create-schedule", create_schedule, KERNEL_GRAPH,
         "ranges, kernels, their order and their memory are decided together"),
)

LOWER: Final[tuple[Pass, ...]] = (
    Pass("scatter-updates", lambda g, t: scatter_updates(g), KERNEL_GRAPH,
         "first: a reduction over updates and places would be tiled as one", _makes_programs),
    Pass("optimize-loops", optimize_loops, KERNEL_GRAPH,
         "while loops are still ranges", _makes_programs),
    Pass("lower-group-reductions", lambda g, t: lower_group_reductions(g), KERNEL_GRAPH,
         "before stages: the shares of a work group are staged", _makes_programs),
    Pass("lower-stages", lower_stages, KERNEL_GRAPH,
         "before reductions: a tile of a sum reads scratch that all its copies share",
         _makes_programs),
    Pass("lower-reductions", lambda g, t: lower_reductions(g, fused=t.fma),
         KERNEL_GRAPH,
         "accumulators have one axis per open tile range, so tiles must still be ranges",
         _makes_programs),
    Pass("lower-launch", lower_launch,
         KERNEL_GRAPH, "before gates: work groups that are left over store nothing",
         _makes_programs),
    Pass("lower-gates", lambda g, t: lower_gates(g), KERNEL_GRAPH,
         "before expansion: a vector's gate is a vector", _makes_programs),
    Pass("expand-tiles", lambda g, t: expand_tiles(g), KERNEL_GRAPH,
         "indices are still sums of ranges: contiguous lanes show", _makes_programs),
)

FINISH: Final[tuple[Pass, ...]] = (
    Pass("choose-index-dtypes", lambda g, t: choose_index_dtypes(g, wide=t.wide_index),
         KERNEL_GRAPH, "bounds of all indices are final", _makes_programs),
    Pass("lower-integers", lower_integers, KERNEL_GRAPH,
         "after index dtypes: an index of 64 bits becomes two words like any other value",
         _makes_programs),
    Pass("linearize", lambda g, t: linearize(g), PROGRAM,
         "last: a list has no freedom left", _makes_programs),
)

DECOMPOSE: Final = Pass(
    "decompose", lambda g, t: g, KERNEL_GRAPH,
    "after expansion, so that a function's polynomial is made once for each vector; before index "
    "dtypes, because it may compute with weak constants", _makes_programs)


def all_passes() -> tuple[Pass, ...]:
    """Every pass in the order in which it runs."""
    return (*SCHEDULE, *LOWER, DECOMPOSE, *FINISH)


_schedules: OrderedDict[tuple[UOp, Target], UOp] = OrderedDict()
_lock = survive_fork(Lock())


def schedule(body: UOp, target: Target) -> UOp:
    """LINEAR of kernels for the body of a CALL; equal bodies are scheduled once.

    Args:
        body: SINK(STORE(PARAM k, value)...) as callify makes it.
        target: The device's data.
    """
    key = (body, target)
    with _lock:
        found = _schedules.get(key)
        if found is not None:
            _schedules.move_to_end(key)
            return found
    with quiet_collector():
        linear = run_passes(body, SCHEDULE, target)
    with _lock:
        _schedules[key] = linear
        while len(_schedules) > _REMEMBERED_SCHEDULES:
            _schedules.popitem(last=False)
    return linear


def generate(sink: UOp, target: Target, ops: Container[Op]) -> UOp:
    """PROGRAM(sink, linear) of a kernel, its `ProgramInfo` filled in.

    Args:
        sink: The kernel as it leaves the scheduler.
        target: The device's data.
        ops: Operations that the renderer prints; others are decomposed.

    Raises:
        CompileError: It cannot be lowered to what the device can do.
    """
    with quiet_collector():
        lowered = run_passes(sink, LOWER, target)
        if _makes_programs(target):
            step = Pass(DECOMPOSE.name, lambda g, t: decompose(g, t, ops), DECOMPOSE.produces,
                        DECOMPOSE.because)
            lowered = run_passes(lowered, (step,), target)
        linear = run_passes(lowered, FINISH, target)
    info = program_info(sink, linear, target.cores, dynamic=lowered.arg.dynamic)
    if len(info.buffers) > target.max_buffers:
        raise CompileError(f"the kernel {info.name} has {len(info.buffers)} buffers, and one of "
                           f"{target.name} takes {target.max_buffers}")
    return UOp(Op.PROGRAM, (sink, linear), info)
