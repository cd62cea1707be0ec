"""Rows of products over chosen axes, and of sums that leave NaN out."""

from __future__ import annotations

from typing import Final

import numpy as np

from core.ir import dtypes
from core.testing.operations.row import FLOATS, NUMBERS, Array, Row, summed, to_float

_ANYWHERE: Final = (-2.0, 2.0)


def _tensordot(dims: int | tuple[tuple[int, ...], tuple[int, ...]]) -> Row:
    shapes = (
        (((3, 4, 5), (4, 5, 2)), ((3, 0, 2), (0, 2, 4)))
        if dims == 2
        else (((3, 4, 5), (5, 2, 3)), ((0, 4, 5), (5, 2, 0)))
    )
    return Row(
        method="tensordot",
        variant=str(dims).replace(" ", ""),
        shapes=shapes,
        call=lambda a, b: a.tensordot(b, dims),
        gives=summed,
        sums=64,
        special=False,
        oracle=lambda a, b: np.tensordot(_wide(a), _wide(b), dims),
        gradient=_ANYWHERE,
    )


def _wide(a: Array) -> Array:
    """Small integers as numpy's own sums take them, so that they do not wrap."""
    small = a.dtype.kind in "iu" and a.dtype.itemsize < 4
    return a.astype("i4" if a.dtype.kind == "i" else "u4") if small else a


def _vecdot(a: Array, b: Array) -> Array:
    return np.asarray((_wide(a) * _wide(b)).sum(-1, dtype=_wide(a).dtype))


def _correlated(a: Array, w: Array) -> Array:
    """Sums of products of all windows with the kernels, over the trailing axes."""
    kernel = w.shape[2:]
    axes = tuple(range(2, w.ndim))
    windows = np.lib.stride_tricks.sliding_window_view(a, kernel, axes)
    taps = tuple(range(w.ndim, w.ndim + len(kernel)))
    summed_over = ((1, *taps), (1, *axes))
    return np.moveaxis(np.tensordot(windows, w, summed_over), -1, 1)


def _convolution(method: str, shapes: tuple[tuple[int, ...], ...]) -> Row:
    return Row(
        method=method,
        call=lambda a, w: getattr(a, method)(w),
        oracle=_correlated,
        takes=FLOATS,
        shapes=(shapes,),
        sums=64,
        special=False,
        gradient=_ANYWHERE,
    )


def _replaced(a: Array) -> Array:
    return np.nan_to_num(a, nan=1.5, posinf=2.0, neginf=-3.0)


def _mean(a: Array) -> Array:
    there = ~np.isnan(a)
    return np.asarray(np.where(there, a, 0).sum(1) / there.sum(1))


ROWS: Final = (
    _tensordot(2),
    _tensordot(((2, 0), (0, 2))),
    Row(
        method="vecdot",
        call=lambda a, b: a.vecdot(b),
        oracle=_vecdot,
        gives=summed,
        sums=64,
        shapes=(((3, 5), (3, 5)), ((4, 1, 6), (2, 6)), ((2, 0), (1, 0))),
        special=False,
        gradient=_ANYWHERE,
    ),
    Row(
        method="cross",
        call=lambda a, b: a.cross(b),
        oracle=np.cross,
        shapes=(((4, 3), (4, 3)), ((2, 1, 3), (5, 3)), ((0, 3), (3,))),
        special=False,
        sums=16,
        gradient=_ANYWHERE,
        takes=(*FLOATS, dtypes.int32, dtypes.int64),
    ),
    Row(
        method="kron",
        call=lambda a, b: a.kron(b),
        oracle=np.kron,
        takes=NUMBERS,
        special=False,
        shapes=(((2, 3), (3, 2)), ((2,), (2, 3)), ((2, 0), (1, 3))),
        gradient=_ANYWHERE,
    ),
    Row(
        method="cov",
        call=lambda a: a.cov(),
        oracle=np.cov,
        takes=FLOATS,
        shapes=((3, 6),),
        sums=256,
        special=False,
        gradient=_ANYWHERE,
    ),
    _convolution("conv1d", ((2, 3, 6), (4, 3, 3))),
    _convolution("conv3d", ((1, 2, 3, 3, 4), (2, 2, 2, 1, 2))),
    Row(
        method="median",
        call=lambda a: a.median(1),
        oracle=lambda a: np.median(a, 1),
        shapes=((3, 5), (3, 4), (0, 4), (2, 1)),
        gives=to_float,
        ulps=2,
        special=False,
        gradient=_ANYWHERE,
    ),
    Row(
        method="median",
        variant="all",
        call=lambda a: a.median(),
        oracle=np.median,
        shapes=((3, 4), ()),
        gives=to_float,
        takes=FLOATS,
        ulps=2,
        gradient=_ANYWHERE,
    ),
    Row(
        method="nan_to_num",
        call=lambda a: a.nan_to_num(),
        oracle=np.nan_to_num,
        takes=(*(f for f in FLOATS if f is not dtypes.bfloat16), dtypes.int32),
        gradient=_ANYWHERE,
    ),
    Row(
        method="nan_to_num",
        variant="given",
        call=lambda a: a.nan_to_num(1.5, 2.0, -3.0),
        oracle=_replaced,
        takes=FLOATS,
        gradient=_ANYWHERE,
    ),
    Row(
        method="nansum",
        call=lambda a: a.nansum(1),
        oracle=lambda a: np.nansum(a, 1),
        sums=64,
        takes=FLOATS,
        shapes=((3, 5), (0, 4), (2, 0)),
        gradient=_ANYWHERE,
    ),
    Row(
        method="nanmean",
        call=lambda a: a.nanmean(1),
        oracle=_mean,
        sums=64,
        takes=FLOATS,
        gives=to_float,
        shapes=((3, 5), (0, 4), (2, 0)),
        special=False,
        gradient=_ANYWHERE,
    ),
)
