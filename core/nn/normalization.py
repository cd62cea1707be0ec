"""Layers that normalise: over a batch, a row, groups of channels."""

from __future__ import annotations

import math
from collections.abc import Sequence

from core.foundation.errors import ShapeError
from core.frontend import Tensor
from core.ir import dtypes
from core.nn.layers import filled_parameter


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
        self.weight = filled_parameter(num_features, 1.0) if affine else None
        self.bias = filled_parameter(num_features, 0.0) if affine else None
        self.running_mean = self.running_var = self.num_batches_tracked = None
        if track_running_stats:
            self.running_mean = filled_parameter(num_features, 0.0, requires_grad=False)
            self.running_var = filled_parameter(num_features, 1.0, requires_grad=False)
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


class RMSNorm:
    """The last axes over the root of their mean square (Zhang and Sennrich, 2019).

    Args:
        normalized_shape: Extents of the last axes.
        eps: Added to the mean square.
        elementwise_affine: Whether there is a weight.

    Attributes:
        weight: Of shape `normalized_shape`, ones at first, or None.
    """

    def __init__(
        self, normalized_shape: int | Sequence[int], eps: float = 1e-6,
        elementwise_affine: bool = True,
    ) -> None:
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else normalized_shape
        self.normalized_shape, self.eps = tuple(shape), eps
        self.weight = Tensor.ones(self.normalized_shape) if elementwise_affine else None

    def __call__(self, x: Tensor) -> Tensor:
        """(..., *normalized_shape) to the same shape.

        Raises:
            ShapeError: The last axes are others.
        """
        count = len(self.normalized_shape)
        if x.ndim < count or x.shape[x.ndim - count:] != self.normalized_shape:
            raise ShapeError(f"RMSNorm of {self.normalized_shape}: the input has shape {x.shape}")
        wide = x if x.dtype.bits > 16 else x.float()
        square = (wide * wide).mean(tuple(range(-count, 0)), keepdim=True)
        result = (wide * (square + self.eps).rsqrt()).cast(x.dtype)
        return result if self.weight is None else result * self.weight


class GroupNorm:
    """Groups of channels less their mean, over their standard deviation (Wu and He, 2018).

    Args:
        num_groups: Number of groups.
        num_channels: Channels (axis 1) of the input; the groups divide them.
        eps: Added to the variance.
        affine: Whether there are a weight and a bias.

    Attributes:
        weight: (num_channels,), ones at first, or None.
        bias: (num_channels,), zeros at first, or None.

    Raises:
        ShapeError: The groups do not divide the channels.
    """

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True,
    ) -> None:
        if num_groups < 1 or num_channels % num_groups:
            raise ShapeError(f"{type(self).__name__}: {num_groups} groups do not divide "
                             f"{num_channels} channels")
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        self.weight = filled_parameter(num_channels, 1.0) if affine else None
        self.bias = filled_parameter(num_channels, 0.0) if affine else None

    def __call__(self, x: Tensor) -> Tensor:
        """(batch, num_channels, ...) to the same shape.

        Raises:
            ShapeError: The channels differ.
        """
        if x.ndim < 2 or x.shape[1] != self.num_channels:
            raise ShapeError(f"{type(self).__name__} of {self.num_channels} channels: the input "
                             f"has shape {x.shape}")
        rest = math.prod(x.shape[2:]) * (self.num_channels // self.num_groups)
        result = x.reshape(x.shape[0], self.num_groups, rest).layernorm(-1, self.eps)
        result = result.reshape(x.shape)
        if self.weight is None or self.bias is None:
            return result
        shape = (1, -1, *(1 for _ in x.shape[2:]))
        return result * self.weight.reshape(shape) + self.bias.reshape(shape)


class InstanceNorm(GroupNorm):
    """`GroupNorm` of each channel by itself (Ulyanov et al., 2016).

    Args:
        num_features: Channels (axis 1) of the input.
        eps: Added to the variance.
        affine: Whether there are a weight and a bias.
    """

    def __init__(self, num_features: int, eps: float = 1e-5, affine: bool = True) -> None:
        super().__init__(num_features, num_features, eps, affine)


class LayerNorm2d(LayerNorm):
    """`LayerNorm` over the channels (axis 1) of (batch, channels, height, width)."""

    def __call__(self, x: Tensor) -> Tensor:
        """(batch, channels, height, width) to the same shape."""
        return super().__call__(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
