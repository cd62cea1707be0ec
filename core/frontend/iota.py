"""Functions of an index, as STAGE in ALU space: arange, masks, and the index tables of gathers."""

from __future__ import annotations

from collections.abc import Callable

from core.ir import DType, UOp, dtypes


def tabulate(function: Callable[..., UOp], *extents: int) -> UOp:
    """The value function(r0, r1, ...) over all indices of a shape; r0, r1 are weak ints."""
    ranges = [UOp.range(extent, number) for number, extent in enumerate(extents)]
    return function(*ranges).stage(*ranges)


def iota(extent: int, dtype: DType = dtypes.weak_int) -> UOp:
    """0, 1, ... extent - 1."""
    return tabulate(lambda r: r.cast(dtype), extent)


def box_mask(offsets: tuple[int, ...], sizes: tuple[int, ...], shape: tuple[int, ...]) -> UOp:
    """Whether an index of `shape` lies in the box of `sizes` at `offsets`; of rank len(shape)."""
    return tabulate(lambda *r: _inside(r, offsets, sizes, shape), *shape)


def _inside(
    ranges: tuple[UOp, ...], offsets: tuple[int, ...], sizes: tuple[int, ...],
    shape: tuple[int, ...],
) -> UOp:
    result: UOp | None = None
    for r, offset, size, extent in zip(ranges, offsets, sizes, shape, strict=True):
        conditions = [r >= offset] if offset > 0 else []
        if offset + size < extent:
            conditions.append(r < offset + size)
        for condition in conditions:
            result = condition if result is None else result & condition
    return UOp.const(True, dtypes.bool) if result is None else result
