"""Layers: objects that hold parameters and are called with a tensor.

A layer is plain: its parameters are attributes, found by `core.nn.state`. What has no parameters
is a method of Tensor (`relu`, `dropout`, `max_pool2d`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from core.foundation.errors import ShapeError
from core.frontend import Tensor
from core.ir import DType, dtypes


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
        self.weight = _uniform((out_features, in_features), in_features)
        self.bias = _uniform((out_features,), in_features) if bias else None

    def __call__(self, x: Tensor) -> Tensor:
        """(..., in_features) to (..., out_features)."""
        return x.linear(self.weight.transpose(), self.bias)


class Conv2d:
    """Cross-correlation of (batch, in_channels, height, width) with learned kernels.

    Args:
        in_channels: Channels of the input.
        out_channels: Channels of the result.
        kernel_size: Height and width of a kernel, or one number for both.
        stride: Steps between windows.
        padding: Zeros round the edges: a number, one per axis, "same" or "valid".
        dilation: Steps between taps.
        groups: Channels are split into so many groups that do not mix.
        bias: Whether there is one.

    Attributes:
        weight: (out_channels, in_channels / groups, height, width), uniform at first within
            1 / sqrt(inputs of one output).
        bias: (out_channels,), or None.

    Raises:
        ShapeError: The groups do not divide the channels.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - a convolution has so many properties
        self, in_channels: int, out_channels: int, kernel_size: int | tuple[int, int],
        stride: int | tuple[int, ...] = 1, padding: int | tuple[int, ...] | str = 0,
        dilation: int | tuple[int, ...] = 1, groups: int = 1, bias: bool = True,
    ) -> None:
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise ShapeError(f"Conv2d: {groups} groups do not divide {in_channels} input and "
                             f"{out_channels} output channels")
        kernel = (kernel_size,) * 2 if isinstance(kernel_size, int) else tuple(kernel_size)
        self.stride, self.padding = stride, padding
        self.dilation, self.groups = dilation, groups
        inputs = in_channels // groups
        seen = inputs * math.prod(kernel)
        self.weight = _uniform((out_channels, inputs, *kernel), seen)
        self.bias = _uniform((out_channels,), seen) if bias else None

    def __call__(self, x: Tensor) -> Tensor:
        """(batch, in_channels, height, width) to (batch, out_channels, ...)."""
        return x.conv2d(self.weight, self.bias, groups=self.groups, stride=self.stride,
                        dilation=self.dilation, padding=self.padding)


class BatchNorm:
    """Each channel (axis 1) less its mean, over its standard deviation (Ioffe and Szegedy, 2015).

    Inside `Tensor.train()` mean and variance are those of the batch, and the running ones move
    towards them; an optimizer that was given them computes them in its `step`. Elsewhere the
    running ones are used.

    Args:
        num_features: Number of channels.
        eps: Added to the variance.
        momentum: How far the running statistics move towards those of a batch.
        affine: Whether there are a weight and a bias.
        track_running_stats: Whether there are running statistics; without them the batch's own
            are always used.

    Attributes:
        weight: (num_features,), ones at first, or None.
        bias: (num_features,), zeros at first, or None.
        running_mean: (num_features,), or None.
        running_var: (num_features,), of n - 1 degrees of freedom, or None.
        num_batches_tracked: Batches seen in training, int64 of rank 0, or None.
    """

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = True,
        track_running_stats: bool = True,
    ) -> None:
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.weight = _filled(num_features, 1.0) if affine else None
        self.bias = _filled(num_features, 0.0) if affine else None
        self.running_mean = self.running_var = self.num_batches_tracked = None
        if track_running_stats:
            self.running_mean = _filled(num_features, 0.0, requires_grad=False)
            self.running_var = _filled(num_features, 1.0, requires_grad=False)
            count = Tensor([0], dtype=dtypes.int64, requires_grad=False)
            self.num_batches_tracked = count.reshape(())

    def __call__(self, x: Tensor) -> Tensor:
        """(batch, num_features, ...) to the same shape.

        Raises:
            ShapeError: The channels differ, or a batch of one value has no variance.
        """
        if x.ndim < 2 or x.shape[1] != self.num_features:
            raise ShapeError(f"BatchNorm of {self.num_features} channels: the input has shape "
                             f"{x.shape}")
        mean, variance = self.running_mean, self.running_var
        if Tensor.training or mean is None or variance is None:
            mean, variance = self._batch_statistics(x)
        return x.batchnorm(self.weight, self.bias, mean, (variance + self.eps).rsqrt())

    def _batch_statistics(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of each channel; the running ones follow in training."""
        axes = (0, *range(2, x.ndim))
        wide = x if x.dtype.bits > 16 else x.float()
        mean = wide.mean(axes)
        distance = wide - mean.reshape(1, -1, *(1 for _ in axes[1:]))
        variance = (distance * distance).mean(axes)
        if Tensor.training and self.running_mean is not None:
            self._follow(mean.detach(), variance.detach(), math.prod(x.shape[a] for a in axes))
        return mean, variance

    def _follow(self, mean: Tensor, variance: Tensor, count: int) -> None:
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        if count < 2:
            raise ShapeError("BatchNorm in training needs more than one value per channel",
                             cure="give it larger batches, or evaluate outside Tensor.train()")
        m = self.momentum
        unbiased = variance * (count / (count - 1))
        self.running_mean.assign(self.running_mean * (1 - m) + mean * m)
        self.running_var.assign(self.running_var * (1 - m) + unbiased * m)
        self.num_batches_tracked.assign(self.num_batches_tracked + 1)


BatchNorm2d = BatchNorm


class LayerNorm:
    """The last axes less their mean, over their standard deviation (Ba et al., 2016).

    Args:
        normalized_shape: Extents of the last axes.
        eps: Added to the variance.
        elementwise_affine: Whether there are a weight and a bias.

    Attributes:
        weight: Of shape `normalized_shape`, ones at first, or None.
        bias: Of shape `normalized_shape`, zeros at first, or None.
    """

    def __init__(
        self, normalized_shape: int | Sequence[int], eps: float = 1e-5,
        elementwise_affine: bool = True,
    ) -> None:
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else normalized_shape
        self.normalized_shape, self.eps = tuple(shape), eps
        self.weight = Tensor.ones(self.normalized_shape) if elementwise_affine else None
        self.bias = Tensor.zeros(self.normalized_shape) if elementwise_affine else None

    def __call__(self, x: Tensor) -> Tensor:
        """(..., *normalized_shape) to the same shape.

        Raises:
            ShapeError: The last axes are others.
        """
        count = len(self.normalized_shape)
        if x.ndim < count or x.shape[x.ndim - count:] != self.normalized_shape:
            raise ShapeError(f"LayerNorm of {self.normalized_shape}: the input has shape "
                             f"{x.shape}")
        result = x.layernorm(tuple(range(-count, 0)), self.eps)
        if self.weight is None or self.bias is None:
            return result
        return result * self.weight + self.bias


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


def _uniform(shape: tuple[int, ...], inputs: int, dtype: DType | None = None) -> Tensor:
    """Within 1 / sqrt(inputs), so that sums over the inputs keep their variance."""
    bound = 1 / math.sqrt(inputs) if inputs else 0.0
    return Tensor.uniform(shape, low=-bound, high=bound, dtype=dtype)


def _filled(count: int, value: float, requires_grad: bool | None = None) -> Tensor:
    """A short vector in storage from the start: no program is compiled to fill it."""
    return Tensor([value] * count, requires_grad=requires_grad)
