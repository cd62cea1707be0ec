"""Layers against numpy, or against the definition."""

import numpy as np
import pytest

from core import Tensor, nn
from core.foundation.errors import ShapeError


@pytest.fixture
def random():
    return np.random.default_rng(7)


def draw(random, *shape):
    return random.standard_normal(shape).astype(np.float32)


def test_linear_is_x_times_weight_transposed_plus_bias(random):
    layer, x = nn.Linear(5, 3), draw(random, 2, 4, 5)
    expected = x @ layer.weight.numpy().T + layer.bias.numpy()
    assert layer(Tensor(x)).numpy() == pytest.approx(expected, abs=1e-5)


def test_linear_without_bias(random):
    layer, x = nn.Linear(5, 3, bias=False), draw(random, 4, 5)
    assert layer.bias is None
    assert layer(Tensor(x)).numpy() == pytest.approx(x @ layer.weight.numpy().T, abs=1e-5)


def test_weights_start_uniform_within_the_root_of_the_inputs():
    Tensor.manual_seed(3)
    weight = nn.Linear(400, 50).weight.numpy()
    assert abs(weight).max() <= 0.05
    assert weight.std() == pytest.approx(0.05 / 3**0.5, rel=0.02)
    assert weight.mean() == pytest.approx(0, abs=1e-3)
    kernel = nn.Conv2d(8, 40, (5, 2), groups=2).weight.numpy()
    assert 0.95 / 40**0.5 < abs(kernel).max() <= 1 / 40**0.5


def test_two_layers_start_differently_and_a_seed_repeats_them():
    Tensor.manual_seed(3)
    a, b = nn.Linear(4, 4).weight.numpy(), nn.Linear(4, 4).weight.numpy()
    Tensor.manual_seed(3)
    assert (nn.Linear(4, 4).weight.numpy() == a).all()
    assert (a != b).any()


def convolved(x, weight, stride, padding, dilation, groups):
    """Cross-correlation by its definition."""
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding))).astype(np.float64)
    outputs, inputs, kernel_height, kernel_width = weight.shape
    height = (x.shape[2] - dilation * (kernel_height - 1) - 1) // stride + 1
    width = (x.shape[3] - dilation * (kernel_width - 1) - 1) // stride + 1
    result = np.zeros((x.shape[0], outputs, height, width))
    for o in range(outputs):
        first = o // (outputs // groups) * inputs
        for i in range(height):
            for j in range(width):
                window = x[:, first:first + inputs,
                           i * stride:i * stride + dilation * (kernel_height - 1) + 1:dilation,
                           j * stride:j * stride + dilation * (kernel_width - 1) + 1:dilation]
                result[:, o, i, j] = (window * weight[o]).sum((1, 2, 3))
    return result


@pytest.mark.parametrize("options", [
    {"stride": 1, "padding": 0, "dilation": 1, "groups": 1},
    {"stride": 2, "padding": 1, "dilation": 1, "groups": 1},
    {"stride": 1, "padding": 2, "dilation": 2, "groups": 2},
])
def test_convolution_by_its_definition(random, options):
    layer, x = nn.Conv2d(4, 6, (3, 2), **options), draw(random, 2, 4, 7, 6)
    expected = convolved(x, layer.weight.numpy(), **options) + layer.bias.numpy()[:, None, None]
    assert layer(Tensor(x)).numpy() == pytest.approx(expected, abs=1e-5)


def test_convolution_refuses_groups_that_do_not_divide():
    with pytest.raises(ShapeError, match="3 groups do not divide 4 input"):
        nn.Conv2d(4, 6, 3, groups=3)


def test_batchnorm_uses_the_batch_in_training_and_follows_it(random):
    layer, x = nn.BatchNorm(3), 2 + 3 * draw(random, 8, 3, 2, 2)
    with Tensor.train():
        y = layer(Tensor(x))
    mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3))
    expected = (x - mean[:, None, None]) / np.sqrt(variance + 1e-5)[:, None, None]
    assert y.numpy() == pytest.approx(expected, abs=1e-4)
    assert layer.running_mean.numpy() == pytest.approx(0.1 * mean, abs=1e-5)
    unbiased = x.var((0, 2, 3), ddof=1)
    assert layer.running_var.numpy() == pytest.approx(0.9 + 0.1 * unbiased, rel=1e-5)
    assert layer.num_batches_tracked.item() == 1


def test_batchnorm_uses_running_statistics_elsewhere(random):
    layer, x = nn.BatchNorm2d(3), draw(random, 4, 3, 2, 2)
    layer.running_mean.assign(Tensor([1.0, 2.0, 3.0]))
    layer.running_var.assign(Tensor([4.0, 9.0, 16.0]))
    layer.weight.assign(Tensor([1.0, 2.0, 3.0]))
    layer.bias.assign(Tensor([0.5, 0.0, -0.5]))
    scale = np.array([1.0, 2.0, 3.0]) / np.sqrt(np.array([4.0, 9.0, 16.0]) + 1e-5)
    expected = ((x - np.array([1, 2, 3])[:, None, None]) * scale[:, None, None]
                + np.array([0.5, 0, -0.5])[:, None, None])
    assert layer(Tensor(x)).numpy() == pytest.approx(expected, abs=1e-5)
    assert layer.num_batches_tracked.item() == 0


def test_batchnorm_without_running_statistics_always_uses_the_batch(random):
    layer, x = nn.BatchNorm(2, affine=False, track_running_stats=False), draw(random, 16, 2)
    y = layer(Tensor(x)).numpy()
    assert y.mean(0) == pytest.approx([0, 0], abs=1e-6)
    assert y.std(0) == pytest.approx([1, 1], rel=1e-3)


def test_batchnorm_names_its_mistakes():
    layer = nn.BatchNorm(3)
    with pytest.raises(ShapeError, match="BatchNorm of 3 channels"):
        layer(Tensor.zeros(2, 4, 2, 2))
    with Tensor.train(), pytest.raises(ShapeError, match="more than one value"):
        layer(Tensor.zeros(1, 3))


@pytest.mark.parametrize("shape", [(6,), (3, 6)])
def test_layernorm_over_the_last_axes(random, shape):
    layer, x = nn.LayerNorm(shape), 5 + draw(random, 4, 3, 6)
    layer.weight.assign(Tensor(draw(random, *shape)))
    layer.bias.assign(Tensor(draw(random, *shape)))
    axes = tuple(range(-len(shape), 0))
    centred = x - x.mean(axes, keepdims=True)
    expected = centred / np.sqrt(x.var(axes, keepdims=True) + 1e-5)
    expected = expected * layer.weight.numpy() + layer.bias.numpy()
    assert layer(Tensor(x)).numpy() == pytest.approx(expected, abs=1e-4)
    with pytest.raises(ShapeError, match="LayerNorm"):
        layer(Tensor.zeros(4, 3, 5))


def test_embedding_chooses_rows_and_its_gradient_counts_them():
    layer = nn.Embedding(5, 3)
    index = Tensor([[4, 1], [1, 0]])
    assert (layer(index).numpy() == layer.weight.numpy()[[[4, 1], [1, 0]]]).all()
    layer(index).sum().backward()
    assert layer.weight.grad.numpy()[:, 0].tolist() == [1, 2, 0, 0, 1]


def test_gradients_reach_every_parameter(random):
    layers = [nn.Conv2d(1, 2, 3, padding=1), nn.BatchNorm(2), nn.Linear(8, 3), nn.LayerNorm(3)]
    x = Tensor(draw(random, 4, 1, 2, 2), requires_grad=False)
    with Tensor.train():
        y = layers[1](layers[0](x)).flatten(1)
        y = layers[3](layers[2](y))
    (y * y * y).sum().backward()
    trained = [t for t in nn.state.get_parameters(layers)
               if t.dtype.is_float and t.requires_grad is not False]
    assert len(trained) == 8
    for tensor in trained:
        assert tensor.grad.shape == tensor.shape
        assert np.isfinite(tensor.grad.numpy()).all()
