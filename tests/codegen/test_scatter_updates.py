"""scatter-updates: updates are written where they belong, one after the other."""

import numpy as np
import pytest

from core.codegen.scatter_updates import scatter_updates as rewrite
from core.ir import AxisType, Op, UOp, dtypes
from core.testing.pass_checks import expect_values, kernel
from core.testing.pass_checks import scatter_updates as check


def test_scatter_updates():
    check()


def scattered(op, start, update_dtype=dtypes.float32, rows=7, updates=20, columns=3):
    """out[p, j] = op over u of where(i[u] == p, x[u, j], start)."""
    p, j = UOp.range(rows, 0), UOp.range(columns, 1)
    u = UOp.range(updates, 2, AxisType.REDUCE)
    index = UOp.param(1, dtypes.int32, (updates,)).index(u).load()
    x = UOp.param(2, update_dtype, (updates * columns,)).index(u * columns + j).load()
    value = index.eq(p.cast(dtypes.int32)).where(x, start).reduce(op, u)
    out = UOp.param(0, update_dtype, (rows * columns,))
    return kernel(out.index(p * columns + j).store(value).end(p, j))


def inputs(seed=0, low=-3, high=12):
    draw = np.random.default_rng(seed)
    return draw.integers(low, high, 20).astype(np.int32), draw.standard_normal(
        (20, 3)).astype(np.float32)


@pytest.mark.parametrize(("op", "start", "combine"), [
    (Op.ADD, 0.0, np.add), (Op.MAX, -1.0, np.maximum)])
def test_updates_are_combined_in_order_and_those_out_of_range_dropped(op, start, combine):
    index, x = inputs()
    expected = np.full((7, 3), start, np.float32)
    for i, row in zip(index, x, strict=True):
        if 0 <= i < 7:
            expected[i] = combine(expected[i], row)
    sink = rewrite(scattered(op, start))
    assert sink is not scattered(op, start)
    expect_values(sink, expected.ravel(), index, x.ravel())


def test_a_sum_that_starts_elsewhere_stays():
    sink = scattered(Op.ADD, 1.0)
    assert rewrite(sink) is sink


def test_an_update_that_depends_on_its_place_stays():
    p, u = UOp.range(7, 0), UOp.range(5, 1, AxisType.REDUCE)
    index = UOp.param(1, dtypes.int32, (5,)).index(u).load()
    x = UOp.param(2, dtypes.float32, (7,)).index(p).load()
    value = index.eq(p.cast(dtypes.int32)).where(x, 0.0).reduce(Op.ADD, u)
    out = UOp.param(0, dtypes.float32, (7,))
    sink = kernel(out.index(p).store(value).end(p))
    assert rewrite(sink) is sink
