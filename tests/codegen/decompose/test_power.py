"""POW: error bounds, the special cases of IEEE 754, integers that wrap."""

import itertools
import math

import numpy as np
import pytest

from core.ir import Op, UOp, dtypes
from core.testing.elementwise import apply_op, evaluate, lower, units

SPECIAL = [
    0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 0.5, -0.5, 2.5, -2.5, np.inf, -np.inf, np.nan,
    1e30, -1e30, 2.0**23 + 1, -(2.0**23 + 1), 2.0**24 + 2, 1e-38, 1e-44, 0.99999994, 1.0000001,
    127, 128, -149, -150, 1e9,
]


def operands(dtype):
    """(x, y): random bits, results over the whole range, bases close to one."""
    rng = np.random.default_rng(3)
    count, unsigned = 20_000, np.uint32 if dtype is np.float32 else np.uint64
    bits = [rng.integers(0, np.iinfo(unsigned).max, count, unsigned).view(dtype) for _ in range(2)]
    x = np.concatenate([rng.uniform(0.5, 2, count), rng.lognormal(0, 3, count),
                        1 + rng.normal(size=count) * 1e-3]).astype(dtype)
    exponents = rng.uniform(-1.1, 1.1, len(x)) * (140 if dtype is np.float32 else 1070)
    y = (exponents / np.log2(x.astype(np.float64))).astype(dtype)
    small = np.clip(rng.normal(size=count) * 3, -50, 50).astype(dtype)
    return np.concatenate([bits[0], x, np.abs(bits[0])]), np.concatenate([bits[1], y, small])


@pytest.mark.parametrize("fma", [True, False])
@pytest.mark.parametrize(("dtype", "bound"), [(np.float32, 4), (np.float64, 16)])
def test_error_is_within_the_bound(dtype, bound, fma):
    x, y = operands(dtype)
    with np.errstate(all="ignore"):
        wanted = np.power(x.astype(np.longdouble), y.astype(np.longdouble))
    errors = units(apply_op(Op.POW, x, y, fma=fma), wanted)
    worst = errors.argmax()
    assert errors[worst] <= bound, f"{errors[worst]} units at {x[worst]!r} ** {y[worst]!r}"


def ieee_power(x, y):
    """x ** y by C's pow, with Python's exceptions turned back into values."""
    try:
        return math.pow(x, y)
    except OverflowError:
        return math.copysign(math.inf, x) if y % 2 == 1 else math.inf
    except ValueError:
        if x == 0:
            return math.copysign(math.inf, x) if y % 2 == 1 else math.inf
        return math.nan


@pytest.mark.parametrize("fma", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_special_cases(dtype, fma):
    pairs = np.array(list(itertools.product(SPECIAL, SPECIAL)), dtype)
    x, y = np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])
    wanted = np.array([ieee_power(float(a), float(b)) for a, b in zip(x, y, strict=True)])
    errors = units(apply_op(Op.POW, x, y, fma=fma), wanted)
    wrong = np.flatnonzero(errors > (4 if dtype is np.float32 else 16))
    assert not len(wrong), [(x[k], y[k], wanted[k]) for k in wrong[:5]]


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.int64])
def test_integers_wrap(dtype):
    x, y = np.meshgrid(np.arange(-5, 12).astype(dtype), np.arange(0, 40).astype(dtype))
    x, y = x.ravel(), y.ravel()
    modulus = 1 << np.iinfo(dtype).bits
    wanted = np.array([pow(int(a), int(b)) % modulus for a, b in zip(x, y, strict=True)], object)
    got = apply_op(Op.POW, x, y).astype(object) % modulus
    assert (got == wanted).all()


@pytest.mark.parametrize("exponent", [0, 1, 2, 5, 31])
def test_a_constant_exponent_costs_only_its_bits(exponent):
    x = UOp.param(0, dtypes.int32, (4,))
    graph = lower(UOp(Op.POW, (x, x.const_like(exponent))))
    values = np.int32([-3, 0, 2, 7])
    assert graph.shape == (4,)
    got = evaluate(graph, {x: values})
    assert got.tolist() == (values ** np.int32(exponent)).tolist()
