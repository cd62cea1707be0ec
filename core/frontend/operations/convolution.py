"""Convolution and pooling, over any number of trailing axes.

Windows are gathered by index tables (`core.frontend.windows`), so the gradient of each of these is
a gather again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

from core.foundation.errors import ShapeError
from core.frontend.broadcasting import broadcast, front, show
from core.frontend.conversion import accumulator, number, sum_result
from core.frontend.iota import tabulate
from core.frontend.operations.assignment import AssignmentOperations
from core.frontend.operations.movement import padded
from core.frontend.operations.reduction import reduced
from core.frontend.windows import Relation, back, forward, zeros_outside
from core.ir import Op, UOp


class ConvolutionOperations(AssignmentOperations):
    """Convolution and pooling. Input is (batch, channels, axes...)."""

    __slots__ = ()

    def conv2d(
        self, weight: Self, bias: Self | None = None, groups: int = 1, stride: Any = 1,
        dilation: Any = 1, padding: Any = 0, dtype: Any = None,
    ) -> Self:
        """Cross-correlation with (outputs, inputs / groups, kernel...).

        Args:
            weight: The kernels; as many trailing axes as they have are windowed.
            bias: One number per output channel.
            groups: Channels are split into so many groups that do not mix.
            stride: Steps between windows; one number or one per axis.
            dilation: Steps between taps.
            padding: Zeros round the edges: one number, one per axis, torch's flat (before, after)
                of the last axis first, "same" or "valid".
            dtype: dtype of the result; that of the operands by default.

        Raises:
            ShapeError: Channels, groups, kernel and input do not fit.
        """
        axes = weight.ndim - 2
        if axes < 1 or self.ndim != weight.ndim:
            raise ShapeError(f"convolution of {show(self.shape)} with {show(weight.shape)}: both "
                             "need a batch or output axis, channels, and the same trailing axes")
        kernel = weight.shape[2:]
        steps, taps = _per_axis(stride, axes, "stride"), _per_axis(dilation, axes, "dilation")
        pads = _padding(padding, kernel, steps, taps)
        outputs, inputs = weight.shape[:2]
        if groups < 1 or self.shape[1] != inputs * groups or outputs % groups:
            raise ShapeError(f"convolution of {self.shape[1]} channels with a weight of shape "
                             f"{show(weight.shape)} in {groups} groups: it takes {inputs * groups}"
                             f" channels and {outputs} outputs")
        x, w = self._promoted(weight)
        target = sum_result(x.dtype)
        wide = accumulator(x.dtype)
        x = padded(x.cast(wide), [(0, 0), (0, 0), *pads], number(0, wide))
        value = _convolved(x, w.cast(wide), groups, steps, taps).cast(target)
        result = self._of(value) if dtype is None else self._of(value).cast(dtype)
        return result if bias is None else result._biased(bias)

    def _biased(self, bias: Self) -> Self:
        """One number added to each channel."""
        if bias.numel() != self.shape[1]:
            raise ShapeError(f"convolution: a bias of shape {show(bias.shape)} does not fit "
                             f"{self.shape[1]} output channels")
        return self.add(bias.reshape(1, -1, *(1,) * (self.ndim - 2)))

    def conv_transpose2d(
        self, weight: Self, bias: Self | None = None, groups: int = 1, stride: Any = 1,
        dilation: Any = 1, padding: Any = 0, output_padding: Any = 0,
    ) -> Self:
        """The adjoint of `conv2d`: weight is (inputs, outputs / groups, kernel...).

        Raises:
            ShapeError: Channels, groups, kernel and input do not fit.
        """
        axes = weight.ndim - 2
        if axes < 1 or self.ndim != weight.ndim or self.shape[1] != weight.shape[0] \
                or groups < 1 or self.shape[1] % groups:
            raise ShapeError(f"transposed convolution of {show(self.shape)} with "
                             f"{show(weight.shape)} in {groups} groups does not fit")
        kernel = weight.shape[2:]
        steps, taps = _per_axis(stride, axes, "stride"), _per_axis(dilation, axes, "dilation")
        pads = _padding(padding, kernel, steps, taps)
        extra = _per_axis(output_padding, axes, "output_padding")
        x, w = self._promoted(weight)
        wide, target = accumulator(x.dtype), sum_result(x.dtype)
        relations = []
        for a in range(axes):
            windows = self.shape[2 + a]
            size = ((windows - 1) * steps[a] - sum(pads[a]) + taps[a] * (kernel[a] - 1) + extra[a]
                    + 1)
            if size < 0:
                raise ShapeError(f"transposed convolution of {show(self.shape)}: padding {padding}"
                                 " leaves nothing")
            relations.append(Relation(steps[a], taps[a], -pads[a][0], windows, kernel[a], size))
        value = _spread(x.cast(wide), w.cast(wide), groups, relations).cast(target)
        result = self._of(value)
        return result if bias is None else result._biased(bias)

    def max_pool2d(
        self, kernel_size: Any = (2, 2), stride: Any = None, dilation: Any = 1, padding: Any = 0,
        ceil_mode: bool = False,
    ) -> Self:
        """Largest element of each window over the trailing axes; the edges never win.

        Raises:
            ShapeError: The kernel does not fit.
        """
        pool = self._pool(kernel_size, stride, dilation, padding, ceil_mode)
        return self._of(pool.reduce(self.uop, Op.MAX, self.dtype.minimum))

    def avg_pool2d(
        self, kernel_size: Any = (2, 2), stride: Any = None, dilation: Any = 1, padding: Any = 0,
        ceil_mode: bool = False, count_include_pad: bool = True,
    ) -> Self:
        """Mean of each window over the trailing axes.

        Args:
            kernel_size: Window, one number or one per axis.
            stride: Steps between windows; the kernel size by default.
            dilation: Steps between taps.
            padding: Zeros round the edges.
            ceil_mode: A last window may leave the edge; only what is inside counts.
            count_include_pad: Zeros of the padding count as elements.

        Raises:
            ShapeError: The kernel does not fit.
        """
        pool = self._pool(kernel_size, stride, dilation, padding, ceil_mode)
        wide, result = self._working()
        total = self._of(pool.reduce(wide.uop, Op.ADD, 0))
        count = pool.counts(count_include_pad, wide.dtype)
        return total.div(self._of(broadcast(count, total.shape))).cast(result)

    def _pool(
        self, kernel_size: Any, stride: Any, dilation: Any, padding: Any, ceil_mode: bool
    ) -> _Pool:
        axes = len(kernel_size) if isinstance(kernel_size, (tuple, list)) else 2
        if self.ndim < axes:
            raise ShapeError(f"pooling over {axes} axes of a tensor of shape {show(self.shape)}")
        kernel = _per_axis(kernel_size, axes, "kernel_size")
        steps = _per_axis(kernel if stride is None else stride, axes, "stride")
        taps = _per_axis(dilation, axes, "dilation")
        pads = _padding(padding, kernel, steps, taps)
        relations, room = [], []
        for a in range(axes):
            size = self.shape[self.ndim - axes + a]
            before, after = pads[a]
            span = taps[a] * (kernel[a] - 1) + 1
            free = size + before + after - span
            windows = (-(-free // steps[a]) if ceil_mode else free // steps[a]) + 1
            if ceil_mode and (windows - 1) * steps[a] >= size + before:
                windows -= 1
            if free < 0 or windows < 1:
                raise ShapeError(f"pooling of {show(self.shape)} with a kernel of {kernel}: an "
                                 "axis is shorter than the kernel")
            whole = max(size + before + after, (windows - 1) * steps[a] + span)
            relations.append(Relation(steps[a], taps[a], 0, windows, kernel[a], whole))
            room.append((before, after, whole - size - before))
        return _Pool(tuple(relations), tuple(room))


class _Pool(NamedTuple):
    """Windows of the trailing axes: relations, and (before, padding after, all added after)."""

    relations: tuple[Relation, ...]
    room: tuple[tuple[int, int, int], ...]

    def reduce(self, x: UOp, op: Op, fill: Any) -> UOp:
        """Reduce each window; the edges are filled."""
        lead = len(x.shape) - len(self.relations)
        pairs = [(0, 0)] * lead + [(before, added) for before, _, added in self.room]
        x = padded(x, pairs, number(fill, x.dtype))
        seen, taps = windows_of(x, self.relations)
        return reduced(seen, op, taps)

    def counts(self, include_padding: bool, dtype: Any) -> UOp:
        """Elements of each window that count."""

        def count(*places: UOp) -> UOp:
            result: UOp | None = None
            for o, relation, (before, after, added) in zip(places, self.relations, self.room,
                                                           strict=True):
                low, high = before, relation.size - added
                if include_padding:
                    low, high = 0, relation.size - added + after
                first = o * relation.stride
                skipped = (UOp.const(low) - first + (relation.dilation - 1)) // relation.dilation
                reached = (UOp.const(high) - first + (relation.dilation - 1)) // relation.dilation
                begin = (skipped > 0).where(skipped, 0)
                end = (reached < relation.taps).where(reached, relation.taps)
                inside = end - begin
                result = inside if result is None else result * inside
            assert result is not None
            return result.cast(dtype)

        return tabulate(count, *(r.windows for r in self.relations))


def _per_axis(value: Any, axes: int, name: str) -> tuple[int, ...]:
    """One number per axis.

    Raises:
        ShapeError: Another number of them, or one below 1 (below 0 for padding).
    """
    result = tuple(value) if isinstance(value, (tuple, list)) else (value,) * axes
    least = 0 if "padding" in name else 1
    if len(result) != axes or any(not isinstance(v, int) or v < least for v in result):
        raise ShapeError(f"{name} is an integer of at least {least}, or {axes} of them, not "
                         f"{value!r}")
    return result


def _padding(
    padding: Any, kernel: Sequence[int], steps: Sequence[int], taps: Sequence[int]
) -> list[tuple[int, int]]:
    """Zeros before and after each axis."""
    axes = len(kernel)
    if padding == "valid":
        return [(0, 0)] * axes
    if padding == "same":
        if any(s != 1 for s in steps):
            raise ShapeError("padding 'same' needs stride 1")
        totals = [d * (k - 1) for d, k in zip(taps, kernel, strict=True)]
        return [(t // 2, t - t // 2) for t in totals]
    if isinstance(padding, (tuple, list)) and len(padding) == 2 * axes and axes > 0 \
            and all(isinstance(p, int) for p in padding):
        return [(padding[k], padding[k + 1]) for k in range(0, 2 * axes, 2)][::-1]
    if isinstance(padding, (tuple, list)) and padding and isinstance(padding[0], (tuple, list)):
        return [(int(before), int(after)) for before, after in padding]
    return [(p, p) for p in _per_axis(padding, axes, "padding")]


def windows_of(x: UOp, relations: Sequence[Relation]) -> tuple[UOp, list[int]]:
    """Windows of the trailing axes: (..., O1, O2, ..., K1, K2, ...), and the axes of the taps."""
    count = len(relations)
    lead = len(x.shape) - count
    for a, relation in enumerate(relations):
        # The axis becomes (o, k); k goes to the end.
        seen = forward(front(x, [lead + a]), relation)
        rank = len(seen.shape)
        rest = list(range(2, rank))
        x = seen.permute([*rest[:lead + a], 0, *rest[lead + a:], 1])
    return x, list(range(lead + count, lead + 2 * count))


def _convolved(
    x: UOp, w: UOp, groups: int, steps: Sequence[int], taps: Sequence[int]
) -> UOp:
    """x (batch, channels, axes...) already padded, w (outputs, channels / groups, kernel...)."""
    batch, _, *sizes = x.shape
    outputs, inner, *kernel = w.shape
    axes = len(kernel)
    relations = []
    for a in range(axes):
        free = sizes[a] - taps[a] * (kernel[a] - 1) - 1
        if free < 0 or 0 in kernel:
            raise ShapeError(f"convolution: a padded axis of {sizes[a]} is shorter than a kernel "
                             f"of {kernel[a]} taps, {taps[a]} apart")
        relations.append(Relation(steps[a], taps[a], 0, free // steps[a] + 1, kernel[a], sizes[a]))
    seen, _ = windows_of(x, relations)
    windows = [r.windows for r in relations]
    per_group = outputs // groups
    # (inner, K..., batch, group, output, O...): the summed axes first
    left = seen.reshape((batch, groups, inner, *windows, *kernel))
    left = left.permute((2, *range(3 + axes, 3 + 2 * axes), 0, 1, *range(3, 3 + axes)))
    shape = (inner, *kernel, batch, groups, per_group, *windows)
    left = left.reshape((inner, *kernel, batch, groups, 1, *windows))
    right = w.reshape((groups, per_group, inner, *kernel))
    right = right.permute((2, *range(3, 3 + axes), 0, 1))
    right = right.reshape((inner, *kernel, 1, groups, per_group, *(1 for _ in windows)))
    product = broadcast(left, shape) * broadcast(right, shape)
    return product.reduce(Op.ADD, axes=1 + axes).reshape((batch, outputs, *windows))


def _spread(x: UOp, w: UOp, groups: int, relations: Sequence[Relation]) -> UOp:
    """Transposed convolution: each place sums the windows that hold it."""
    batch, channels, *_ = x.shape
    _, per_group, *kernel = w.shape
    axes, inner = len(kernel), channels // groups
    for a, relation in enumerate(relations):
        moved = front(x, [2 + a])
        seen = zeros_outside(back(moved, relation), relation)  # (k, i, ...)
        rank = len(seen.shape)
        rest = list(range(2, rank))
        x = seen.permute([*rest[:2 + a], 1, *rest[2 + a:], 0])
    sizes = [r.size for r in relations]
    left = x.reshape((batch, groups, inner, *sizes, *kernel))
    left = left.permute((2, *range(3 + axes, 3 + 2 * axes), 0, 1, *range(3, 3 + axes)))
    left = left.reshape((inner, *kernel, batch, groups, 1, *sizes))
    right = w.reshape((groups, inner, per_group, *kernel))
    right = right.permute((1, *range(3, 3 + axes), 0, 2))
    right = right.reshape((inner, *kernel, 1, groups, per_group, *(1 for _ in sizes)))
    shape = (inner, *kernel, batch, groups, per_group, *sizes)
    product = broadcast(left, shape) * broadcast(right, shape)
    return product.reduce(Op.ADD, axes=1 + axes).reshape((batch, groups * per_group, *sizes))


