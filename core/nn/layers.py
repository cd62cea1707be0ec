"""Layers: objects that hold parameters and are called with a tensor.

A layer is plain: its parameters are attributes, found by `core.nn.state`. What has no parameters
is a method of Tensor (`relu`, `dropout`, `max_pool2d`).
"""

from __future__ import annotations

import math

from core.frontend import Tensor
from core.ir import DType


class Linear:
    """x @ weight.T + bias.

    Args:
        in_features: Extent of the last axis of the input.
        out_features: Extent of the last axis of the result.
        bias: Whether there is one.

    Attributes:
        weight: (out_features, in_features), uniform within 1 / sqrt(in_features) at first.
        bias: (out_features,), or None.
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        self.weight = uniform_parameter((out_features, in_features), in_features)
        self.bias = uniform_parameter((out_features,), in_features) if bias else None

    def __call__(self, x: Tensor) -> Tensor:
        """(..., in_features) to (..., out_features)."""
        return x.linear(self.weight.transpose(), self.bias)


class Embedding:
    """A table of vectors, chosen by integers.

    Args:
        num_embeddings: Number of vectors.
        embedding_dim: Their length.

    Attributes:
        weight: (num_embeddings, embedding_dim), normal at first.
    """

    def __init__(self, num_embeddings: int, embedding_dim: int) -> None:
        self.weight = Tensor.normal(num_embeddings, embedding_dim)

    def __call__(self, index: Tensor) -> Tensor:
        """Integers of any shape to (..., embedding_dim); beyond the table a vector is 0."""
        return self.weight[index]


def uniform_parameter(shape: tuple[int, ...], inputs: int, dtype: DType | None = None) -> Tensor:
    """Within 1 / sqrt(inputs), so that sums over the inputs keep their variance."""
    bound = 1 / math.sqrt(inputs) if inputs else 0.0
    return Tensor.uniform(shape, low=-bound, high=bound, dtype=dtype)


def filled_parameter(count: int, value: float, requires_grad: bool | None = None) -> Tensor:
    """A short vector in storage from the start: no program is compiled to fill it."""
    return Tensor([value] * count, requires_grad=requires_grad)
