"""What a work group computes together: shares in scratch, barriers, values."""

from dataclasses import replace

import numpy as np
import pytest

from core.codegen.actions import apply_actions, parse_actions
from core.codegen.lower_group_reductions import lower_group_reductions
from core.codegen.lower_stages import lower_stages
from core.compiler.pipeline import generate
from core.foundation.errors import CompileError
from core.ir import AddressSpace, AxisType, Op, UOp, storage_of, toposort
from core.reference.run import run
from core.simplify import simplify
from core.testing.pass_checks import (
    CHECKS,
    EVERY_OP,
    LAUNCH_TARGET,
    executed,
    expect_values,
    kernel,
    matmul,
    place,
    program_of,
)

VECTORS = replace(LAUNCH_TARGET, vector_bytes=16, local_is_fast=True)


def events(items):
    """Loads from and stores to scratch, and barriers, with each loop run twice."""
    happened = []
    k = 0
    while k < len(items):
        item = items[k]
        if item.op is Op.RANGE:
            last = next(
                p for p in range(k, len(items)) if items[p].op is Op.END and items[p].src[1] is item
            )
            happened += 2 * events(items[k + 1 : last])
            k = last
        elif item.op is Op.BARRIER:
            happened.append(("barrier", None))
        elif item.op in (Op.LOAD, Op.STORE):
            storage = storage_of(item.src[0])
            if storage.op is Op.BUFFER and storage.arg.space is AddressSpace.LOCAL:
                happened.append((item.op.name, storage))
        k += 1
    return happened


def assert_no_race(linear):
    """A load and a store of one scratch have a barrier between them, whichever comes first."""
    since = {}
    for what, storage in events(linear.src):
        if what == "barrier":
            since.clear()
            continue
        assert since.setdefault(storage, what) == what, f"{what} of {storage} meets another item's"


def sums(rows, columns, actions, op=Op.ADD, axis=1):
    i, k = UOp.range(rows, 0), UOp.range(columns, 1, AxisType.REDUCE)
    at = i * columns + k if axis else k * rows + i
    value = place(1, rows * columns).index(at).load().reduce(op, k)
    return apply_actions(
        kernel(place(0, rows).index(i).store(value).end(i)), parse_actions(actions)
    )


def test_lower_group_reductions():
    CHECKS["lower-group-reductions"].check()


@pytest.mark.parametrize("op", [Op.ADD, Op.MAX])
@pytest.mark.parametrize(
    ("rows", "columns", "actions"),
    [
        (4, 96, "RETYPE(0, GLOBAL) SPLIT(1, 32, GROUP_REDUCE, EXACT)"),
        (4, 96, "RETYPE(0, GLOBAL) SPLIT(1, 64, GROUP_REDUCE, MASK)"),
        (4, 96, "RETYPE(0, GLOBAL) SPLIT(1, 7, GROUP_REDUCE, MASK)"),
        (4, 11, "RETYPE(0, GLOBAL) RETYPE(1, GROUP_REDUCE)"),
        (4, 96, "RETYPE(0, LOCAL) SPLIT(1, 16, GROUP_REDUCE, EXACT)"),
        (3, 100, "RETYPE(0, LOCAL) SPLIT(1, 5, GROUP_REDUCE, EXACT)"),
        (12, 100, "SPLIT(0, 4, LOCAL, EXACT) RETYPE(3, GLOBAL) SPLIT(1, 4, GROUP_REDUCE, EXACT)"),
        (6, 37, "SPLIT(1, 37, GROUP_REDUCE, EXACT)"),
    ],
)
def test_values_of_shared_reductions(rows, columns, actions, op):
    linear = program_of(sums(rows, columns, actions, op), target=LAUNCH_TARGET)
    assert executed(linear, Op.BARRIER)
    assert_no_race(linear)
    x = np.arange(rows * columns, dtype=np.float32)[::-1].copy()
    table = x.reshape(rows, columns)
    expect_values(linear, table.sum(axis=1) if op is Op.ADD else table.max(axis=1), x)


def test_shares_are_combined_in_steps():
    """64 shares: no item adds 64 numbers one after the other."""
    lowered = lower_group_reductions(sums(1, 4096, "SPLIT(1, 64, GROUP_REDUCE, EXACT)"))
    stages = [n for n in toposort(lowered) if n.op is Op.STAGE]
    assert [int(s.src[1].src[0].value) for s in stages] == [64, 8]


def test_a_kernel_without_shared_reductions_stays():
    sink = matmul(8)
    assert lower_group_reductions(sink) is simplify(sink)


@pytest.mark.parametrize(
    "actions",
    [
        "RETYPE(0, GLOBAL) RETYPE(1, LOCAL) STAGE(0, 2)",
        "RETYPE(0, GLOBAL) RETYPE(1, LOCAL) STAGE(1, 2, 1)",
        "RETYPE(0, GLOBAL) SPLIT(2, 4, REDUCE, EXACT) RETYPE(1, LOCAL) STAGE(0, 3)",
        "RETYPE(0, GLOBAL) SPLIT(2, 5, REDUCE, MASK) RETYPE(1, LOCAL) STAGE(1, 3, 1)",
        "SPLIT(0, 4, LOCAL, EXACT) SPLIT(1, 8, LOCAL, EXACT) RETYPE(4, GLOBAL) RETYPE(6, GLOBAL) "
        "SPLIT(2, 4, REDUCE, EXACT) STAGE(0, 3, 7) STAGE(1, 7, 5)",
        "SPLIT(0, 2, UPCAST, EXACT) SPLIT(4, 4, LOCAL, EXACT) SPLIT(1, 4, LANE, EXACT) "
        "SPLIT(8, 2, LOCAL, EXACT) RETYPE(10, GLOBAL) RETYPE(6, GLOBAL) SPLIT(2, 4, REDUCE, EXACT) "
        "STAGE(0, 11, 5, 3) STAGE(1, 11, 9, 7)",
        "RETYPE(0, LOCAL) STAGE(0, 2, 0) STAGE(1, 2, 1)",
    ],
)
def test_a_group_fills_tiles_together(actions):
    linear = program_of(apply_actions(matmul(16), parse_actions(actions)), target=VECTORS)
    assert_no_race(linear)
    left, right = (np.arange(256, dtype=np.float32).reshape(16, 16) % 9 - k for k in (2, 5))
    expect_values(linear, (left @ right).ravel(), left.ravel(), right.ravel())


def test_two_tiles_share_their_barriers():
    actions = (
        "SPLIT(0, 4, LOCAL, EXACT) SPLIT(1, 8, LOCAL, EXACT) RETYPE(4, GLOBAL) "
        "RETYPE(6, GLOBAL) SPLIT(2, 4, REDUCE, EXACT) STAGE(0, 3, 7) STAGE(1, 7, 5)"
    )
    linear = program_of(apply_actions(matmul(16), parse_actions(actions)), target=VECTORS)
    assert executed(linear, Op.BARRIER) == 2 * 16 // 4


def softmax(rows, columns):
    """What the scheduler makes of it: a row of exponentials in scratch."""
    i, j, k, m, n = (
        UOp.range(size, axis)
        for axis, size in enumerate((rows, columns, columns, columns, columns))
    )
    x = place(1, rows * columns)
    largest = x.index(i * columns + k).load().reduce(Op.MAX, k)
    row = (x.index(i * columns + m).load() - largest).alu(Op.EXP).stage(m, space=AddressSpace.LOCAL)
    total = row.index(n).reduce(Op.ADD, n)
    out = place(0, rows * columns).index(i * columns + j)
    return kernel(out.store(row.index(j).alu(Op.FDIV, total)).end(i, j))


@pytest.mark.parametrize(("rows", "columns"), [(3, 128), (5, 100), (70, 10), (2, 300), (1, 17)])
def test_rows_of_scratch_are_shared(rows, columns):
    program = generate(softmax(rows, columns), LAUNCH_TARGET, EVERY_OP)
    linear = program.src[1]
    assert executed(linear, Op.BARRIER)
    assert_no_race(linear)
    x = np.linspace(-3, 3, rows * columns, dtype=np.float32)
    result = np.zeros_like(x)
    run(linear, [result, x])
    table = np.exp(x.reshape(rows, columns).astype(np.float64))
    assert np.allclose(
        result.reshape(rows, columns), table / table.sum(1, keepdims=True), rtol=1e-5
    )


@pytest.mark.parametrize(("rows", "columns"), [(1, 1000), (3, 640), (8, 129)])
def test_long_sums_of_few_are_shared_by_the_heuristic(rows, columns):
    for axis in (0, 1):
        linear = program_of(
            sums(rows, columns, "", axis=axis).replace(
                arg=sums(rows, columns, "").arg._replace(actions=None)
            ),
            target=LAUNCH_TARGET,
        )
        assert executed(linear, Op.BARRIER)
        assert_no_race(linear)
        x = np.arange(rows * columns, dtype=np.float32) % 7
        table = x.reshape(rows, columns) if axis else x.reshape(columns, rows).T
        expect_values(linear, table.sum(axis=1), x)


@pytest.mark.parametrize("size", [64, 96])
def test_register_tiles_and_fast_scratch_by_the_heuristic(size):
    """Each item of a matmul computes several outputs; a group stages what its items share."""
    linear = program_of(matmul(size), target=replace(VECTORS, cores=1))
    assert_no_race(linear)
    assert executed(linear, Op.BARRIER)
    loads = [n for n in linear.src if n.op is Op.LOAD and storage_of(n.src[0]).op is Op.PARAM]
    assert len(loads) <= 16
    left, right = (
        np.arange(size * size, dtype=np.float32).reshape(size, size) % 9 - k for k in (2, 5)
    )
    expect_values(linear, (left @ right).ravel(), left.ravel(), right.ravel())


def test_scratch_inside_of_a_loop_that_items_share_is_refused():
    """The inner scratch depends on the outer one's loop, whose turns go to different items."""
    i, m, n = UOp.range(8, 0, AxisType.LOCAL), UOp.range(8, 1), UOp.range(8, 2)
    inner = (place(1, 64).index(m * 8 + n).load() * 2.0).stage(n, space=AddressSpace.LOCAL)
    outer = inner.index(m).stage(m, space=AddressSpace.LOCAL)
    sink = kernel(place(0, 8).index(i).store(outer.index(i)).end(i), actions=())
    with pytest.raises(CompileError, match="items share a loop"):
        lower_stages(sink, LAUNCH_TARGET)
