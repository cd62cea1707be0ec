"""For each pass of the compiler, one check that fails where the pass is left out.

A check compiles a small graph and looks at the result: its values against numpy, the number of
kernels, loads or vectors, or what a specification allows. The tests named after the passes call
them; `tests/compiler/test_pipeline.py` leaves out each pass and expects its check to fail.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Final

import numpy as np

from core.codegen.actions import apply_actions, parse_actions
from core.compiler import pipeline
from core.foundation.errors import VerificationError
from core.ir import (
    STORED_DTYPES,
    AxisType,
    DType,
    KernelInfo,
    Op,
    UOp,
    dtypes,
    toposort,
)
from core.ir.specification import KERNEL_GRAPH, PROGRAM, verify
from core.plugin import Target
from core.reference.run import run

TARGET: Final = Target(
    name="TEST", architecture="test", dtypes=frozenset(STORED_DTYPES), cores=2,
    l2_bytes=2 << 20, vector_bytes=32, vector_registers=16, has_threads=True,
    scratch_bytes=1 << 20, wide_index=True)
#: A device with launch axes, whose limits are small enough to meet.
LAUNCH_TARGET: Final = Target(
    name="TEST", architecture="test", dtypes=frozenset(STORED_DTYPES), cores=4, has_local=True,
    global_limit=(512, 64, 8), local_limit=(64, 8, 4), local_total=64, scratch_bytes=1 << 15)
EVERY_OP: Final = frozenset(Op)
Array = np.ndarray[Any, Any]


class WrongValueError(AssertionError):
    """A program computes something else."""


class WrongCountError(AssertionError):
    """There are more kernels, loads or instructions than there should be."""


@dataclass(frozen=True)
class PassCheck:
    """A check, and the error that it raises where its pass is left out."""

    check: Callable[[], None]
    failure: type[Exception]


def at_most(count: int, limit: int, what: str) -> None:
    """Raise WrongCountError if there are too many."""
    if count > limit:
        raise WrongCountError(f"{count} {what}, at most {limit} are needed")


def program_of(
    sink: UOp, ops: Container[Op] = EVERY_OP, target: Target = TARGET
) -> UOp:
    """The LINEAR that code generation makes of a kernel, verified."""
    linear = pipeline.generate(sink, target, ops).src[1]
    if linear.op is not Op.LINEAR:
        raise VerificationError(f"a program is a LINEAR of items, not a {linear.op.name}")
    verify(linear, PROGRAM, "code generation")
    return linear


def expect_values(program: UOp, expected: Array, *inputs: Array) -> None:
    """Raise WrongValueError unless a program writes `expected` to its first buffer."""
    result = np.full(expected.shape, 77, expected.dtype)
    run(program, [result, *inputs])
    if not np.array_equal(result, expected):
        raise WrongValueError(f"got {result}, expected {expected}")


def executed(linear: UOp, op: Op) -> int:
    """How often the items of one op are executed, each as often as the loops round it say."""
    total = 0
    around: list[int] = []
    for item in linear.src:
        if item.op is Op.RANGE:
            around.append(int(item.src[0].value))
        elif item.op is Op.END:
            around.pop()
        if item.op is op:
            total += prod(around)
    return total


def kernel(*effects: UOp, actions: tuple[str, ...] | None = None) -> UOp:
    """A kernel SINK; with `actions` the heuristic adds none."""
    return UOp.sink(*effects, info=KernelInfo("check", actions=actions))


def place(slot: int, size: int, dtype: DType = dtypes.float32) -> UOp:
    """Flat storage."""
    return UOp.param(slot, dtype, (size,))


def _stores(value: UOp) -> UOp:
    target = UOp.param(0, value.dtype, value.shape, "TEST")
    return UOp.sink(target.store(value))


def _input(slot: int, *shape: int, dtype: DType = dtypes.float32) -> UOp:
    return UOp.param(slot, dtype, shape, "TEST")


def simplify_tensor_graph() -> None:
    """sum(x) * 0 + y of integers needs no sum: one kernel."""
    x, y = _input(1, 1 << 20, dtype=dtypes.int32), _input(2, 8, dtype=dtypes.int32)
    linear = pipeline.schedule(_stores(x.reduce(Op.ADD, axes=1) * 0 + y), TARGET)
    at_most(len(linear.src), 1, "kernels")


def prepare_graph() -> None:
    """A long sum is split so that both cores work."""
    total = _input(1, 1 << 24).reduce(Op.ADD, axes=1)
    linear = pipeline.schedule(_stores(total), TARGET)
    longest = max(prod(int(r.src[0].value) for r in n.src[1:])
                  for n in toposort(linear) if n.op is Op.REDUCE)
    at_most(longest, 1 << 21, "iterations of one sum")


def create_schedule() -> None:
    """Kernels take flat storage: a tensor graph is none."""
    x = _input(1, 4, 6)
    linear = pipeline.schedule(_stores(x.permute((1, 0)) * 2.0), TARGET)
    verify(linear, KERNEL_GRAPH)
    at_most(len(linear.src), 1, "kernels")


def matmul(size: int) -> UOp:
    """out[i, j] = sum over k of left[i, k] * right[k, j], as it leaves the scheduler."""
    out, left, right = (place(k, size * size) for k in range(3))
    i, j, k = (UOp.range(size, axis) for axis in range(3))
    product = left.index(i * size + k).load() * right.index(k * size + j).load()
    return kernel(out.index(i * size + j).store(product.reduce(Op.ADD, k)).end(i, j))


def optimize_loops() -> None:
    """Register tiles: a matmul executes far fewer loads than two for each product."""
    at_most(executed(program_of(matmul(64)), Op.LOAD), 2 * 64 ** 3 // 8, "loads")


def lower_group_reductions() -> None:
    """A work group sums 96 numbers together: each item loads a few of them."""
    i, k = UOp.range(4, 0), UOp.range(96, 1, AxisType.REDUCE)
    value = place(1, 384).index(i * 96 + k).load().reduce(Op.ADD, k)
    rows = apply_actions(kernel(place(0, 4).index(i).store(value).end(i)), parse_actions(
        "RETYPE(0, GLOBAL) SPLIT(1, 32, GROUP_REDUCE, EXACT)"))
    linear = program_of(rows, target=LAUNCH_TARGET)
    x = np.arange(384, dtype=np.float32)
    expect_values(linear, x.reshape(4, 96).sum(axis=1), x)
    at_most(0 if executed(linear, Op.BARRIER) else 1, 0, "sums by one item alone")


def lower_stages() -> None:
    """A staged operand is copied into scratch: the program holds no STAGE, and is right."""
    staged = apply_actions(matmul(8), parse_actions("STAGE(1, 2, 1)"))
    left, right = (np.arange(64, dtype=np.float32).reshape(8, 8) - k for k in (20, 30))
    expect_values(program_of(staged), (left @ right).ravel(), left.ravel(), right.ravel())


def lower_reductions() -> None:
    """A sum becomes a loop round an accumulator: a program has no REDUCE over loops."""
    i, k = UOp.range(4, 0), UOp.range(6, 1)
    value = place(1, 24).index(i * 6 + k).load().reduce(Op.ADD, k)
    sums = kernel(place(0, 4).index(i).store(value).end(i), actions=())
    x = np.arange(24, dtype=np.float32)
    expect_values(program_of(sums), x.reshape(4, 6).sum(axis=1), x)


def lower_launch() -> None:
    """Output loops are launch axes: the program of one work item has no loop but the sum's."""
    linear = program_of(matmul(8), target=LAUNCH_TARGET)
    at_most(sum(n.op is Op.RANGE for n in linear.src), 1, "loops")
    left, right = (np.arange(64, dtype=np.float32).reshape(8, 8) - k for k in (20, 30))
    expect_values(linear, (left @ right).ravel(), left.ravel(), right.ravel())


def lower_gates() -> None:
    """A padded row reads 0 outside of its storage: no index of a program is Invalid."""
    i = UOp.range(8, 0)
    inside = UOp.const(1) < i
    shifted = place(1, 6).index((i - 2).valid(inside)).load()
    x = np.arange(1, 7, dtype=np.float32)
    padded = kernel(place(0, 8).index(i).store(shifted).end(i), actions=())
    expect_values(program_of(padded), np.pad(x, (2, 0)), x)


def expand_tiles() -> None:
    """Lanes become vectors: 64 elements are 8 loads of 8."""
    i = UOp.range(64, 0)
    doubled = kernel(place(0, 64).index(i).store(place(1, 64).index(i).load() * 2.0).end(i))
    linear = program_of(apply_actions(doubled, parse_actions("SPLIT(0, 8, LANE, EXACT)")))
    at_most(executed(linear, Op.LOAD), 8, "loads")


def decompose() -> None:
    """A renderer sees only its own operations."""
    offered = frozenset(Op) - {Op.EXP}
    i = UOp.range(8, 0)
    value = place(1, 8).index(i).load().alu(Op.EXP)
    linear = program_of(kernel(place(0, 8).index(i).store(value).end(i)), offered)
    refused = {n.op.name for n in linear.src if n.op not in offered}
    if refused:
        raise VerificationError(f"the renderer has no {refused}")


def choose_index_dtypes() -> None:
    """Loops and addresses have machine dtypes."""
    i = UOp.range(8, 0)
    copied = place(0, 8).index(i).store(place(1, 8).index(i).load()).end(i)
    program_of(kernel(copied, actions=()))


def lower_integers() -> None:
    """A target without bytes and 64-bit integers is given 32 bits and no others."""
    i = UOp.range(8, 0)
    total = place(1, 8, dtypes.int64).index(i).load() + place(2, 8, dtypes.uint8).index(
        i).load().cast(dtypes.int64)
    sink = kernel(place(0, 8, dtypes.int64).index(i).store(total).end(i), actions=())
    words = frozenset({dtypes.bool, dtypes.int32, dtypes.uint32, dtypes.float32})
    target = replace(TARGET, dtypes=words, wide_index=False)
    program = pipeline.generate(sink, target, EVERY_OP).src[1]
    others = {n.dtype.name for n in program.src if n.dtype.bits} - {d.name for d in words}
    if others:
        raise VerificationError(f"the target has no {others}")


def linearize() -> None:
    """What does not depend on the inner loop is computed outside of it, in a list of items."""
    i, j = UOp.range(16, 0), UOp.range(16, 1)
    row = place(1, 16).index(i).load().alu(Op.EXP)
    value = row * place(2, 16).index(j).load()
    outer = kernel(place(0, 256).index(i * 16 + j).store(value).end(i, j), actions=())
    at_most(executed(program_of(outer), Op.EXP), 16, "exponentials")


def scatter_updates() -> None:
    """100 updates of 300 places are not 30,000 comparisons."""
    p, u = UOp.range(300, 0), UOp.range(100, 1, AxisType.REDUCE)
    index = UOp.param(1, dtypes.int32, (100,)).index(u).load()
    update = UOp.param(2, dtypes.float32, (100,)).index(u).load()
    chosen = index.eq(p.cast(dtypes.int32)).where(update, 0.0)
    sink = kernel(place(0, 300).index(p).store(chosen.reduce(Op.ADD, u)).end(p))
    at_most(executed(program_of(sink), Op.LOAD), 400, "loads")


CHECKS: Final[dict[str, PassCheck]] = {
    "simplify-tensor-graph": PassCheck(simplify_tensor_graph, WrongCountError),
    "prepare-graph": PassCheck(prepare_graph, WrongCountError),
    "create-schedule": PassCheck(create_schedule, VerificationError),
    "scatter-updates": PassCheck(scatter_updates, WrongCountError),
    "optimize-loops": PassCheck(optimize_loops, WrongCountError),
    "lower-group-reductions": PassCheck(lower_group_reductions, WrongCountError),
    "lower-stages": PassCheck(lower_stages, VerificationError),
    "lower-reductions": PassCheck(lower_reductions, VerificationError),
    "lower-launch": PassCheck(lower_launch, WrongCountError),
    "lower-gates": PassCheck(lower_gates, VerificationError),
    "expand-tiles": PassCheck(expand_tiles, VerificationError),
    "decompose": PassCheck(decompose, VerificationError),
    "choose-index-dtypes": PassCheck(choose_index_dtypes, VerificationError),
    "lower-integers": PassCheck(lower_integers, VerificationError),
    "linearize": PassCheck(linearize, VerificationError),
}
