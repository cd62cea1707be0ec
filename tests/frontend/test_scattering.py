"""Scatters of many updates: one loop over them, whatever is scattered and however often."""

import numpy as np
import pytest

from core import GlobalCounters, Tensor

RNG = np.random.default_rng(0)


def test_the_gradient_of_an_embedding():
    weight, index = RNG.standard_normal((300, 16)).astype("f4"), RNG.integers(-300, 300, 500)
    given = RNG.standard_normal((500, 16)).astype("f4")
    expected = np.zeros_like(weight)
    np.add.at(expected, index, given)
    w, g, i = Tensor(weight).realize(), Tensor(given).realize(), Tensor(index).realize()
    before = GlobalCounters.kernel_count
    found = w[i].gradient(w, gradient=g)[0].realize()
    # Indices counted from the front, which of them are in range, the sums.
    assert GlobalCounters.kernel_count - before <= 3
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i1", "i8", "u2", "f2", "?"])
def test_the_last_of_several_values_stays(dtype):
    base, index = np.zeros((70, 3), dtype), RNG.integers(-70, 70, 200)
    values = RNG.integers(0, 100, (200, 3)).astype(dtype)
    x = Tensor(base)
    x[Tensor(index)] = Tensor(values)
    base[index] = values
    np.testing.assert_array_equal(x.numpy(), base)


def test_two_indices_name_one_place():
    base = np.zeros((40, 30), "f4")
    rows, columns = RNG.integers(-40, 40, 900), RNG.integers(-30, 30, 900)
    values = RNG.standard_normal(900).astype("f4")
    x = Tensor(base)
    x[Tensor(rows), Tensor(columns)] = Tensor(values)
    base[rows, columns] = values
    np.testing.assert_array_equal(x.numpy(), base)


@pytest.mark.parametrize("axis", [0, 1])
def test_sums_along_an_axis(axis):
    base = RNG.standard_normal((80, 90))
    index = RNG.integers(0, base.shape[axis], (80, 90))
    source = RNG.standard_normal((80, 90))
    expected = base.copy()
    places = [index, np.arange(90)[None]] if axis == 0 else [np.arange(80)[:, None], index]
    np.add.at(expected, tuple(places), source)
    found = Tensor(base).scatter(axis, Tensor(index), Tensor(source), reduce="add")
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)


def test_the_gradient_of_a_gradient_of_a_gather():
    weight, index = RNG.standard_normal((90, 8)), RNG.integers(0, 90, 200)
    w = Tensor(weight)
    first, = (w[Tensor(index)] ** 3).sum().gradient(w)
    second, = (first * first).sum().gradient(w)
    counts = np.bincount(index, minlength=90)[:, None]
    np.testing.assert_allclose(first.numpy(), 3 * counts * weight**2, rtol=1e-12)
    np.testing.assert_allclose(second.numpy(), 36 * counts**2 * weight**3, rtol=1e-12)
