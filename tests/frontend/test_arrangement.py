"""Grids, windows, resampling and combining scatters against numpy."""

import numpy as np
import pytest

from core.foundation.errors import ShapeError
from core.frontend import Tensor

A = np.arange(24, dtype="f4").reshape(2, 3, 4)


def equal(tensor, expected):
    actual, expected = tensor.numpy(), np.asarray(expected)
    assert actual.dtype == expected.dtype
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("indexing", ["ij", "xy"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_meshgrid(indexing, count):
    vectors = [np.arange(n, dtype="i4") for n in (2, 3, 4)[:count]]
    first, *rest = map(Tensor, vectors)
    for actual, expected in zip(first.meshgrid(*rest, indexing=indexing),
                                np.meshgrid(*vectors, indexing=indexing), strict=True):
        equal(actual, expected)


WINDOWS = np.lib.stride_tricks.sliding_window_view
MOVES = {
    "diag": (lambda x: x[0, 0].diag(), np.diag(A[0, 0])),
    "diag of a matrix": (lambda x: x[0].diag(), np.diag(A[0])),
    "pad_to": (lambda x: x.pad_to(3, None, 4), np.pad(A, ((0, 1), (0, 0), (0, 0)))),
    "shrink_to": (lambda x: x.shrink_to((None, 2, 1)), A[:, :2, :1]),
    "unfold": (lambda x: x.unfold(-1, 2, 1), WINDOWS(A, 2, 2)),
    "unfold in steps": (lambda x: x.unfold(1, 2, 2), WINDOWS(A, 2, 1)[:, ::2]),
    "rearrange": (lambda x: x.rearrange("a (b c) d -> (d b) c a", b=3),
                  A.reshape(2, 3, 1, 4).transpose(3, 1, 2, 0).reshape(12, 1, 2)),
    "rearrange dots": (lambda x: x.rearrange("... w -> w ..."),
                       A.transpose(2, 0, 1)),
    "sequential": (lambda x: x.sequential([lambda t: t * 2, lambda t: t.sum(0)]), 2 * A.sum(0)),
}


@pytest.mark.parametrize("name", MOVES)
def test_moves(name):
    function, expected = MOVES[name]
    equal(function(Tensor(A)), expected)


def resampled(x, new, align):
    """Linear resampling of the last axis."""
    old = x.shape[-1]
    o = np.arange(new)
    at = o * (old - 1) / max(new - 1, 1) if align else np.clip((o + 0.5) * old / new - 0.5, 0,
                                                                old - 1)
    low = np.floor(at).astype(int)
    high = np.minimum(low + 1, old - 1)
    return x[..., low] + (x[..., high] - x[..., low]) * (at - low)


@pytest.mark.parametrize("new", [1, 2, 3, 4, 7, 12])
@pytest.mark.parametrize("align", [True, False])
def test_linear_interpolation(new, align):
    x = np.random.default_rng(0).normal(size=(2, 4))
    actual = Tensor(x).interpolate((new,), align_corners=align).numpy()
    np.testing.assert_allclose(actual, resampled(x, new, align))


def test_interpolation_of_several_axes_and_nearest():
    x = np.random.default_rng(1).normal(size=(2, 3, 4))
    expected = resampled(resampled(x, 6, False).swapaxes(1, 2), 5, False).swapaxes(1, 2)
    np.testing.assert_allclose(Tensor(x).interpolate((5, 6)).numpy(), expected)
    equal(Tensor(x).interpolate((6,), mode="nearest"), x[..., np.arange(6) * 4 // 6])
    exact = np.floor((np.arange(6) + 0.5) * 4 / 6).astype(int)
    equal(Tensor(x).interpolate((6,), mode="nearest-exact"), x[..., exact])
    t = Tensor(x)
    g, = t.interpolate((3, 8)).sum().gradient(t)
    np.testing.assert_allclose(g.numpy(), np.full(x.shape, 2.0))


REDUCTIONS = {"sum": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum}


@pytest.mark.parametrize("include", [True, False])
@pytest.mark.parametrize("name", [*REDUCTIONS, "mean"])
@pytest.mark.parametrize("axis", [0, 1])
def test_scatter_reduce(include, name, axis):
    random = np.random.default_rng(2)
    base, source = random.normal(size=(3, 4)), random.normal(size=(2, 3))
    index = random.integers(0, 3, (2, 3))
    expected, count = base.copy(), np.ones(base.shape)
    fresh = np.zeros(base.shape, bool)
    function = REDUCTIONS.get(name, np.add)
    for place in np.ndindex(2, 3):
        at = (index[place], place[1]) if axis == 0 else (place[0], index[place])
        if not include and not fresh[at]:
            expected[at], fresh[at], count[at] = source[place], True, 1
        else:
            expected[at] = function(expected[at], source[place])
            count[at] += 1
    if name == "mean":
        expected /= count
    actual = Tensor(base).scatter_reduce(axis, Tensor(index), Tensor(source), name, include)
    np.testing.assert_allclose(actual.numpy(), expected)


@pytest.mark.parametrize(("mistake", "text"), [
    (lambda x: x.pad_to(1, 3, 4), "larger"), (lambda x: x.unfold(0, 3, 1), "axis of 2"),
    (lambda x: x.rearrange("a b -> b a"), "does not fit"), (lambda x: x.diag(), "vector"),
    (lambda x: x.rearrange("a (b q) c -> a b q c", b=2), "axis of 3"),
    (lambda x: x.interpolate((0,)), "interpolate"), (lambda x: x.meshgrid(x), "vectors"),
])
def test_mistakes(mistake, text):
    with pytest.raises(ShapeError, match=text):
        mistake(Tensor(A))
