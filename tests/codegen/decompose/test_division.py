"""Integer division: floor forms from truncating ones, powers of two by shifts."""

import numpy as np
import pytest

from core.ir import Op, UOp, dtypes, toposort
from core.testing.elementwise import PLAIN, apply_op, evaluate, lower

DTYPES = [np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64]


def pairs(dtype):
    """All pairs of extremes and small numbers, zero among them."""
    info = np.iinfo(dtype)
    values = np.array([
        v for v in (info.min, info.min + 1, -7, -3, -2, -1, 0, 1, 2, 3, 7, info.max - 1, info.max)
        if v >= info.min
    ], dtype)
    a, b = np.meshgrid(values, values)
    return np.ascontiguousarray(a.ravel()), np.ascontiguousarray(b.ravel())


def exact(op, a, b, info):
    """The result in unbounded integers, wrapped."""
    if b == 0:
        return 0
    floor = a // b
    truncated = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    result = {
        Op.FLOORDIV: floor, Op.FLOORMOD: a - floor * b, Op.TRUNCDIV: truncated,
        Op.TRUNCMOD: a - truncated * b,
    }[op]
    return (result - info.min) % (1 << info.bits) + info.min


@pytest.mark.parametrize("has_remainder", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", [Op.FLOORDIV, Op.FLOORMOD, Op.TRUNCDIV, Op.TRUNCMOD])
def test_every_pair_of_extremes(op, dtype, has_remainder):
    a, b = pairs(dtype)
    info = np.iinfo(dtype)
    ops = PLAIN if has_remainder else PLAIN - {Op.TRUNCMOD}
    wanted = [exact(op, int(x), int(y), info) for x, y in zip(a, b, strict=True)]
    assert apply_op(op, a, b, ops=ops).tolist() == wanted


@pytest.mark.parametrize("k", [0, 1, 4, 30])
def test_powers_of_two_need_no_division(k):
    x = UOp.param(0, dtypes.int32, (5,))
    values = np.int32([-(2**31), -17, 0, 17, 2**31 - 1])
    for graph, wanted in ((x // (1 << k), values // (1 << k)), (x % (1 << k), values % (1 << k))):
        lowered = lower(graph)
        assert not {n.op for n in toposort(lowered)} & {Op.TRUNCDIV, Op.TRUNCMOD}
        assert evaluate(lowered, {x: values}).tolist() == wanted.tolist()


def test_bounds_drop_the_correction():
    x = UOp.range(UOp.const(100, dtypes.int32), 0)
    assert lower(x // 7) is x.alu(Op.TRUNCDIV, 7)
    assert lower(x % 7) is x.alu(Op.TRUNCMOD, 7)


def test_decomposing_twice_changes_nothing():
    a, b = (UOp.param(k, dtypes.int32, (4,)) for k in (0, 1))
    once = lower(UOp.group(a // b, a % b))
    assert lower(once) is once


def test_reciprocal_is_a_division():
    x = np.float32([0.0, -0.0, 3, np.inf, 1e-45])
    with np.errstate(all="ignore"):
        assert np.array_equal(apply_op(Op.RECIPROCAL, x), np.float32(1) / x)
