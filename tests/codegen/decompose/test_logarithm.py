"""LOG and LOG2 within 2 units (float32) and 8 (float64), denormals and special values too."""

import numpy as np
import pytest

from core.ir import Op, UOp, dtypes, toposort
from core.testing.elementwise import apply_op, lower, units

FUNCTIONS = {Op.LOG: np.log, Op.LOG2: np.log2}


def arguments(dtype):
    """Every 9973rd bit pattern, the neighbourhood of 1 densely, denormals, the edges."""
    if dtype is np.float32:
        patterns = np.arange(0, 2**32, 9973, dtype=np.uint64).astype(np.uint32).view(np.float32)
        tiny = np.arange(1, 2**23, 4999, dtype=np.uint32).view(np.float32)
    else:
        patterns = np.random.default_rng(1).integers(0, 2**64, 50_000, np.uint64).view(np.float64)
        tiny = np.arange(1, 2**52, 2**40 + 7, dtype=np.uint64).view(np.float64)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 2, 0.5**0.5, 2**0.5, 0.70710677]
    near = 1 + np.concatenate([np.logspace(-17, -1, 999), -np.logspace(-17, -1, 999)])
    return np.concatenate([
        patterns, np.linspace(0.4, 2.2, 40_001), tiny, near, special,
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
    got = apply_op(op, np.float32([0.0, -0.0, np.inf, 1, -1, -np.inf, np.nan, -1e-45]))
    assert got[:4].tolist() == [-np.inf, -np.inf, np.inf, 0]
    assert np.isnan(got[4:]).all()


def test_log2_of_every_power_of_two_is_exact():
    n = np.arange(-149, 128)
    x = np.exp2(n.astype(np.float64)).astype(np.float32)
    assert np.array_equal(apply_op(Op.LOG2, x), n)


@pytest.mark.parametrize("op", FUNCTIONS)
def test_a_kernel_stays_small(op):
    graph = lower(UOp(op, (UOp.param(0, dtypes.float32, (8,)),)))
    assert sum(bool(n.src) and n.op is not Op.PARAM for n in toposort(graph)) <= 40
