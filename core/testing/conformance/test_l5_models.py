"""L5: whole models, trained for a few steps on the device and on REFERENCE from equal weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

from core import nn
from core.frontend import Tensor, jit
from core.runtime import Device
from core.testing.conformance.bench import Bench, compare_near

_STEPS: Final = 4
#: Largest difference, relative to the largest weight, after a few steps.
_BOUND: Final = 1e-4

Numbers = np.ndarray[Any, Any]


class ConvolutionalNetwork:
    """Two convolutions with batch normalization and pooling, and a linear layer."""

    def __init__(self) -> None:
        # What a normalization takes away again has no gradient but noise: no bias before it.
        self.first, self.second = nn.Conv2d(1, 6, 3), nn.Conv2d(6, 8, 3, padding=1, bias=False)
        self.norm, self.last = nn.BatchNorm(8), nn.Linear(8 * 3 * 3, 10)

    def __call__(self, x: Tensor) -> Tensor:
        """Scores of ten classes."""
        x = self.first(x).relu()
        x = self.norm(self.second(x)).relu().max_pool2d()
        return self.last(x.flatten(1))


class Perceptron:
    """Three linear layers, layer normalization, and smooth activations."""

    def __init__(self) -> None:
        self.first, self.second, self.last = nn.Linear(64, 48), nn.Linear(48, 48), nn.Linear(48, 10)
        self.norm = nn.LayerNorm(48)

    def __call__(self, x: Tensor) -> Tensor:
        """Scores of ten classes."""
        x = self.first(x.flatten(1)).tanh()
        return self.last(self.norm(self.second(x)).gelu())


class Attention:
    """One block of attention on rows of an image."""

    def __init__(self) -> None:
        self.into, self.out = nn.Linear(8, 3 * 16, bias=False), nn.Linear(16, 16)
        self.last = nn.Linear(16, 10)

    def __call__(self, x: Tensor) -> Tensor:
        """Scores of ten classes."""
        batch = x.shape[0]
        rows = self.into(x.reshape(batch, 8, 8)).reshape(batch, 8, 3, 2, 8).permute((2, 0, 3, 1, 4))
        mixed = rows[0].scaled_dot_product_attention(rows[1], rows[2])
        return self.last(self.out(mixed.permute((0, 2, 1, 3)).reshape(batch, 8, 16)).mean(1))


_MODELS: Final[dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]]] = {
    "convolutional-adam": (ConvolutionalNetwork, lambda p: nn.optim.Adam(p, lr=1e-3)),
    "perceptron-sgd": (Perceptron, lambda p: nn.optim.SGD(p, lr=0.05, momentum=0.9)),
    "attention-adamw": (Attention, lambda p: nn.optim.AdamW(p, lr=1e-3)),
}


def _weights_of(model: Any) -> list[Tensor]:
    return [tensor for tensor in nn.state.get_parameters(model) if tensor.dtype.is_float]


def _trained(name: str, device: str, *, traced: bool) -> tuple[list[float], list[Numbers]]:
    """(losses, weights) of a model after some steps on a device."""
    before = Device._default
    Device.DEFAULT = device
    try:
        make, optimizer_of = _MODELS[name]
        draw = np.random.default_rng(4)
        model = make()
        for weight in _weights_of(model):
            values = draw.normal(0, 0.3, weight.shape).astype(np.float32)
            weight.assign(Tensor(values)).realize()
        optimizer = optimizer_of(_weights_of(model))

        def step(x: Tensor, labels: Tensor) -> Tensor:
            with Tensor.train():
                optimizer.zero_grad()
                loss: Tensor = model(x).cross_entropy(labels)
                loss.backward()
                optimizer.step()
                return loss

        run = jit(step) if traced else step
        losses = []
        for _ in range(_STEPS):
            x = draw.normal(size=(12, 1, 8, 8)).astype(np.float32)
            losses.append(float(run(Tensor(x), Tensor(draw.integers(0, 10, 12))).item()))
        return losses, [weight.numpy() for weight in _weights_of(model)]
    finally:
        Device.DEFAULT = before


@pytest.mark.parametrize("name", _MODELS)
def test_training(bench: Bench, name: str) -> None:
    """Losses and weights are those of REFERENCE, step by step and traced."""
    right_losses, right = _trained(name, "REFERENCE", traced=False)
    for traced in (False, True):
        with bench.launching():
            losses, weights = _trained(name, bench.name, traced=traced)
        compare_near(np.array(losses), np.array(right_losses), _BOUND, "losses")
        for k, (found, expected) in enumerate(zip(weights, right, strict=True)):
            bound = _BOUND * max(float(np.abs(expected).max()), 1.0)
            compare_near(found, expected, bound, f"weight {k}")
