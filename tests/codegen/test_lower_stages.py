"""lower-stages: a staged operand is copied into scratch and read from there."""

import numpy as np
import pytest

from core.codegen.actions import apply_actions, parse_actions
from core.codegen.lower_stages import lower_stages
from core.ir import AddressSpace, Op, UOp, storage_of, toposort
from core.testing.pass_checks import TARGET, expect_values, kernel, matmul, place
from core.testing.pass_checks import lower_stages as check


def test_lower_stages():
    check()


@pytest.mark.parametrize("actions", [
    "STAGE(1, 2, 1)", "STAGE(1, 1, 2)", "STAGE(0, 2)", "STAGE(0, 0, 2)",
    "SPLIT(1, 4, LANE, EXACT) STAGE(1, 2, 4, 3)",
    "SPLIT(0, 2, UPCAST, EXACT) SPLIT(1, 4, LANE, EXACT) STAGE(0, 2, 3)",
])
def test_the_values_are_those_without_scratch(actions):
    left, right = (np.arange(64, dtype=np.float32).reshape(8, 8) - k for k in (20, 30))
    lowered = lower_stages(apply_actions(matmul(8), parse_actions(actions)), TARGET)
    assert not [n for n in toposort(lowered) if n.op is Op.STAGE]
    assert AddressSpace.LOCAL in {
        storage_of(n.src[0]).arg.space for n in toposort(lowered) if n.op is Op.STORE}
    expect_values(lowered, (left @ right).ravel(), left.ravel(), right.ravel())


def test_one_stage_read_twice_is_filled_once():
    i, j, k = (UOp.range(8, axis) for axis in range(3))
    row = (place(1, 8).index(i).load() * 2.0).stage(i, space=AddressSpace.LOCAL)
    sums = kernel(place(0, 8).index(j).store(
        row.index(j) + row.index(k).reduce(Op.ADD, k)).end(j), actions=())
    lowered = lower_stages(sums, TARGET)
    assert len([n for n in toposort(lowered) if n.op is Op.STORE]) == 2
    x = np.arange(8, dtype=np.float32)
    expect_values(lowered, 2 * x + (2 * x).sum(), x)
