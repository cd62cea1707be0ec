"""Sorting against numpy, and random choices that sort."""

import numpy as np
import pytest

from core.foundation.errors import ShapeError
from core.frontend import Tensor

RANDOM = np.random.default_rng(0)


def rows(size, dtype):
    if np.dtype(dtype).kind == "f":
        x = (RANDOM.normal(size=(2, size)) * 5).round().astype(dtype)
        x[0, size // 2:size // 2 + 2], x[1, :1] = -0.0, np.nan
        x[1, -1:] = -np.inf
        return x
    return RANDOM.integers(0, 9, (2, size)).astype(dtype)


CASES = [(size, dtype) for size in (0, 1, 2, 7, 512) for dtype in ("f4", "i8", "u1", "f2", "?")]


@pytest.mark.parametrize(("size", "dtype"), [*CASES, (600, "f4"), (600, "i8")])
def test_sort_is_stable(size, dtype):
    x = rows(size, dtype)
    values, indices = Tensor(x).sort()
    expected = np.argsort(x, 1, kind="stable")
    np.testing.assert_array_equal(indices.numpy(), expected)
    np.testing.assert_array_equal(values.numpy(), np.take_along_axis(x, expected, 1))


def test_sort_of_any_axis_falling():
    x = RANDOM.permutation(60).reshape(3, 4, 5).astype("i4")
    for axis in (0, 1, -1):
        values, indices = Tensor(x).sort(axis, descending=True)
        np.testing.assert_array_equal(values.numpy(), -np.sort(-x, axis))
        np.testing.assert_array_equal(indices.numpy(), np.argsort(-x, axis, kind="stable"))
    assert Tensor(3.0).sort()[0].item() == 3.0


def test_falling_order_is_stable_too():
    assert Tensor([1, 2, 1, 2]).argsort(descending=True).tolist() == [1, 3, 0, 2]


def test_topk():
    x = RANDOM.permutation(20).reshape(2, 10).astype("f4")
    values, indices = Tensor(x).topk(3)
    np.testing.assert_array_equal(values.numpy(), -np.sort(-x, 1)[:, :3])
    np.testing.assert_array_equal(indices.numpy(), np.argsort(-x, 1)[:, :3])
    values, _ = Tensor(x).topk(1, dim=0, largest=False)
    np.testing.assert_array_equal(values.numpy(), x.min(0, keepdims=True))
    with pytest.raises(ShapeError, match="11 of 10"):
        Tensor(x).topk(11)


def test_gradient_goes_back_to_where_values_came_from():
    x = Tensor(np.array([[3.0, 1.0, 2.0], [5.0, 5.0, 4.0]]))
    (x.sort()[0] * Tensor([1.0, 10.0, 100.0])).sum().backward()
    assert x.grad.tolist() == [[100, 1, 10], [10, 100, 1]]
    x = Tensor([3.0, 1.0, 2.0])
    g, = (x.sort()[0] ** 3).sum().gradient(x)
    assert g.sum().gradient(x)[0].tolist() == [18, 6, 12]


def test_randperm_and_multinomial():
    Tensor.manual_seed(3)
    order = Tensor.randperm(50).numpy()
    assert sorted(order) == list(range(50))
    assert (order != Tensor.randperm(50).numpy()).any()
    weights = Tensor([[1.0, 0.0, 3.0], [0.0, 1.0, 0.0]])
    drawn = weights.multinomial(500, replacement=True).numpy()
    assert set(drawn[1]) == {1}
    counts = np.bincount(drawn[0], minlength=3)
    assert counts[1] == 0
    assert 0.6 < counts[2] / 500 < 0.9
    picked = Tensor([1.0, 0.0, 3.0, 2.0]).multinomial(3).numpy()
    assert sorted(picked) == [0, 2, 3]
