"""A sum of sums is one loop nest, unless that would leave the cores without work."""

import numpy as np
import pytest

from core import GlobalCounters, Tensor


def kernels(make, *arrays):
    tensors = [Tensor(a).realize() for a in arrays]
    before = GlobalCounters.kernel_count
    value = make(*tensors).realize()
    return GlobalCounters.kernel_count - before, value.numpy()


def test_the_gradient_of_a_convolution_is_one_kernel():
    x, w = (np.random.default_rng(k).standard_normal(s).astype(np.float32)
            for k, s in enumerate([(4, 3, 9, 9), (5, 3, 3, 3)]))
    count, found = kernels(
        lambda x, w: x.conv2d(w).gradient(x, gradient=Tensor.ones(4, 5, 7, 7))[0], x, w)
    assert count == 1
    expected = np.zeros_like(x)
    for row in range(7):
        for column in range(7):
            expected[:, :, row:row + 3, column:column + 3] += w.sum(0)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(64, 512, 8), (16, 40, 30)])
def test_sums_over_axes_one_after_the_other_are_one_kernel(shape):
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    count, found = kernels(lambda x: (x.sum(2) * 1).sum(1), x)
    assert count == 1
    np.testing.assert_allclose(found, x.sum((1, 2)), rtol=1e-4, atol=1e-3)


def test_a_long_sum_to_few_results_keeps_its_parts():
    x = np.ones((2048, 2048), np.float32)
    count, found = kernels(lambda x: x.sum(1).sum(0), x)
    assert count == 2, "one kernel would add four million numbers on one core"
    assert found == 2048 * 2048


def test_what_is_put_in_place_of_the_inner_sum_counts():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    keep = np.array([True, False, True])
    count, found = kernels(lambda x, k: k.where(x.sum(1), 0.0).sum(), x, keep)
    assert count == 1
    assert found == x[keep].sum()
