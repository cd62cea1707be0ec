"""Losses against their definition in numpy, and their gradients."""

import numpy as np
import pytest

from core import Tensor
from core.foundation.errors import ShapeError
from core.nn import losses

X = np.array([[0.5, -2.0, 3.0], [0.1, 1.0, -0.2]], np.float32)
Y = np.array([[1.0, -1.0, 0.5], [0.1, -1.0, 1.0]], np.float32)
P = np.array([[0.2, 0.8, 0.0], [0.5, 0.25, 0.25]], np.float32)
D = abs(X - Y)
LOG = np.log(np.where(P > 0, P, 1))
CASES = {
    "mse": (losses.mse_loss, Y, {}, (X - Y) ** 2),
    "l1": (losses.l1_loss, Y, {}, D),
    "huber": (losses.huber_loss, Y, {"delta": 0.7}, np.where(
        D < 0.7, D * D / 2, 0.7 * (D - 0.35))),
    "smooth l1": (losses.smooth_l1_loss, Y, {"beta": 0.7}, np.where(
        D < 0.7, D * D / 1.4, D - 0.35)),
    "kl": (losses.kl_div, P, {}, np.where(P > 0, P * (LOG - X), 0)),
    "kl of logarithms": (losses.kl_div, LOG, {"log_target": True}, np.exp(LOG) * (LOG - X)),
    "hinge": (losses.hinge_embedding_loss, np.sign(Y), {"margin": 0.4}, np.where(
        Y > 0, X, np.maximum(0, 0.4 - X))),
}


@pytest.mark.parametrize("name", CASES)
def test_values_and_reductions(name):
    loss, target, options, expected = CASES[name]
    for reduction, value in (("none", expected), ("sum", expected.sum()),
                             ("mean", expected.mean())):
        found = loss(Tensor(X), Tensor(target), reduction=reduction, **options).numpy()
        assert found == pytest.approx(value, abs=1e-6)
    assert loss(Tensor(X), target, **options).item() == pytest.approx(expected.mean(), abs=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_slopes(name):
    loss, target, options, _ = CASES[name]
    x = Tensor(X.astype(np.float64))
    loss(x, Tensor(target, requires_grad=False), reduction="sum", **options).backward()
    step = 1e-6
    for place in np.ndindex(X.shape):
        if D[place] == 0 and name == "l1":
            continue  # a kink
        moved = [X.astype(np.float64) for _ in range(2)]
        moved[0][place] += step
        moved[1][place] -= step
        high, low = (loss(Tensor(m), Tensor(target), reduction="sum", **options).item()
                     for m in moved)
        assert x.grad.numpy()[place] == pytest.approx((high - low) / (2 * step), abs=1e-5)


def test_the_mean_over_a_batch():
    found = losses.kl_div(Tensor(X), Tensor(P), reduction="batchmean").item()
    assert found == pytest.approx(CASES["kl"][3].sum() / 2, abs=1e-6)


def test_mistakes_are_named():
    with pytest.raises(ShapeError, match=r"\(2, 3\), the targets \(3,\)"):
        losses.mse_loss(Tensor(X), Tensor(Y[0]))
    with pytest.raises(ValueError, match="reduction"):
        losses.l1_loss(Tensor(X), Tensor(Y), reduction="average")
    with pytest.raises(ValueError, match="delta"):
        losses.huber_loss(Tensor(X), Tensor(Y), delta=0.0)
