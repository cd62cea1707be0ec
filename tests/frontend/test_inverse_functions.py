"""Inverse functions against numpy in double precision."""

import math

import numpy as np
import pytest

from core.frontend import Tensor

RANDOM = np.random.default_rng(0)
UNIT = np.concatenate([RANDOM.uniform(-1, 1, 500), 1 - 10.0 ** RANDOM.uniform(-6, -1, 100),
                       RANDOM.normal(size=100) * 1e-4, [0.5, -0.5, 0.0, 1.0, -1.0]])
WIDE = np.concatenate([RANDOM.normal(size=500) * 10.0 ** RANDOM.uniform(-6, 12, 500),
                       [0.0, 1e30, -1e30, 0.41421356, 2.4142135]])
DOMAINS = {"asin": UNIT, "acos": UNIT, "atanh": UNIT[:-2], "atan": WIDE, "asinh": WIDE,
           "acosh": 1 + abs(WIDE)}
NUMPY = {name: getattr(np, "arc" + name[1:]) for name in DOMAINS}


@pytest.mark.parametrize("name", DOMAINS)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_values_are_within_their_bound(name, dtype):
    x = DOMAINS[name].astype(dtype)
    actual = getattr(Tensor(x), name)().numpy()
    assert actual.dtype == x.dtype
    bound = (5 if dtype == "f4" else 20) * np.finfo(dtype).eps
    np.testing.assert_allclose(actual.astype("f8"), NUMPY[name](x.astype("f8")), bound)


@pytest.mark.parametrize("name", DOMAINS)
def test_ends_of_the_domain(name):
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 2.0, -2.0, 3e38, -3e38], "f4")
    with np.errstate(all="ignore"):
        expected = NUMPY[name](x)
    actual = getattr(Tensor(x), name)().numpy()
    np.testing.assert_allclose(actual, expected, 1e-6)
    numbers = ~np.isnan(expected)  # the sign of a NaN says nothing
    np.testing.assert_array_equal(np.signbit(actual[numbers]), np.signbit(expected[numbers]))


SLOPES = {
    "asin": lambda x: 1 / np.sqrt(1 - x * x), "acos": lambda x: -1 / np.sqrt(1 - x * x),
    "atan": lambda x: 1 / (1 + x * x), "asinh": lambda x: 1 / np.sqrt(1 + x * x),
    "acosh": lambda x: 1 / np.sqrt(x * x - 1), "atanh": lambda x: 1 / (1 - x * x),
}


@pytest.mark.parametrize("name", SLOPES)
def test_gradients(name):
    x = np.array([0.3, -0.7, 0.01]) if name != "acosh" else np.array([1.5, 3.0, 20.0])
    t = Tensor(x)
    g, = getattr(t, name)().sum().gradient(t)
    np.testing.assert_allclose(g.numpy(), SLOPES[name](x), 1e-12)
    step = 1e-6
    second = (SLOPES[name](x + step) - SLOPES[name](x - step)) / (2 * step)
    np.testing.assert_allclose(g.sum().gradient(t)[0].numpy(), second, 1e-5)


def test_half_precision_rounds_once():
    x = Tensor(np.linspace(-1, 1, 101, dtype="f4")).half()
    np.testing.assert_array_equal(x.asin().numpy(), x.float().asin().half().numpy())


def test_lerp_and_logaddexp():
    assert Tensor([0.0, 10.0]).lerp(Tensor([10.0, 20.0]), 0.25).tolist() == [2.5, 12.5]
    a, b = np.array([1.0, 1000.0, -np.inf, -np.inf]), np.array([2.0, 1000.0, -np.inf, 3.0])
    np.testing.assert_allclose(Tensor(a).logaddexp(Tensor(b)).numpy(), np.logaddexp(a, b))
    x, y = Tensor([0.0, 500.0]), Tensor([math.log(3.0), 500.0])
    gx, gy = x.logaddexp(y).sum().gradient(x, y)
    np.testing.assert_allclose(gx.numpy(), [0.25, 0.5], 1e-6)
    np.testing.assert_allclose(gy.numpy(), [0.75, 0.5], 1e-6)
