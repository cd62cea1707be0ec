"""Rows of sums of products: matmul, convolution, pooling, attention, losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from core.frontend import Tensor
from core.ir import DType, dtypes
from core.testing.operations.row import FLOATS, INTEGERS, NUMBERS, Array, Row

_ANYWHERE: Final = (-2.0, 2.0)
_INSIDE: Final = (0.1, 0.9)
_IMAGE: Final = (2, 4, 7, 6)
_CLASSES: Final = np.array([4, 0, 2])
_EINSUM: Final = "abc,cd->bad"


def product(dtype: DType) -> DType:
    """What sums of products give: int8 is summed in int32 and stays it."""
    if dtype.is_float or dtype.bits >= 32:
        return dtype
    return dtypes.uint32 if dtype.kind == "unsigned" else dtypes.int32


def _row(
    method: str, call: Callable[..., Any], oracle: Callable[..., Any], shapes: Any,
    variant: str = "", **options: Any,
) -> Row:
    options.setdefault("takes", FLOATS)
    options.setdefault("sums", 128)
    options.setdefault("gradient", _ANYWHERE)
    options.setdefault("special", False)
    return Row(method=method, call=call, oracle=oracle, shapes=shapes, variant=variant, **options)


def _wide(x: Array) -> Array:
    """What is multiplied and summed: small integers in 32 bits."""
    if x.dtype.kind == "f" or x.dtype.itemsize >= 4:
        return x
    return x.astype(np.uint32 if x.dtype.kind == "u" else np.int32)


def _product(a: Array, b: Array) -> Array:
    return np.asarray(_wide(a) @ _wide(b))


def _convolved(
    x: Array, w: Array, stride: int = 1, padding: int = 0, dilation: int = 1, groups: int = 1
) -> Array:
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    height, width = ((n - dilation * (k - 1) - 1) // stride + 1
                     for n, k in zip(x.shape[2:], w.shape[2:], strict=True))
    parts = []
    for xg, wg in zip(np.split(x, groups, 1), np.split(w, groups, 0), strict=True):
        result = np.zeros((x.shape[0], wg.shape[0], height, width), np.result_type(x, w))
        for i in range(w.shape[2]):
            for j in range(w.shape[3]):
                seen = xg[:, :, i * dilation:i * dilation + (height - 1) * stride + 1:stride,
                          j * dilation:j * dilation + (width - 1) * stride + 1:stride]
                result = result + np.einsum("bchw,oc->bohw", seen, wg[:, :, i, j])
        parts.append(result)
    return np.concatenate(parts, 1)


def _transposed(x: Array, w: Array) -> Array:
    """Stride 2: each place of the input adds the kernel into the output."""
    (batch, _, height, width), (_, outputs, tall, broad) = x.shape, w.shape
    result = np.zeros((batch, outputs, 2 * (height - 1) + tall, 2 * (width - 1) + broad),
                      np.result_type(x, w))
    for i in range(height):
        for j in range(width):
            result[:, :, 2 * i:2 * i + tall, 2 * j:2 * j + broad] += np.einsum(
                "bc,cohw->bohw", x[:, :, i, j], w)
    return result


def _windows(x: Array, size: int, stride: int) -> Any:
    rows, columns = ((n - size) // stride + 1 for n in x.shape[2:])
    return np.stack([x[:, :, i:i + (rows - 1) * stride + 1:stride,
                       j:j + (columns - 1) * stride + 1:stride]
                     for i in range(size) for j in range(size)])


def _softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


def _attention(q: Array, k: Array, v: Array, causal: bool = False) -> Array:
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
    return np.asarray(_softmax(scores) @ v)


def _cross_entropy(x: Array) -> Array:
    return np.asarray(-np.log(_softmax(x))[np.arange(3), _CLASSES].mean())


def _classes(x: Tensor) -> Tensor:
    return Tensor(_CLASSES, device=str(x.device))


def _binary(p: Array, y: Array) -> Array:
    return np.asarray(-y * np.log(p) - (1 - y) * np.log(1 - p))


def _batchnorm(x: Array, weight: Array, bias: Array, mean: Array, deviation: Array) -> Any:
    def spread(v: Array) -> Array:
        return v[:, None]
    return (x - spread(mean)) * spread(deviation) * spread(weight) + spread(bias)


_MATRICES: Final = (((3, 17), (17, 5)), ((4, 1, 3, 2), (5, 2, 3)), ((3, 0), (0, 2)), ((4,), (4,)),
                    ((3, 4), (4,)))
_CHANNELS: Final = ((2, 3, 5), (3,), (3,), (3,), (3,))

ROWS: Final = (
    _row("matmul", lambda a, b: a @ b, _product, _MATRICES, takes=NUMBERS, gives=product,
         special=False),
    _row("matmul", lambda a, b: a @ b, _product, (((33, 70), (70, 40)),), "large", sums=256,
         takes=(*FLOATS, *INTEGERS[:3]), gives=product, gradient=None),
    _row("dot", lambda a, b: a.dot(b), _product, (((9,), (9,)), ((0,), (0,))), gives=product,
         takes=NUMBERS),
    _row("outer", lambda a, b: a.outer(b), np.outer, (((3,), (4,)), ((0,), (2,))), sums=2),
    _row("einsum", lambda a, b: Tensor.einsum(_EINSUM, a, b),
         lambda a, b: np.einsum(_EINSUM, a, b), (((2, 3, 5), (5, 4)), ((0, 3, 5), (5, 1)))),
    _row("linear", lambda x, w, b: x.linear(w, b), lambda x, w, b: x @ w + b,
         (((3, 7), (7, 4), (4,)), ((0, 2), (2, 3), (3,))), roundings=2),
    _row("conv2d", lambda x, w: x.conv2d(w), _convolved, ((_IMAGE, (3, 4, 3, 2)),
                                                          ((0, 4, 5, 5), (3, 4, 3, 3)))),
    _row("conv2d", lambda x, w: x.conv2d(w, stride=2, padding=1, dilation=2, groups=2),
         lambda x, w: _convolved(x, w, 2, 1, 2, 2), ((_IMAGE, (6, 2, 3, 2)),), "options"),
    _row("conv_transpose2d", lambda x, w: x.conv_transpose2d(w, stride=2), _transposed,
         (((2, 4, 3, 4), (4, 3, 3, 2)), ((0, 4, 3, 3), (4, 1, 2, 2)))),
    _row("max_pool2d", lambda x: x.max_pool2d(), lambda x: _windows(x, 2, 2).max(0),
         (_IMAGE, (0, 1, 2, 2)), sums=0),
    _row("max_pool2d", lambda x: x.max_pool2d(3, stride=1), lambda x: _windows(x, 3, 1).max(0),
         (_IMAGE,), "overlapping", sums=0),
    _row("avg_pool2d", lambda x: x.avg_pool2d(3, stride=2), lambda x: _windows(x, 3, 2).mean(0),
         (_IMAGE, (0, 1, 4, 4)), ulps=2),
    _row("batchnorm", lambda x, *v: x.batchnorm(*v), _batchnorm, (_CHANNELS,), sums=32),
    _row("scaled_dot_product_attention", lambda q, k, v: q.scaled_dot_product_attention(k, v),
         _attention, (((2, 5, 4), (2, 7, 4), (2, 7, 3)),), ulps=64, takes=FLOATS[:2],
         gradient=_ANYWHERE),
    _row("scaled_dot_product_attention",
         lambda q, k, v: q.scaled_dot_product_attention(k, v, is_causal=True),
         lambda q, k, v: _attention(q, k, v, causal=True), (((2, 5, 4), (2, 5, 4), (2, 5, 3)),),
         "causal", ulps=64, takes=FLOATS[:2]),
    _row("cross_entropy", lambda x: x.cross_entropy(_classes(x)), _cross_entropy, ((3, 5),),
         ulps=32, sums=0),
    _row("sparse_categorical_crossentropy",
         lambda x: x.sparse_categorical_crossentropy(_classes(x)), _cross_entropy, ((3, 5),),
         ulps=32, sums=0),
    _row("nll_loss", lambda x: x.nll_loss(_classes(x)),
         lambda x: np.asarray(-x[np.arange(3), _CLASSES].mean()), ((3, 5),), sums=16),
    _row("binary_crossentropy",
         lambda p, y: p.sigmoid().binary_crossentropy(y.sigmoid(), reduction="none"),
         lambda p, y: _binary(1 / (1 + np.exp(-p)), 1 / (1 + np.exp(-y))), (((3, 4), (3, 4)),),
         ulps=2**12, takes=FLOATS[:2], sums=0),
    _row("binary_crossentropy_logits",
         lambda x, y: x.binary_crossentropy_logits(y, reduction="sum"),
         lambda x, y: np.sum(np.maximum(x, 0) - x * y + np.log1p(np.exp(-np.abs(x)))),
         (((3, 4), (3, 4)),), ulps=64, takes=FLOATS[:2], sums=0),
)
