"""Rows of reductions and scans."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from core.ir import dtypes
from core.testing.operations.arithmetic import maximum, minimum
from core.testing.operations.row import (
    ANY,
    FLOATS,
    INTEGERS,
    NUMBERS,
    Array,
    Row,
    summed,
    to_float,
)

_ANYWHERE: Final = (-2.0, 2.0)
_POSITIVE: Final = (0.5, 2.0)
_CUBES: Final = ((2, 3, 17), (2, 0, 4), (1, 1, 1))
_FULL: Final = ((2, 3, 17), (2, 3, 1), (0, 2, 3))


def _row(method: str, call: Callable[..., Any], oracle: Callable[..., Any], **options: Any) -> Row:
    options.setdefault("shapes", _CUBES)
    return Row(method=method, call=call, oracle=oracle, **options)


def _sum(x: Array, axis: Any = None, keep: bool = False) -> Any:
    if x.dtype.kind == "f":
        return x.astype(np.float64 if x.dtype.itemsize < 8 else x.dtype).sum(axis, keepdims=keep)
    kind = x.dtype if x.dtype.itemsize >= 4 else np.uint32 if x.dtype.kind == "u" else np.int32
    return x.sum(axis, kind, keepdims=keep)


def _running_sum(x: Array) -> Any:
    kind = x.dtype if x.dtype.kind == "f" or x.dtype.itemsize >= 4 else (
        np.uint32 if x.dtype.kind == "u" else np.int32)
    return np.cumsum(x, 1, kind)


def _fold(pick: Callable[[Array, Array], Array], axis: int) -> Callable[[Array], Array]:
    """Largest or smallest along an axis, by our rule for NaN and zeros."""
    def apply(x: Array) -> Array:
        rows = np.moveaxis(x, axis, 0)
        result = rows[0]
        for row in rows[1:]:
            result = pick(result, row)
        return np.asarray(result)
    return apply


def _scan(pick: Callable[[Array, Array], Array]) -> Callable[[Array], Array]:
    def apply(x: Array) -> Array:
        result = x.copy()
        for k in range(1, x.shape[1]):
            result[:, k] = pick(result[:, k - 1], x[:, k])
        return result
    return apply


def _variance(x: Array) -> Any:
    return np.var(x, axis=2, ddof=1)


def _stable(x: Array) -> Any:
    return x - x.max(axis=1, keepdims=True, initial=-np.inf)


def _softmax(x: Array) -> Array:
    e = np.exp(_stable(x))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


def _log_softmax(x: Array) -> Any:
    return _stable(x) - np.log(np.exp(_stable(x)).sum(axis=1, keepdims=True))


def _layernorm(x: Array) -> Any:
    distance = x - x.mean(-1, keepdims=True)
    return distance / np.sqrt((distance**2).mean(-1, keepdims=True) + 1e-5)


_FLOAT: Final = dict[str, Any](takes=FLOATS, gradient=_ANYWHERE)
_SMOOTH: Final = dict[str, Any](takes=FLOATS, gradient=_ANYWHERE, special=False, shapes=_FULL)

ROWS: Final = (
    _row("sum", lambda x: x.sum(1), lambda x: _sum(x, 1), gives=summed, sums=64, takes=ANY,
         gradient=_ANYWHERE),
    _row("sum", lambda x: x.sum(), _sum, gives=summed, sums=64, takes=ANY, variant="all",
         gradient=_ANYWHERE),
    _row("sum", lambda x: x.sum((0, 2), keepdim=True), lambda x: _sum(x, (0, 2), keep=True),
         gives=summed, sums=64, takes=ANY, variant="axes", gradient=_ANYWHERE),
    _row("mean", lambda x: x.mean(2), lambda x: np.mean(
        x.astype("f8") if x.dtype.kind != "f" else x, 2), sums=64, gives=to_float, ulps=2,
        takes=(*FLOATS, dtypes.int32, dtypes.uint8), gradient=_ANYWHERE),
    _row("prod", lambda x: x.prod(1), lambda x: np.prod(x, 1, dtype=x.dtype if x.dtype.kind == "f"
         or x.dtype.itemsize >= 4 else np.uint32 if x.dtype.kind == "u" else np.int32),
         gives=summed, ulps=16, takes=FLOATS, gradient=_POSITIVE, special=False),
    _row("prod", lambda x: x.prod(1), lambda x: np.prod(x.astype("i8"), 1).astype(x.dtype),
         takes=(dtypes.int32, dtypes.int64, dtypes.uint32, dtypes.uint64), variant="integers"),
    _row("max", lambda x: x.max(2), _fold(maximum, 2), takes=ANY, gradient=_ANYWHERE, shapes=_FULL),
    _row("max", lambda x: x.max(0, keepdim=True), lambda x: _fold(maximum, 0)(x)[None], takes=ANY,
         variant="first axis", gradient=_ANYWHERE, shapes=((17, 5), (3, 0))),
    _row("min", lambda x: x.min(2), _fold(minimum, 2), takes=ANY, gradient=_ANYWHERE, shapes=_FULL),
    _row("any", lambda x: x.any(1), lambda x: np.any(x, 1), gives=dtypes.bool, takes=ANY),
    _row("all", lambda x: x.all(1), lambda x: np.all(x, 1), gives=dtypes.bool, takes=ANY),
    _row("argmax", lambda x: x.argmax(2), lambda x: np.argmax(x, 2), gives=dtypes.int32, takes=ANY,
         shapes=_FULL),
    _row("argmin", lambda x: x.argmin(1), lambda x: np.argmin(x, 1), gives=dtypes.int32, takes=ANY,
         shapes=((2, 17, 3), (1, 1), (0, 2))),
    _row("var", lambda x: x.var(2), _variance, ulps=40, sums=64, **_SMOOTH | {
        "shapes": ((2, 3, 17), (0, 2, 3))}),
    _row("std", lambda x: x.std(2), lambda x: np.sqrt(_variance(x)), ulps=40, **_SMOOTH | {
        "shapes": ((2, 3, 17), (0, 2, 3))}),
    _row("var_mean", lambda x: x.var_mean(2)[0], _variance, ulps=40, **_SMOOTH | {
        "shapes": ((2, 3, 17), (0, 2, 3))}),
    _row("std_mean", lambda x: x.std_mean(2)[1], lambda x: np.mean(x, 2), ulps=2, sums=64,
         **_SMOOTH),
    _row("cumsum", lambda x: x.cumsum(1), _running_sum, gives=summed, sums=64,
         gradient=_ANYWHERE, shapes=((3, 20), (2, 0), (0, 3)), takes=NUMBERS),
    _row("cumprod", lambda x: x.cumprod(1), lambda x: np.cumprod(x, 1), ulps=24, takes=FLOATS,
         gradient=_POSITIVE, special=False, shapes=((3, 7), (2, 0), (0, 3))),
    _row("cummax", lambda x: x.cummax(1), _scan(maximum), gradient=_ANYWHERE,
         shapes=((3, 20), (2, 0), (0, 3))),
    _row("cummin", lambda x: x.cummin(1), _scan(minimum), gradient=_ANYWHERE,
         shapes=((3, 20), (2, 0), (0, 3))),
    _row("softmax", lambda x: x.softmax(1), _softmax, ulps=40, **_SMOOTH),
    _row("softmin", lambda x: x.softmin(1), lambda x: _softmax(-x), ulps=40, **_SMOOTH),
    _row("log_softmax", lambda x: x.log_softmax(1), _log_softmax, ulps=8, sums=16, **_SMOOTH | {
        "shapes": ((3, 17), (3, 1), (0, 3))}),
    _row("logsumexp", lambda x: x.logsumexp(1), lambda x: np.log(np.exp(x).sum(1)), ulps=8, sums=8,
         **_SMOOTH | {"shapes": ((3, 17), (0, 3))}),
    _row("logcumsumexp", lambda x: x.logcumsumexp(1), lambda x: np.logaddexp.accumulate(x, 1),
         ulps=16, sums=16, **_SMOOTH | {"shapes": ((3, 17), (0, 3))}),
    _row("layernorm", lambda x: x.layernorm(), _layernorm, ulps=16, sums=64, **_SMOOTH | {
        "shapes": ((2, 3, 17), (0, 3))}),
    _row("normalize", lambda x: x.normalize(dim=1), lambda x: x / np.sqrt(
        (x**2).sum(1, keepdims=True)), ulps=16, **_SMOOTH),
    _row("sum", lambda x: x.sum(1, dtype=dtypes.float64), lambda x: x.astype("f8").sum(1),
         variant="float64", gives=dtypes.float64, takes=(dtypes.float32, dtypes.int32), sums=64),
    _row("sum", lambda x: x.sum(), _sum, gives=summed, variant="long", sums=6000,
         takes=(dtypes.float32, dtypes.float16, *INTEGERS[:3]), shapes=((3, 5000),),
         special=False),
)
