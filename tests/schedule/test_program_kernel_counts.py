"""The kernel counts of DESIGN 3 for programs as users write them, on NULL: 2 cores, 2 MB L2."""

import numpy as np
import pytest

from core import GlobalCounters, Tensor, nn


def data(*shape):
    return Tensor(np.zeros(shape, np.float32), device="NULL")


def kernels(make, *inputs):
    """Kernels of what `make` computes of some inputs."""
    results = make(*inputs)
    results = results if isinstance(results, (tuple, list)) else (results,)
    before = GlobalCounters.kernel_count
    results[0].realize(*results[1:])
    return GlobalCounters.kernel_count - before


def attention(q, k, v):
    return ((q @ k.transpose(-2, -1)) * 0.125).softmax(-1) @ v


@pytest.mark.parametrize(("expected", "make", "shapes"), [
    (1, lambda x: ((x * 2 + 1).exp() - x).sigmoid(), [(4_000_000,)]),
    (1, lambda x, w, b: (x @ w + b).relu(), [(512, 512), (512, 512), (512,)]),
    (1, lambda x, w, b: x.conv2d(w, b, padding=1).relu(),
     [(8, 64, 56, 56), (64, 64, 3, 3), (64,)]),
    (1, lambda x: x.softmax(-1), [(2048, 2048)]),
    (1, lambda x: x.log_softmax(-1), [(2048, 2048)]),
    (1, lambda x: x.layernorm(), [(2048, 2048)]),
    (1, attention, [(4, 8, 256, 64)] * 3),
    (2, lambda x: x.sum(), [(1 << 24,)]),
    (2, lambda x: x.max(), [(1 << 24,)]),
    (1, lambda x: x.sum(0), [(2048, 2048)]),
    (1, lambda x: x.transpose(0, 1).contiguous(), [(2048, 2048)]),
    (1, lambda x, y: (x * 2, y + 1), [(64, 64)] * 2),
    (1, lambda x: x[:, 3:60].reshape(-1).flip(0), [(64, 64)]),
    (1, lambda x, y: Tensor.cat(x, y, dim=1), [(64, 64), (64, 32)]),
])
def test_kernels(expected, make, shapes):
    assert kernels(make, *(data(*shape) for shape in shapes)) == expected


def test_statistics_of_batchnorm_are_at_most_two():
    assert kernels(lambda x: (x.mean((0, 2, 3)), x.var((0, 2, 3))), data(64, 32, 24, 24)) <= 2


@pytest.mark.parametrize("optimizer", [nn.optim.SGD, nn.optim.Adam, nn.optim.AdamW])
def test_optimizers_take_one_kernel_for_each_shape(optimizer):
    """Parameters of equal shapes share one, up to the device's 31 buffers."""
    parameters = [data(*shape) for shape in [(64, 32)] * 3 + [(32, 16)] * 2]
    for parameter in parameters:
        parameter.requires_grad = True
    trained = optimizer(parameters, lr=0.01)

    def step():
        for parameter in parameters:
            parameter.grad = data(*parameter.shape)
        before = GlobalCounters.kernel_count
        trained.step()
        return GlobalCounters.kernel_count - before

    step()
    # And one for the step's own scalars, where it has some.
    assert step() <= 2 + (optimizer is not nn.optim.SGD)
