"""expand-tiles: copies for UPCAST and UNROLL, vectors for LANE."""

import numpy as np
import pytest

from core.codegen.actions import apply_actions, parse_actions
from core.codegen.expand_tiles import expand_tiles
from core.codegen.lower_gates import lower_gates
from core.ir import AxisType, Op, UOp, toposort
from core.testing.pass_checks import expand_tiles as check
from core.testing.pass_checks import expect_values, kernel, place


def test_expand_tiles():
    check()


def moved(index, size=64):
    """out[i] = x[index(i)] for 64 elements."""
    i = UOp.range(64, 0)
    return kernel(place(0, 64).index(i).store(place(1, size).index(index(i)).load()).end(i))


def expanded(sink, actions):
    return expand_tiles(lower_gates(apply_actions(sink, parse_actions(actions))))


X = np.arange(100, 164, dtype=np.float32)


@pytest.mark.parametrize(("index", "expected"), [
    (lambda i: i, X),
    (lambda i: 63 - i, X[::-1]),
    (lambda i: i // 2, X[np.arange(64) // 2]),
    (lambda i: (i % 8) * 8 + i // 8, X.reshape(8, 8).T.ravel()),
    (lambda i: UOp.const(5), np.full(64, 105, np.float32)),
    (lambda i: (i - 3).valid(UOp.const(2) < i), np.pad(X, (3, 0))[:64]),
])
@pytest.mark.parametrize("actions", [
    "SPLIT(0, 8, LANE, EXACT)", "SPLIT(0, 4, UPCAST, EXACT)",
    "SPLIT(0, 16, UPCAST, EXACT) SPLIT(1, 4, LANE, EXACT)", "RETYPE(0, LANE)",
    "SPLIT(0, 24, LANE, CLAMP)", "SPLIT(0, 24, LANE, MASK)", "SPLIT(0, 5, UPCAST, MASK)",
])
def test_values_are_those_of_the_loop(index, expected, actions):
    after = expanded(moved(index), actions)
    tiles = {AxisType.LANE, AxisType.UPCAST}
    assert not [n for n in toposort(after) if n.op is Op.RANGE and n.arg.axis_type in tiles]
    expect_values(after, np.ascontiguousarray(expected), X)


def test_contiguous_lanes_are_one_place_and_others_a_gather():
    def places(index):
        after = expanded(moved(index), "SPLIT(0, 8, LANE, EXACT)")
        return {n.src[0].op for n in toposort(after) if n.op is Op.LOAD}

    assert places(lambda i: i) == {Op.SHRINK}
    assert places(lambda i: 63 - i) == {Op.INDEX}


def test_copies_share_what_depends_on_no_tile():
    i, j = UOp.range(8, 0), UOp.range(4, 1)
    value = place(1, 8).index(i).load().alu(Op.EXP) * place(2, 4).index(j).load()
    sink = kernel(place(0, 32).index(i * 4 + j).store(value).end(i, j))
    after = expanded(sink, "RETYPE(1, UPCAST)")
    assert len([n for n in toposort(after) if n.op is Op.EXP]) == 1
    assert len([n for n in toposort(after) if n.op is Op.STORE]) == 4
