"""Stable sorting as graphs: parts are sorted by counting, then merged pair by pair.

A merge is a bitonic network (Batcher, 1968) over pairs of key and index. No two pairs are equal,
so the order is stable; no place depends on data, so nothing is gathered or scattered.
"""

from __future__ import annotations

from typing import Final

from core.frontend.broadcasting import broadcast
from core.frontend.iota import iota, tabulate
from core.ir import Op, UOp, dtypes

_PART: Final = 512  # sorted by comparing each element with each
_SIGNED: Final = {8: dtypes.int8, 16: dtypes.int16, 32: dtypes.int32, 64: dtypes.int64}


def sort_keys(x: UOp, descending: bool) -> UOp:
    """Integers that order as the values do: -0 equals +0, NaN is larger than everything."""
    if x.dtype.is_float:
        signed = _SIGNED[x.dtype.bits]
        bits = x.eq(0.0).where(0.0, x).bitcast(signed)
        key = (bits < 0).where(bits ^ signed.maximum, bits)
        key = x.ne(x).where(signed.maximum, key)
    else:
        key = x
    if key.dtype.bits < 32:
        key = key.cast(dtypes.int32)
    return key ^ (-1 if key.dtype.is_signed else key.dtype.maximum) if descending else key


def stable_order(keys: UOp) -> UOp:
    """For each row of (rows, n) the indices that sort it, int32; equal keys keep their order."""
    rows, extent = keys.shape
    if extent <= 1:
        return UOp.const(0, dtypes.int32).expand((rows, extent))
    if extent <= _PART:
        return _order_of_parts(keys)
    parts, size = 1, _PART  # powers of 2, as the network needs
    while parts * size < extent:
        parts *= 2
    whole = parts * size
    if whole != extent:
        inside = tabulate(lambda r: r < extent, whole).expand((rows,))
        # What fills the last parts is the largest, and later than any equal key.
        keys = inside.where(keys.pad((0, 0), (rows, whole)), keys.dtype.maximum)
    keys = keys.reshape((rows * parts, size)).contiguous()
    order = _order_of_parts(keys).contiguous()
    row = iota(rows * parts).reshape((rows * parts, 1))
    keys = keys.index(row, order.cast(dtypes.weak_int))
    start = (iota(parts, dtypes.int32) * size).reshape((1, parts, 1))
    order = order + broadcast(start, (rows, parts, size)).reshape((rows * parts, size))
    return _merged(keys, order, rows).shrink((0, 0), (rows, extent))


def _order_of_parts(keys: UOp) -> UOp:
    """Which element of each row stands at each place, by counting the smaller ones."""
    rows, size = keys.shape
    shape = (size, rows, size)  # (other element, row, element)
    other = broadcast(keys.permute((1, 0)).reshape((size, rows, 1)), shape)
    own = broadcast(keys.reshape((1, rows, size)), shape)
    before = tabulate(lambda other, own: other < own, size, size)
    before = broadcast(before.reshape((size, 1, size)), shape)
    counts = (other < own) | (other.eq(own) & before)
    rank = counts.cast(dtypes.int32).reduce(Op.ADD, axes=1).contiguous()  # (row, element)
    # (element, row, place): the element whose rank is the place
    element = broadcast(iota(size, dtypes.int32).reshape((size, 1, 1)), shape)
    place = broadcast(iota(size, dtypes.int32).reshape((1, 1, size)), shape)
    ranks = broadcast(rank.permute((1, 0)).reshape((size, rows, 1)), shape)
    return ranks.eq(place).where(element, 0).reduce(Op.ADD, axes=1)


def _merged(keys: UOp, order: UOp, rows: int) -> UOp:
    """Merge sorted parts pair by pair until each row is one; the order of the rows."""
    while keys.shape[0] > rows:
        keys, order = _bitonic(keys), _bitonic(order)
        distance = keys.shape[1] // 2
        while distance:
            keys, order = _exchanged(keys.contiguous(), order.contiguous(), distance)
            distance //= 2
    return order


def _bitonic(x: UOp) -> UOp:
    """Each part and the next one reversed in one row: rising, then falling."""
    parts, size = x.shape
    pairs = x.reshape((parts // 2, 2, size))
    rising = pairs.permute((1, 0, 2)).index(0)
    falling = pairs.permute((1, 0, 2)).index(1).flip((False, True))
    return UOp.stack(rising, falling).permute((1, 0, 2)).reshape((parts // 2, 2 * size))


def _exchanged(keys: UOp, order: UOp, distance: int) -> tuple[UOp, UOp]:
    """Elements that stand `distance` apart in blocks of twice that, the smaller one first."""
    shape = keys.shape
    key, index = (x.reshape((shape[0] * shape[1] // (2 * distance), 2, distance)).permute(
        (1, 0, 2)) for x in (keys, order))
    swap = (key.index(1) < key.index(0)) | (
        key.index(1).eq(key.index(0)) & (index.index(1) < index.index(0)))
    first, second = (
        UOp.stack(swap.where(x.index(1), x.index(0)), swap.where(x.index(0), x.index(1)))
        .permute((1, 0, 2)).reshape(shape) for x in (key, index))
    return first, second
