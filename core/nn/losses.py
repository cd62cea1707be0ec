"""Losses of predictions against targets, beside those that are methods of Tensor.

Each takes ``reduction="mean"``, ``"sum"`` or ``"none"``. Of the same kind and on Tensor:
`cross_entropy`, `nll_loss`, `binary_crossentropy`, `binary_crossentropy_logits`,
`sparse_categorical_crossentropy`.
"""

from __future__ import annotations

from typing import Any

from core.foundation.errors import ShapeError
from core.frontend import Tensor


def _pair(prediction: Tensor, target: Any) -> tuple[Tensor, Tensor]:
    """Both as tensors of one shape: broadcasting a target is nearly always a mistake."""
    wanted = target if isinstance(target, Tensor) else Tensor(target, device=prediction.device)
    if wanted.shape != prediction.shape:
        raise ShapeError(f"the predictions have shape {prediction.shape}, the targets "
                         f"{wanted.shape}", cure="reshape one of them")
    return prediction, wanted


def _reduced(loss: Tensor, reduction: str) -> Tensor:
    if reduction not in {"mean", "sum", "none"}:
        raise ValueError(f"reduction is 'mean', 'sum' or 'none', not {reduction!r}")
    return loss if reduction == "none" else loss.mean() if reduction == "mean" else loss.sum()


def mse_loss(prediction: Tensor, target: Any, reduction: str = "mean") -> Tensor:
    """Square of the difference.

    Raises:
        ShapeError: The shapes differ.
        ValueError: There is no such reduction.
    """
    x, y = _pair(prediction, target)
    return _reduced((x - y).square(), reduction)


def l1_loss(prediction: Tensor, target: Any, reduction: str = "mean") -> Tensor:
    """Absolute difference.

    Raises:
        ShapeError: The shapes differ.
        ValueError: There is no such reduction.
    """
    x, y = _pair(prediction, target)
    return _reduced((x - y).abs(), reduction)


def huber_loss(
    prediction: Tensor, target: Any, delta: float = 1.0, reduction: str = "mean"
) -> Tensor:
    """Half the square of the difference up to `delta`, a line beyond (Huber, 1964).

    Raises:
        ShapeError: The shapes differ.
        ValueError: `delta` is not positive, or there is no such reduction.
    """
    if not delta > 0:
        raise ValueError(f"delta is {delta}: it has to be positive")
    x, y = _pair(prediction, target)
    distance = (x - y).abs()
    near = distance.clamp(max=delta)
    return _reduced(near * (distance - near * 0.5), reduction)


def smooth_l1_loss(
    prediction: Tensor, target: Any, beta: float = 1.0, reduction: str = "mean"
) -> Tensor:
    """`huber_loss` over its `delta`.

    Raises:
        ShapeError: The shapes differ.
        ValueError: `beta` is not positive, or there is no such reduction.
    """
    return huber_loss(prediction, target, beta, reduction) / beta


def kl_div(
    log_prediction: Tensor, target: Any, log_target: bool = False, reduction: str = "mean"
) -> Tensor:
    """target * (log target - prediction), of logarithms of probabilities; 0 where target is 0.

    Args:
        log_prediction: Logarithms of the predicted probabilities.
        target: Probabilities, or their logarithms.
        log_target: Whether they are logarithms.
        reduction: "batchmean" too: the sum over the extent of the first axis.

    Raises:
        ShapeError: The shapes differ.
        ValueError: There is no such reduction.
    """
    x, y = _pair(log_prediction, target)
    if log_target:
        loss = y.exp() * (y - x)
    else:
        positive = y > 0
        logarithm = positive.where(y, 1).log()
        loss = positive.where(y * (logarithm - x), 0)
    if reduction == "batchmean":
        return loss.sum() / (x.shape[0] if x.ndim else 1)
    return _reduced(loss, reduction)


def hinge_embedding_loss(
    distance: Tensor, target: Any, margin: float = 1.0, reduction: str = "mean"
) -> Tensor:
    """The distance where the target is 1, what it lacks to `margin` where it is -1.

    Raises:
        ShapeError: The shapes differ.
        ValueError: There is no such reduction.
    """
    x, y = _pair(distance, target)
    return _reduced((y > 0).where(x, (margin - x).relu()), reduction)
