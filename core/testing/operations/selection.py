"""Rows of gathers, scatters, sorts: what reads or writes where data says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from core.frontend import Tensor
from core.ir import dtypes
from core.testing.operations.row import ANY, FLOATS, NUMBERS, SIGNED, WIDTHS, Array, Row

_ANYWHERE: Final = (-2.0, 2.0)
_INDEX: Final = np.array([[0, 4, 4], [1, -1, 0]])
_ROWS: Final = np.array([2, 0, -1, 2])
_MASK: Final = np.array([[True, False, True], [False, True, False], [True, True, False]])


def _at(x: Tensor, index: Array) -> Tensor:
    return Tensor(index, device=str(x.device))


def _row(
    method: str, call: Callable[..., Any], oracle: Callable[..., Any], shapes: Any = ((3, 5),),
    variant: str = "", **options: Any,
) -> Row:
    options.setdefault("takes", WIDTHS)
    options.setdefault("gradient", _ANYWHERE)
    return Row(method=method, call=call, oracle=oracle, shapes=shapes, variant=variant, **options)


def _scattered(x: Array, source: Array) -> Array:
    result = x.copy()
    for i, row in enumerate(_INDEX):
        for j, k in enumerate(row):
            result[i, k] = source[i, j]
    return result


def _combined(function: Callable[[Any, Any], Any]) -> Callable[[Array, Array], Array]:
    def apply(x: Array, source: Array) -> Array:
        result = x.copy()
        for i, row in enumerate(_INDEX):
            for j, k in enumerate(row):
                result[i, k] = function(result[i, k], source[i, j])
        return result
    return apply


def _topk(x: Array) -> Any:
    return -np.sort(-x, 1)[:, :3]


def _assigned(x: Tensor) -> Tensor:
    copied = x.clone()
    copied[1:, ::-2] = x[:2, :3] * 2
    return copied


def _assigned_by_numpy(x: Array) -> Array:
    copied = x.copy()
    copied[1:, ::-2] = x[:2, :3] * x.dtype.type(2)
    return copied


def _put(x: Tensor) -> Tensor:
    copied = x.clone()
    copied[_at(x, _ROWS)] = x[0] + 1
    return copied


def _put_by_numpy(x: Array) -> Array:
    copied = x.copy()
    copied[_ROWS] = x[0] + x.dtype.type(1)
    return copied


_TWO: Final = (((3, 5), (2, 3)),)
_WITHOUT_BOOL: Final = WIDTHS[:-1]

ROWS: Final = (
    _row("__getitem__", lambda x: x[_at(x, _ROWS)], lambda x: x[_ROWS], ((3, 5), (3, 0)),
         "rows"),
    _row("__getitem__", lambda x: x[:, _at(x, _INDEX)], lambda x: x[:, _INDEX],
         ((3, 5), (0, 5)), "columns"),
    _row("__getitem__", lambda x: x[_at(x, _ROWS[:2]), 1:, _at(x, _INDEX[:, :1])],
         lambda x: x[_ROWS[:2], 1:, _INDEX[:, :1]], ((3, 4, 5), (3, 1, 5)), "apart"),
    _row("__getitem__", lambda x: x[_at(x, _MASK)], lambda x: x[_MASK], ((3, 3), (3, 3, 2)),
         "mask"),
    _row("masked_select", lambda x: x.masked_select(_at(x, _MASK)), lambda x: x[_MASK], ((3, 3),)),
    _row("gather", lambda x: x.gather(1, _at(x, _INDEX)),
         lambda x: np.take_along_axis(x[:2], _INDEX, 1), takes=ANY),
    _row("scatter", lambda x, s: x.scatter(1, _at(x, _INDEX), s), _scattered, _TWO),
    _row("scatter", lambda x, s: x.scatter(1, _at(x, _INDEX), s, reduce="add"),
         _combined(lambda a, b: a + b), _TWO, "add", sums=8, takes=NUMBERS),
    _row("scatter_reduce", lambda x, s: x.scatter_reduce(1, _at(x, _INDEX), s, "sum"),
         _combined(lambda a, b: a + b), _TWO, sums=8, takes=NUMBERS),
    _row("scatter_reduce", lambda x, s: x.scatter_reduce(1, _at(x, _INDEX), s, "amax"),
         _combined(np.maximum), _TWO, "amax", takes=NUMBERS),
    _row("scatter_reduce", lambda x, s: x.scatter_reduce(1, _at(x, _INDEX), s, "amin"),
         _combined(np.minimum), _TWO, "amin", takes=NUMBERS),
    _row("scatter_reduce", lambda x, s: x.scatter_reduce(1, _at(x, _INDEX), s, "prod"),
         _combined(lambda a, b: a * b), _TWO, "prod", ulps=8, takes=FLOATS, special=False),
    _row("one_hot", lambda x: x.one_hot(6), lambda x: (x[..., None] == np.arange(6)).astype("i4"),
         ((3, 4), (0,)), takes=SIGNED, gives=dtypes.int32, gradient=None),
    _row("nonzero", lambda x: x.nonzero(), np.argwhere, ((3, 4), (0, 2)), takes=ANY,
         gives=dtypes.int32, gradient=None, low=0, high=2),
    _row("sort", lambda x: x.sort(1)[0], lambda x: np.sort(x, 1, kind="stable"),
         ((3, 9), (3, 1), (0, 4)), takes=ANY),
    _row("sort", lambda x: x.sort(0, descending=True)[0], lambda x: np.sort(x, 0)[::-1],
         ((7, 2), (2, 0)), "descending", takes=NUMBERS, special=False),
    _row("argsort", lambda x: x.argsort(1), lambda x: np.argsort(x, 1, kind="stable"),
         ((3, 9), (0, 4)), takes=ANY, gives=dtypes.int32, gradient=None),
    _row("topk", lambda x: x.topk(3, 1)[0], _topk, ((3, 9), (0, 4)),
         takes=(*FLOATS, *SIGNED), special=False),
    _row("__setitem__", _assigned, _assigned_by_numpy, takes=_WITHOUT_BOOL),
    _row("__setitem__", _put, _put_by_numpy, takes=_WITHOUT_BOOL, variant="rows", special=True),
)
