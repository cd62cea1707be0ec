"""EXP and EXP2 within 2 units (float32) and 8 (float64) over the whole range."""

import numpy as np
import pytest

from core.ir import Op, UOp, dtypes, toposort
from core.testing.elementwise import EVERYTHING, PLAIN, apply_op, lower, target_with, units

FUNCTIONS = {Op.EXP: np.exp, Op.EXP2: np.exp2}


def arguments(dtype):
    """Every 9973rd bit pattern, the interesting range densely, the edges."""
    if dtype is np.float32:
        patterns = np.arange(0, 2**32, 9973, dtype=np.uint64).astype(np.uint32).view(np.float32)
        edges = [88.722839, 88.72284, -103.97, -103.98, -87.34, 128, 127.99999, -149, -149.5, -150]
    else:
        patterns = np.random.default_rng(1).integers(0, 2**64, 50_000, np.uint64).view(np.float64)
        edges = [709.782712893384, 709.7827128933841, -745.13, -745.14, 1024, -1074, -1075, -1022.5]
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 0.5, -0.5, 1, -1, 1.5, 2.5, *edges]
    return np.concatenate([
        patterns, np.linspace(-1100, 1100, 40_001), np.linspace(-2, 2, 4001), special,
    ], dtype=dtype, casting="unsafe")


@pytest.mark.parametrize("fma", [True, False])
@pytest.mark.parametrize(("dtype", "bound"), [(np.float32, 2), (np.float64, 8)])
@pytest.mark.parametrize("op", FUNCTIONS)
def test_error_is_within_the_bound(op, dtype, bound, fma):
    x = arguments(dtype)
    with np.errstate(all="ignore"):
        wanted = FUNCTIONS[op](x.astype(np.longdouble))
    errors = units(apply_op(op, x, fma=fma), wanted)
    worst = errors.argmax()
    assert errors[worst] <= bound, f"{errors[worst]} units at {x[worst]!r}"


@pytest.mark.parametrize("op", FUNCTIONS)
def test_special_values_are_exact(op):
    x = np.float32([-np.inf, np.inf, 0.0, -0.0, 1000, -1000])
    assert apply_op(op, x).tolist() == [0, np.inf, 1, 1, np.inf, 0]
    assert np.isnan(apply_op(op, np.float32([np.nan])))[0]


def test_exp2_of_every_integer_is_exact():
    x = np.arange(-149, 128).astype(np.float32)
    assert np.array_equal(apply_op(Op.EXP2, x), np.exp2(x.astype(np.float64)).astype(np.float32))


@pytest.mark.parametrize("op", FUNCTIONS)
def test_a_kernel_stays_small(op):
    from_float32 = UOp(op, (UOp.param(0, dtypes.float32, (8,)),))
    graph = lower(from_float32)
    assert graph.shape == (8,)
    assert sum(bool(n.src) and n.op is not Op.PARAM for n in toposort(graph)) <= 26


def test_an_operation_that_the_renderer_has_stays():
    node = UOp(Op.EXP2, (UOp.param(0, dtypes.float32, (8,)),))
    assert lower(node, ops=PLAIN | {Op.EXP2}) is node


def test_float16_is_computed_in_float32_even_where_it_is_native():
    x = np.arange(2**16, dtype=np.uint16).view(np.float16)
    target = target_with(dtypes=EVERYTHING)
    with np.errstate(all="ignore"):
        wanted = np.exp(x.astype(np.float64))
    assert units(apply_op(Op.EXP, x, target=target), wanted).max() < 0.501
