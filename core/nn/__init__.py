"""Layers, losses, optimizers, schedules, data sets, and the state of models.

    model = [nn.Conv2d(1, 32, 3), Tensor.relu, nn.Linear(32, 10)]
    optimizer = nn.optim.Adam(nn.state.get_parameters(model), lr=1e-3)
"""

from core.nn import datasets, losses, optim, schedules, state
from core.nn.convolution import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from core.nn.layers import Embedding, Linear
from core.nn.normalization import (
    BatchNorm,
    BatchNorm2d,
    GroupNorm,
    InstanceNorm,
    LayerNorm,
    LayerNorm2d,
    RMSNorm,
)
from core.nn.optim import LAMB, SGD, Adam, AdamW, Muon
from core.nn.recurrent import GRUCell, LSTMCell

__all__ = [
    "LAMB", "SGD", "Adam", "AdamW", "BatchNorm", "BatchNorm2d", "Conv1d", "Conv2d", "Conv3d",
    "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "Embedding", "GRUCell", "GroupNorm",
    "InstanceNorm", "LSTMCell", "LayerNorm", "LayerNorm2d", "Linear", "Muon", "RMSNorm",
    "datasets", "losses", "optim", "schedules", "state",
]
