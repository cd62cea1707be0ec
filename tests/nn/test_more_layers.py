"""Convolutions of other ranks, norms and recurrent cells against their definition in numpy."""

import numpy as np
import pytest

from core import Tensor, nn
from core.foundation.errors import ShapeError


@pytest.fixture
def random():
    return np.random.default_rng(11)


def draw(random, *shape):
    return random.standard_normal(shape).astype(np.float32)


def correlated(x, weight, bias, stride=1):
    """Valid cross-correlation of any rank without groups, by its definition."""
    kernel = weight.shape[2:]
    sizes = [(n - k) // stride + 1 for n, k in zip(x.shape[2:], kernel, strict=True)]
    result = np.zeros((len(x), len(weight), *sizes))
    for place in np.ndindex(*sizes):
        window = x[(slice(None), slice(None), *(
            slice(p * stride, p * stride + k) for p, k in zip(place, kernel, strict=True)))]
        result[(slice(None), slice(None), *place)] = (
            window.reshape(len(x), -1) @ weight.reshape(len(weight), -1).T + bias)
    return result


@pytest.mark.parametrize(("kind", "kernel", "sizes"), [
    (nn.Conv1d, (3,), (9,)), (nn.Conv2d, (3, 2), (6, 5)), (nn.Conv3d, (2, 1, 3), (4, 3, 5)),
])
@pytest.mark.parametrize("stride", [1, 2])
def test_convolutions_of_every_rank(random, kind, kernel, sizes, stride):
    layer, x = kind(3, 4, kernel, stride=stride), draw(random, 2, 3, *sizes)
    expected = correlated(x, layer.weight.numpy(), layer.bias.numpy(), stride)
    assert layer(Tensor(x)).numpy() == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(("kind", "kernel", "sizes"), [
    (nn.ConvTranspose1d, (3,), (4,)), (nn.ConvTranspose2d, (3, 2), (3, 4)),
    (nn.ConvTranspose3d, (2, 1, 3), (2, 3, 2)),
])
def test_transposed_convolutions_are_the_adjoint(random, kind, kernel, sizes):
    """<conv(y), x> = <y, transposed(x)> for the same weight."""
    layer, x = kind(3, 2, kernel, stride=2, bias=False), draw(random, 2, 3, *sizes)
    assert layer.weight.shape == (3, 2, *kernel)
    spread = layer(Tensor(x)).numpy()
    y = draw(random, *spread.shape)
    back = correlated(y, layer.weight.numpy(), 0.0, 2)
    assert (back * x).sum() == pytest.approx((y * spread).sum(), rel=1e-4, abs=1e-3)


def test_transposed_convolutions_have_groups_and_output_padding(random):
    layer = nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2)
    assert layer.weight.shape == (4, 3, 3, 3)
    assert layer(Tensor(draw(random, 1, 4, 5, 5))).shape == (1, 6, 10, 10)


def normalised(x, axes, eps):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def test_group_and_instance_norm(random):
    x = draw(random, 2, 6, 3, 2)
    groups = normalised(x.reshape(2, 3, -1), -1, 1e-5).reshape(x.shape)
    layer = nn.GroupNorm(3, 6)
    layer.weight.assign(Tensor(np.arange(6, dtype=np.float32)))
    expected = groups * np.arange(6).reshape(1, 6, 1, 1)
    assert layer(Tensor(x)).numpy() == pytest.approx(expected, abs=1e-4)
    assert nn.InstanceNorm(6, affine=False)(Tensor(x)).numpy() == pytest.approx(
        normalised(x, (2, 3), 1e-5), abs=1e-4)


def test_layer_norm_over_channels(random):
    x = draw(random, 2, 5, 3, 4)
    assert nn.LayerNorm2d(5)(Tensor(x)).numpy() == pytest.approx(normalised(x, 1, 1e-5), abs=1e-4)


def test_rms_norm(random):
    x = draw(random, 3, 4, 5)
    layer = nn.RMSNorm((4, 5), eps=1e-3)
    layer.weight.assign(Tensor(np.full((4, 5), 2, np.float32)))
    expected = 2 * x / np.sqrt((x * x).mean((1, 2), keepdims=True) + 1e-3)
    assert layer(Tensor(x)).numpy() == pytest.approx(expected, abs=1e-5)
    half = nn.RMSNorm(5, elementwise_affine=False)(Tensor(x * 300).half())
    assert half.dtype.name == "float16"
    assert half.float().numpy() == pytest.approx(
        x / np.sqrt((x * x).mean(-1, keepdims=True)), abs=5e-3)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def weights_of(cell):
    return [w.numpy() for w in (cell.weight_ih, cell.bias_ih, cell.weight_hh, cell.bias_hh)]


def test_lstm_cell(random):
    cell = nn.LSTMCell(3, 4)
    w, b, v, c = weights_of(cell)
    xs = draw(random, 3, 2, 3)
    hidden = memory = np.zeros((2, 4))
    state = None
    for x in xs:
        entry, forget, new, out = np.split(x @ w.T + b + hidden @ v.T + c, 4, axis=1)
        memory = sigmoid(forget) * memory + sigmoid(entry) * np.tanh(new)
        hidden = sigmoid(out) * np.tanh(memory)
        state = cell(Tensor(x), state)
    assert state[0].numpy() == pytest.approx(hidden, abs=1e-5)
    assert state[1].numpy() == pytest.approx(memory, abs=1e-5)


def test_gru_cell(random):
    cell = nn.GRUCell(3, 4)
    w, b, v, c = weights_of(cell)
    hidden, state = np.zeros((2, 4)), None
    for x in draw(random, 3, 2, 3):
        a, d = x @ w.T + b, hidden @ v.T + c
        reset, update = sigmoid(a[:, :4] + d[:, :4]), sigmoid(a[:, 4:8] + d[:, 4:8])
        new = np.tanh(a[:, 8:] + reset * d[:, 8:])
        hidden = (1 - update) * new + update * hidden
        state = cell(Tensor(x), state)
    assert state.numpy() == pytest.approx(hidden, abs=1e-5)
    assert nn.GRUCell(3, 4, bias=False).bias_ih is None


def test_mistakes_are_named(random):
    x = Tensor(draw(random, 2, 5, 3))
    for make, message in (
        (lambda: nn.Conv1d(3, 4, (3, 3)), "Conv1d: a kernel has 1 axes"),
        (lambda: nn.ConvTranspose2d(3, 4, 3, groups=2), "2 groups"),
        (lambda: nn.GroupNorm(4, 6), "4 groups"),
        (lambda: nn.GroupNorm(2, 6)(x), "GroupNorm of 6 channels"),
        (lambda: nn.InstanceNorm(6)(x), "InstanceNorm of 6 channels"),
        (lambda: nn.RMSNorm(4)(x), "RMSNorm of"),
    ):
        with pytest.raises(ShapeError, match=message):
            make()
