"""Losses. `reduction` is "mean", "sum" or "none"."""

from __future__ import annotations

from typing import Any, Self

from core.foundation.errors import DTypeError, ShapeError
from core.frontend.broadcasting import broadcast, elementwise, show
from core.frontend.iota import iota
from core.frontend.operations.functions import softplus
from core.frontend.operations.normalization import NormalizationOperations
from core.ir import Op, UOp, dtypes


class LossOperations(NormalizationOperations):
    """Losses of predictions against targets."""

    __slots__ = ()

    def _reduced_loss(self, reduction: str) -> Self:
        if reduction not in ("mean", "sum", "none"):
            raise ValueError(f"reduction is 'mean', 'sum' or 'none', not {reduction!r}")
        return self if reduction == "none" else self.mean() if reduction == "mean" else self.sum()

    def binary_crossentropy(self, target: Any, reduction: str = "mean") -> Self:
        """-y log p - (1 - y) log(1 - p) of probabilities p."""
        p, y = self._float(), self._tensor(target)
        loss = y.mul(p.log()).add(y.neg().add(1).mul(p.neg().log1p())).neg()
        return loss._reduced_loss(reduction)

    def binary_crossentropy_logits(
        self, target: Any, reduction: str = "mean", pos_weight: Any = None
    ) -> Self:
        """`binary_crossentropy` of sigmoid(x), exact for large x."""
        x, result = self._working()
        y = self._tensor(target)._float()
        if pos_weight is None:
            # max(x, 0) - x y + log(1 + exp(-|x|))
            loss = x._of(softplus(x.uop)).sub(x.mul(y))
        else:
            positive = x._of(softplus(x.uop.alu(Op.NEG))).mul(y).mul(pos_weight)
            loss = positive.add(x._of(softplus(x.uop)).mul(y.neg().add(1)))
        return loss.cast(result)._reduced_loss(reduction)

    def cross_entropy(
        self, target: Any, reduction: str = "mean", label_smoothing: float = 0.0, axis: int = 1,
        ignore_index: int = -100,
    ) -> Self:
        """Cross entropy of logits with class indices, or with probabilities of the same shape.

        Raises:
            ShapeError: The target's shape does not fit.
        """
        y = self._tensor(target)
        if y.ndim == self.ndim and y.dtype.is_float:
            if y.shape != self.shape:
                raise ShapeError(f"cross entropy of {show(self.shape)} with probabilities of "
                                 f"shape {show(y.shape)}")
            at = axis if self.ndim > 1 else 0
            classes = self.shape[at]
            wanted = y.mul(1 - label_smoothing).add(label_smoothing / classes)
            loss = self.log_softmax(at).mul(wanted).sum(at).neg()
            if reduction != "mean":
                return loss._reduced_loss(reduction)
            return loss.sum().div(max(loss.numel(), 1))
        return self._class_loss(y, reduction, label_smoothing, ignore_index,
                                axis if self.ndim > 1 else 0)

    def sparse_categorical_crossentropy(
        self, target: Any, ignore_index: int = -1, label_smoothing: float = 0.0,
        reduction: str = "mean",
    ) -> Self:
        """Cross entropy of logits, classes on the last axis, with class indices.

        Rows whose class is `ignore_index` do not count.
        """
        return self._class_loss(self._tensor(target), reduction, label_smoothing, ignore_index,
                                self.ndim - 1)

    def nll_loss(
        self, target: Any, weight: Any = None, ignore_index: int | None = None,
        reduction: str = "mean",
    ) -> Self:
        """Minus the log probability of each class index; classes on axis 1, or 0 of a vector.

        Args:
            target: Class indices.
            weight: One factor per class; the mean divides by those of the targets.
            ignore_index: Class that does not count.
            reduction: "mean", "sum" or "none".
        """
        at = 1 if self.ndim > 1 else 0
        y = self._class_indices(self._tensor(target), at)
        chosen = self._of(_at_class(self.uop, y.uop, at)).neg()
        counts = self.uop.const_like(1).expand(self.shape) if weight is None else _along_axis(
            self._tensor(weight).cast(self.dtype).uop, self.shape, at)
        factor = self._of(_at_class(counts, y.uop, at))
        if ignore_index is not None:
            factor = y.eq(ignore_index).where(0, factor)
            chosen = y.eq(ignore_index).where(0, chosen)
        loss = chosen.mul(factor)
        if reduction != "mean":
            return loss._reduced_loss(reduction)
        return loss.sum().div(factor.sum())

    def _class_indices(self, y: Self, axis: int) -> Self:
        if y.dtype.is_float:
            raise DTypeError(f"class indices are integers, not {y.dtype.name}")
        rest = self.shape[:axis] + self.shape[axis + 1:]
        if y.shape != rest:
            raise ShapeError(f"predictions of shape {show(self.shape)} need class indices of "
                             f"shape {show(rest)}, not {show(y.shape)}")
        return y

    def _class_loss(
        self, target: Self, reduction: str, smoothing: float, ignore_index: int, axis: int
    ) -> Self:
        if not 0 <= smoothing <= 1:
            raise ValueError(f"label smoothing {smoothing} is not in [0, 1]")
        y = self._class_indices(target, axis)
        wide, result = self._working()
        log_probability = wide.log_softmax(axis)
        loss = self._of(_at_class(log_probability.uop, y.uop, axis)).neg()
        if smoothing:
            even = log_probability.mean(axis).neg()
            loss = loss.mul(1 - smoothing).add(even.mul(smoothing))
        counted = y.ne(ignore_index) if _holds(y.dtype, ignore_index) else y.eq(y)
        loss = counted.where(loss, 0)
        if reduction != "mean":
            return loss._reduced_loss(reduction).cast(result)
        return loss.sum().div(counted.cast(loss.dtype).sum()).cast(result)


def _holds(dtype: Any, value: int) -> bool:
    return bool(dtype.minimum <= value <= dtype.maximum)


def _along_axis(vector: UOp, shape: tuple[int, ...], axis: int) -> UOp:
    sizes = [n if a == axis else 1 for a, n in enumerate(shape)]
    return broadcast(vector.reshape(sizes), shape)


def _at_class(value: UOp, classes: UOp, axis: int) -> UOp:
    """The element of each row that a class index names; 0 for an index out of range.

    A choice summed over the classes: its gradient is a choice again, and scatters nothing.
    """
    wide = classes if classes.dtype.bits >= 32 else classes.cast(dtypes.int32)
    own = broadcast(wide.reshape([1 if a == axis else n for a, n in enumerate(value.shape)]),
                    value.shape)
    number = _along_axis(iota(value.shape[axis], wide.dtype), value.shape, axis)
    chosen = elementwise(Op.WHERE, own.eq(number), value, value.const_like(0))
    order = (axis, *(a for a in range(len(value.shape)) if a != axis))
    return chosen.permute(order).reduce(Op.ADD, axes=1)
