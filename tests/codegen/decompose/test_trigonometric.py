"""SIN and COS within 2 units (float32) and 8 (float64) for every finite argument."""

import mpmath
import numpy as np
import pytest

from core.ir import Op, dtypes

FUNCTIONS = {Op.SIN: np.sin, Op.COS: np.cos}
# The floats nearest to a multiple of pi/2 (J.-M. Muller, Elementary Functions, 2006, table 11.1).
NEAREST32 = 16367173 * 2.0**72
NEAREST64 = 6381956970095103 * 2.0**797


def arguments(dtype):
    """Bit patterns of every exponent, multiples of pi/4 and their neighbours, hard cases."""
    if dtype is np.float32:
        patterns = np.arange(0, 2**32, 39_989, dtype=np.uint64).astype(np.uint32).view(dtype)
    else:
        patterns = np.random.default_rng(1).integers(0, 2**64, 40_000, np.uint64).view(dtype)
    turns = (np.arange(1, 4000) * np.longdouble(np.pi) / 4).astype(dtype)
    special = np.array([
        0.0, -0.0, np.inf, -np.inf, np.nan, np.finfo(dtype).max, np.finfo(dtype).smallest_subnormal,
        NEAREST32, NEAREST64 if dtype is np.float64 else 1, 1e5, 1e22, -1e22,
    ], dtype)
    return np.concatenate([
        patterns, turns, np.nextafter(turns, 0), -turns, np.linspace(-20, 20, 20_001, dtype=dtype),
        special,
    ])


@pytest.mark.parametrize("fma", [True, False])
@pytest.mark.parametrize(("dtype", "bound"), [(np.float32, 2), (np.float64, 8)])
@pytest.mark.parametrize("op", FUNCTIONS)
def test_error_is_within_the_bound(kit, op, dtype, bound, fma):
    x = arguments(dtype)
    with np.errstate(all="ignore"):
        wanted = FUNCTIONS[op](x.astype(np.longdouble))
    errors = kit.units(kit.apply(op, x, fma=fma), wanted)
    worst = errors.argmax()
    assert errors[worst] <= bound, f"{errors[worst]} units at {x[worst]!r}"


@pytest.mark.parametrize("op", FUNCTIONS)
def test_arguments_nearest_to_quarter_turns_against_many_digits(kit, op):
    exact = {Op.SIN: mpmath.sin, Op.COS: mpmath.cos}[op]
    for dtype, x in ((np.float32, NEAREST32), (np.float64, NEAREST64)):
        with mpmath.workprec(1400):
            wanted = float(exact(mpmath.mpf(x)))
        got = float(kit.apply(op, np.array([x], dtype))[0])
        assert abs(got - wanted) <= 4 * np.spacing(dtype(abs(wanted)))


def test_special_values_are_exact(kit):
    x = np.float32([0.0, -0.0, np.inf, -np.inf, np.nan])
    sine, cosine = kit.apply(Op.SIN, x), kit.apply(Op.COS, x)
    assert sine[:2].tolist() == [0, 0]
    assert np.signbit(sine[:2]).tolist() == [False, True]
    assert cosine[:2].tolist() == [1, 1]
    assert np.isnan(sine[2:]).all() and np.isnan(cosine[2:]).all()


def test_float32_needs_no_wider_type(kit):
    target = kit.target(dtypes=frozenset({dtypes.bool, dtypes.int32, dtypes.uint32, dtypes.float32}))
    x = arguments(np.float32)[::7]
    assert np.array_equal(
        kit.apply(Op.SIN, x, target=target), kit.apply(Op.SIN, x), equal_nan=True
    )
