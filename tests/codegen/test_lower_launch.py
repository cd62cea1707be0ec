"""Output loops become launch axes within the device's limits; values are those of the loops."""

from dataclasses import replace
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.codegen.actions import apply_actions, parse_actions
from core.codegen.lower_launch import dimension_extents
from core.compiler.pipeline import generate
from core.foundation.errors import CompileError
from core.ir import Op, UOp, dtypes
from core.reference.run import run
from core.testing.pass_checks import (
    CHECKS,
    EVERY_OP,
    LAUNCH_TARGET,
    expect_values,
    kernel,
    place,
    program_of,
)

LIMITS = LAUNCH_TARGET.global_limit


def test_loops_become_launch_axes():
    CHECKS["lower-launch"].check()


def copied(*shape, transposed=False, actions=None):
    """A kernel that adds 1 to an array, perhaps reading it transposed."""
    loops = [UOp.range(n, k) for k, n in enumerate(shape)]
    to = start = UOp.const(0)
    for loop, n in zip(loops, shape, strict=True):
        to = to * n + loop
    for loop, n in reversed(list(zip(loops, shape, strict=True))):
        start = start * n + loop
    read = start if transposed else to
    size = prod(shape)
    value = place(1, size).index(read).load() + 1.0
    return kernel(place(0, size).index(to).store(value).end(*loops), actions=actions)


def launched(sink, target=LAUNCH_TARGET):
    program = generate(sink, target, EVERY_OP)
    return program_of(sink, target=target), program.arg.global_size, program.arg.local_size


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("shape", [
    (1,), (7,), (64,), (65,), (100,), (1000,), (64 * 512,), (64 * 512 + 1,), (64 * 521,),
    (3, 5), (70, 33), (2, 3, 70), (600, 2, 3), (2, 3, 4, 5), (9, 70, 9, 2), (4, 600, 3, 65)])
def test_values_and_limits(shape, transposed):
    linear, groups, items = launched(copied(*shape, transposed=transposed))
    assert not [n for n in linear.src if n.op is Op.RANGE]
    assert all(n <= m for n, m in zip(groups, LIMITS, strict=False))
    assert all(n <= m for n, m in zip(items, LAUNCH_TARGET.local_limit, strict=False))
    assert prod(items) <= LAUNCH_TARGET.local_total
    assert prod(groups) * prod(items) >= prod(shape)
    x = np.arange(prod(shape), dtype=np.float32)
    read = x.reshape(shape[::-1]).transpose() if transposed else x
    expect_values(linear, read.ravel() + 1, x)


def test_neighbouring_items_touch_neighbouring_elements():
    """The fastest launch axis runs along the rows of what is stored."""
    linear, _, items = launched(copied(70, 128))
    assert items[0] == 64
    item = next(n for n in linear.src if n.op is Op.SPECIAL and n.arg == "l0")
    stored = next(n for n in linear.src if n.op is Op.STORE).src[0].src[1]
    assert stored.op is Op.ADD
    assert any(s is item or (s.op is Op.CAST and s.src[0] is item) for s in stored.src)


def test_more_work_groups_than_one_axis_counts():
    linear, groups, items = launched(copied(64 * 521, 2))
    assert prod(groups) * prod(items) >= 64 * 521 * 2
    assert groups[1] > 1
    x = np.arange(64 * 521 * 2, dtype=np.float32)
    expect_values(linear, x + 1, x)


@pytest.mark.parametrize("count", [1, 5, 63, 64, 65, 4096, 5000])
def test_a_loop_of_unknown_extent_is_walked_in_steps(count):
    n = UOp.variable("n", 1, 1 << 20, slot=2)
    loop = UOp.range(n, 0)
    value = place(1, 1 << 20).index(loop).load() * 2.0
    sink = kernel(place(0, 1 << 20).index(loop).store(value).end(loop))
    program = generate(sink, LAUNCH_TARGET, EVERY_OP)
    assert prod(program.arg.global_size) == 16 * LAUNCH_TARGET.cores
    x, result = np.arange(1 << 20, dtype=np.float32), np.full(1 << 20, 7, np.float32)
    run(program.src[1], [result, x], [count])
    assert np.array_equal(result[:count], x[:count] * 2)
    assert (result[count:] == 7).all()


def test_work_groups_that_are_left_over_store_nothing_twice():
    """A prime number of groups beyond the first axis: counted by two, the rest is idle."""
    counter = UOp.param(0, dtypes.float32, (1031,))
    loop = UOp.range(1031, 0)
    added = counter.index(loop).store(counter.index(loop).load() + 1.0)
    target = replace(LAUNCH_TARGET, local_limit=(1, 1, 1), local_total=1)
    linear, groups, _ = launched(kernel(added.end(loop)), target)
    assert prod(groups) > 1031
    ones = np.ones(1031, np.float32)
    result = np.zeros(1031, np.float32)
    run(linear, [result])
    assert np.array_equal(result, ones)


@settings(deadline=None, max_examples=200)
@given(st.lists(st.integers(1, 700), min_size=1, max_size=4))
def test_dimensions_cover_the_loops(extents):
    total = prod(extents)
    if total > prod(LIMITS):
        with pytest.raises(CompileError, match="work groups"):
            dimension_extents(extents, LIMITS)
        return
    spans = dimension_extents(extents, LIMITS)
    assert len(spans) <= 3
    assert all(n <= m for n, m in zip(spans, LIMITS, strict=False))
    assert total <= prod(spans) < 4 * total


def test_a_device_without_launch_axes_refuses_launch_loops():
    with pytest.raises(CompileError, match="no launch axes"):
        program_of(apply_actions(copied(8), parse_actions("RETYPE(0, GLOBAL)")))
