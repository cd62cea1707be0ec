"""Layers that convolve along any number of axes."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from core.foundation.errors import ShapeError
from core.frontend import Tensor
from core.nn.layers import uniform_parameter


class Convolution:
    """Cross-correlation of (batch, in_channels, axes...) with learned kernels.

    Args:
        in_channels: Channels of the input.
        out_channels: Channels of the result.
        kernel_size: Extents of a kernel, or one number for all.
        stride: Steps between windows.
        padding: Zeros round the edges: a number, one per axis, "same" or "valid".
        dilation: Steps between taps.
        groups: Channels are split into so many groups that do not mix.
        bias: Whether there is one.

    Attributes:
        weight: (out_channels, in_channels / groups, kernel...), uniform at first within
            1 / sqrt(inputs of one output).
        bias: (out_channels,), or None.

    Raises:
        ShapeError: The groups do not divide the channels, or the kernel has other axes.
    """

    #: Axes of a kernel.
    rank: ClassVar[int]

    def __init__(  # noqa: PLR0913, PLR0917 - a convolution has so many properties
        self, in_channels: int, out_channels: int, kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1, padding: int | tuple[int, ...] | str = 0,
        dilation: int | tuple[int, ...] = 1, groups: int = 1, bias: bool = True,
    ) -> None:
        name = type(self).__name__
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise ShapeError(f"{name}: {groups} groups do not divide {in_channels} input and "
                             f"{out_channels} output channels")
        kernel = (kernel_size,) * self.rank if isinstance(kernel_size, int) else tuple(kernel_size)
        if len(kernel) != self.rank:
            raise ShapeError(f"{name}: a kernel has {self.rank} axes, not {kernel}")
        self.stride, self.padding = stride, padding
        self.dilation, self.groups = dilation, groups
        shape = self._weight_shape(in_channels, out_channels)
        seen = shape[1] * math.prod(kernel)
        self.weight = uniform_parameter((*shape, *kernel), seen)
        self.bias = uniform_parameter((out_channels,), seen) if bias else None

    def _weight_shape(self, inputs: int, outputs: int) -> tuple[int, int]:
        """The first two extents of the weight."""
        return outputs, inputs // self.groups

    def __call__(self, x: Tensor) -> Tensor:
        """(batch, in_channels, axes...) to (batch, out_channels, axes...)."""
        return x.conv2d(self.weight, self.bias, groups=self.groups, stride=self.stride,
                        dilation=self.dilation, padding=self.padding)


class Conv1d(Convolution):
    """`Convolution` along one axis."""

    rank = 1


class Conv2d(Convolution):
    """`Convolution` along height and width."""

    rank = 2


class Conv3d(Convolution):
    """`Convolution` along three axes."""

    rank = 3


class TransposedConvolution(Convolution):
    """The adjoint of `Convolution`: each input spreads over a window of the result.

    Args:
        in_channels: Channels of the input.
        out_channels: Channels of the result.
        kernel_size: As of `Convolution`, like all that are not named here.
        stride: Steps between windows of the result.
        padding: Taken off the edges of the result.
        output_padding: Added to the far edges of the result.
        options: dilation, groups, bias.

    Attributes:
        weight: (in_channels, out_channels / groups, kernel...).
        bias: (out_channels,), or None.
    """

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1, padding: int | tuple[int, ...] = 0,
        output_padding: int | tuple[int, ...] = 0, **options: Any,
    ) -> None:
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, **options)
        self.output_padding = output_padding

    def _weight_shape(self, inputs: int, outputs: int) -> tuple[int, int]:
        return inputs, outputs // self.groups

    def __call__(self, x: Tensor) -> Tensor:
        """(batch, in_channels, axes...) to (batch, out_channels, axes...)."""
        return x.conv_transpose2d(
            self.weight, self.bias, groups=self.groups, stride=self.stride,
            dilation=self.dilation, padding=self.padding, output_padding=self.output_padding)


class ConvTranspose1d(TransposedConvolution):
    """`TransposedConvolution` along one axis."""

    rank = 1


class ConvTranspose2d(TransposedConvolution):
    """`TransposedConvolution` along height and width."""

    rank = 2


class ConvTranspose3d(TransposedConvolution):
    """`TransposedConvolution` along three axes."""

    rank = 3
