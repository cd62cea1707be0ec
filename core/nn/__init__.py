"""Layers, optimizers, data sets, and the state of models.

    model = [nn.Conv2d(1, 32, 3), Tensor.relu, nn.Linear(32, 10)]
    optimizer = nn.optim.Adam(nn.state.get_parameters(model), lr=1e-3)
"""

from core.nn import datasets, optim, state
from core.nn.layers import BatchNorm, BatchNorm2d, Conv2d, Embedding, LayerNorm, Linear
from core.nn.optim import SGD, Adam, AdamW

__all__ = [
    "SGD", "Adam", "AdamW", "BatchNorm", "BatchNorm2d", "Conv2d", "Embedding", "LayerNorm",
    "Linear", "datasets", "optim", "state",
]
