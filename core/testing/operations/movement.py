"""Rows of operations that move elements: exact, special values included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from core.frontend import Tensor
from core.testing.operations.row import NUMBERS, WIDTHS, Array, Row

_ANYWHERE: Final = (-2.0, 2.0)
_CUBES: Final = ((2, 3, 4), (2, 0, 4))
_SQUARES: Final = ((3, 5), (5, 2), (0, 3))


def _row(
    method: str, call: Callable[..., Tensor], oracle: Callable[..., Any], shapes: Any = _CUBES,
    variant: str = "", **options: Any,
) -> Row:
    options.setdefault("takes", WIDTHS)
    return Row(method=method, call=call, oracle=oracle, shapes=shapes, variant=variant,
               gradient=_ANYWHERE, **options)


def _padded(x: Array, pairs: Any, value: float = 0) -> Array:
    return np.pad(x, pairs, constant_values=x.dtype.type(value))


def _windows(x: Array) -> Any:
    return np.stack([x[:, k:k + 2] for k in range(0, 2, 2)], 1).swapaxes(2, 3)


def _interpolated(x: Array) -> Any:
    """The axis of 5 resampled to 7 from the middles of its elements."""
    place = np.clip((np.arange(7) + 0.5) * 5 / 7 - 0.5, 0, 4)
    low = np.floor(place).astype(int)
    high, weight = np.minimum(low + 1, 4), place - low
    return x[..., low] * (1 - weight) + x[..., high] * weight


ROWS: Final = (
    _row("reshape", lambda x: x.reshape(-1, x.shape[0], 2), lambda x: x.reshape(12, 2, 2)
         if x.size == 48 else x.reshape(0, x.shape[0], 2) if not x.size
         else x.reshape(-1, x.shape[0], 2), ((2, 3, 4),)),
    _row("reshape", lambda x: x.reshape(0, 7), lambda x: x.reshape(0, 7), ((2, 0, 4),),
         "no elements"),
    _row("view", lambda x: x.view(4, 6), lambda x: x.reshape(4, 6), ((2, 3, 4),)),
    _row("flatten", lambda x: x.flatten(1), lambda x: x.reshape(x.shape[0], -1)
         if x.size else x.reshape(2, 0)),
    _row("unflatten", lambda x: x.unflatten(2, (2, 2)),
         lambda x: x.reshape(*x.shape[:2], 2, 2)),
    _row("permute", lambda x: x.permute(2, 0, 1), lambda x: x.transpose(2, 0, 1)),
    _row("transpose", lambda x: x.transpose(0, 2), lambda x: x.swapaxes(0, 2)),
    _row("T", lambda x: x.T, lambda x: x.T),
    _row("flip", lambda x: x.flip(0, 2), lambda x: np.flip(x, (0, 2)), takes=(
        *NUMBERS, WIDTHS[-1])),
    _row("expand", lambda x: x.expand(5, *x.shape), lambda x: np.broadcast_to(x, (5, *x.shape))),
    _row("expand", lambda x: x.expand(3, -1, 4), lambda x: np.broadcast_to(
        x, (3, x.shape[1], 4)), ((3, 2, 1), (1, 0, 1)), "extents of 1"),
    _row("squeeze", lambda x: x.squeeze(1), lambda x: x.squeeze(1), ((3, 1, 4), (0, 1))),
    _row("unsqueeze", lambda x: x.unsqueeze(-2), lambda x: np.expand_dims(x, -2)),
    _row("shrink", lambda x: x.shrink(((0, 1), None, (1, 3))), lambda x: x[:1, :, 1:3]),
    _row("shrink_to", lambda x: x.shrink_to(1, None, 3), lambda x: x[:1, :, :3]),
    _row("pad", lambda x: x.pad((1, 2, 0, 3)), lambda x: _padded(x, ((0, 0), (0, 3), (1, 2)))),
    _row("pad", lambda x: x.pad(((1, 0), (0, 2), (2, 1)), value=1),
         lambda x: _padded(x, ((1, 0), (0, 2), (2, 1)), 1), variant="value"),
    _row("pad", lambda x: x.pad((2, 1), mode="reflect"),
         lambda x: np.pad(x, ((0, 0), (2, 1)), mode="reflect"), ((3, 5), (0, 4)), "reflect"),
    _row("pad", lambda x: x.pad((2, 1), mode="replicate"),
         lambda x: np.pad(x, ((0, 0), (2, 1)), mode="edge"), ((3, 5), (0, 4)), "replicate"),
    _row("pad", lambda x: x.pad((2, 1), mode="circular"),
         lambda x: np.pad(x, ((0, 0), (2, 1)), mode="wrap"), ((3, 5), (0, 4)), "circular"),
    _row("pad", lambda x: x.pad((-1, 2, 1, -1)), lambda x: _padded(
        x[:-1, 1:], ((1, 0), (0, 2))), ((3, 5), (2, 1)), "negative"),
    _row("pad_to", lambda x: x.pad_to(4, None, 6), lambda x: _padded(
        x, ((0, 2), (0, 0), (0, 2)))),
    _row("repeat", lambda x: x.repeat(2, 1, 3), lambda x: np.tile(x, (2, 1, 3))),
    _row("repeat_interleave", lambda x: x.repeat_interleave(3, 1), lambda x: np.repeat(x, 3, 1)),
    _row("roll", lambda x: x.roll(-5, 2), lambda x: np.roll(x, -5, 2)),
    _row("roll", lambda x: x.roll((1, 2), (0, 1)), lambda x: np.roll(x, (1, 2), (0, 1)),
         variant="axes"),
    _row("cat", lambda a, b: a.cat(b, dim=1), lambda a, b: np.concatenate((a, b), 1),
         (((2, 3), (2, 4)), ((2, 0), (2, 1)), ((0, 3), (0, 2)))),
    _row("stack", lambda a, b: a.stack(b, a, dim=1), lambda a, b: np.stack((a, b, a), 1),
         (((2, 3), (2, 3)), ((2, 0), (2, 0)))),
    _row("split", lambda x: x.split((1, 2), 1)[1], lambda x: x[:, 1:3], ((2, 3, 4), (0, 3))),
    _row("chunk", lambda x: x.chunk(2, 1)[1], lambda x: x[:, 2:], ((2, 3, 4), (0, 3))),
    _row("meshgrid", lambda a, b: Tensor.stack(*a.meshgrid(b)),
         lambda a, b: np.stack(np.meshgrid(a, b, indexing="ij")), (((3,), (4,)), ((0,), (2,)))),
    _row("diag", lambda x: x.diag(), np.diag, ((4,), (0,), (3, 3))),
    _row("diagonal", lambda x: x.diagonal(), np.diagonal, _SQUARES),
    _row("tril", lambda x: x.tril(), np.tril, _SQUARES),
    _row("tril", lambda x: x.tril(-1), lambda x: np.tril(x, -1), _SQUARES, "below"),
    _row("triu", lambda x: x.triu(1), lambda x: np.triu(x, 1), _SQUARES),
    _row("unfold", lambda x: x.unfold(1, 2, 2), _windows, ((2, 3, 4), (0, 2, 3))),
    _row("rearrange", lambda x: x.rearrange("a b (c d) -> (a d) c b", d=2),
         lambda x: x.reshape(*x.shape[:2], 2, 2).transpose(0, 3, 2, 1).reshape(
             2 * x.shape[0], 2, x.shape[1])),
    Row(method="interpolate", call=lambda x: x.interpolate((7,)), oracle=_interpolated, sums=8,
        shapes=((2, 3, 5), (2, 0, 5)), takes=NUMBERS[:4], gradient=_ANYWHERE, special=False),
    # brackets
    _row("__getitem__", lambda x: x[1, ::-1, 1:-1], lambda x: x[1, ::-1, 1:-1]),
    _row("__getitem__", lambda x: x[..., None, ::-2], lambda x: x[..., None, ::-2],
         variant="steps"),
    _row("__getitem__", lambda x: x[-1:0:-1, ..., 3:0:-2], lambda x: x[-1:0:-1, ..., 3:0:-2],
         variant="backwards"),
)
