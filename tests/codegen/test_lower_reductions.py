"""lower-reductions: accumulators, tiles of them, and partial results."""

import numpy as np
import pytest

from core.codegen.actions import apply_actions, parse_actions
from core.codegen.lower_reductions import lower_reductions
from core.ir import AddressSpace, Op, UOp, toposort
from core.testing.pass_checks import expect_values, kernel, matmul, place
from core.testing.pass_checks import lower_reductions as check


def test_lower_reductions():
    check()


@pytest.mark.parametrize("actions", [
    "",
    "SPLIT(0, 4, UPCAST, EXACT)",
    "SPLIT(0, 2, UPCAST, EXACT) SPLIT(1, 4, LANE, EXACT)",
    "SPLIT(2, 4, UNROLL, EXACT)",
    "SPLIT(2, 4, UPCAST, EXACT)",
    "SPLIT(2, 4, LANE, EXACT)",
    "SPLIT(2, 8, LANE, EXACT) SPLIT(0, 2, UPCAST, EXACT)",
    "SPLIT(2, 3, UNROLL, MASK)",
    "SPLIT(0, 3, UPCAST, CLAMP) SPLIT(1, 3, UPCAST, MASK)",
])
@pytest.mark.parametrize("fused", [False, True])
def test_tiled_sums_are_the_same_sums(actions, fused):
    left, right = (np.arange(64, dtype=np.float32).reshape(8, 8) - k for k in (20, 30))
    tiled = apply_actions(matmul(8), parse_actions(actions))
    lowered = lower_reductions(tiled, fused=fused)
    assert not [n for n in toposort(lowered) if n.op is Op.REDUCE and len(n.src) > 1]
    # A masked product is a choice, which is not fused.
    accumulates = fused and "3, UNROLL" not in actions
    assert (Op.MULACC in {n.op for n in toposort(lowered)}) == accumulates
    expect_values(lowered, (left @ right).ravel(), left.ravel(), right.ravel())


@pytest.mark.parametrize(("op", "expected"), [
    (Op.ADD, np.sum), (Op.MUL, np.prod), (Op.MAX, np.max)])
@pytest.mark.parametrize("actions", ["", "SPLIT(1, 3, LANE, EXACT)", "SPLIT(1, 4, UPCAST, MASK)"])
def test_every_operation_begins_with_its_neutral_element(op, expected, actions):
    """All values are negative: a maximum that began with 0 would show."""
    i, k = UOp.range(2, 0), UOp.range(6, 1)
    value = place(1, 12).index(i * 6 + k).load().reduce(op, k)
    sink = kernel(place(0, 2).index(i).store(value).end(i))
    x = -np.arange(1, 13, dtype=np.float32)
    lowered = lower_reductions(apply_actions(sink, parse_actions(actions)), fused=False)
    expect_values(lowered, expected(x.reshape(2, 6), axis=1), x)


def test_a_tile_of_sums_shares_one_loop():
    tiled = apply_actions(matmul(8), parse_actions("SPLIT(0, 4, UPCAST, EXACT)"))
    lowered = lower_reductions(tiled, fused=False)
    (storage,) = {n for n in toposort(lowered) if n.op is Op.BUFFER}
    assert storage.arg.space is AddressSpace.REG
    assert storage.shape == (4,)
