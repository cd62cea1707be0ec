"""Stable sorting as graphs: parts are sorted by counting, then merged pair by pair.

Everything is a gather: output k of a merge finds by bisection how many of the first k elements
come from the left part (Odeh, Green, Mwassi, Shmueli and Birk, "Merge Path", 2012). Work is
n log² n, in one kernel a level.
"""

from __future__ import annotations

from typing import Final

from core.frontend.broadcasting import broadcast, elementwise
from core.frontend.iota import iota
from core.ir import Op, UOp, dtypes

_PART: Final = 64  # sorted by comparing each element with each
_SIGNED: Final = {8: dtypes.int8, 16: dtypes.int16, 32: dtypes.int32, 64: dtypes.int64}


def sort_keys(x: UOp, descending: bool) -> UOp:
    """Integers that order as the values do: -0 equals +0, NaN is larger than everything."""
    if x.dtype.is_float:
        signed = _SIGNED[x.dtype.bits]
        bits = x.eq(0.0).where(0.0, x).bitcast(signed)
        key = (bits < 0).where(bits ^ signed.maximum, bits)
        key = x.ne(x).where(signed.maximum, key)
    elif x.dtype is dtypes.bool:
        key = x.cast(dtypes.int32)
    else:
        key = x
    return key ^ (-1 if key.dtype.is_signed else key.dtype.maximum) if descending else key


def stable_order(keys: UOp) -> UOp:
    """For each row of (rows, n) the indices that sort it, int32; equal keys keep their order."""
    rows, extent = keys.shape
    if extent <= 1:
        return UOp.const(0, dtypes.int32).expand((rows, extent))
    parts = 1
    while extent > parts * _PART:
        parts *= 2
    whole = parts * _PART if parts > 1 else extent
    if whole != extent:
        inside = broadcast(iota(whole) < extent, (rows, whole))
        # What fills the last part is the largest, and later than any equal key.
        keys = inside.where(keys.pad((0, 0), (rows, whole)), keys.dtype.maximum)
    size = whole // parts
    keys = keys.reshape((rows * parts, size))
    place = _order_of_part(keys)
    keys = _row_gather(keys, place)
    order = place + _first_of_row(rows, parts, size)
    while parts > 1:
        keys, order = keys.contiguous(), order.contiguous()
        parts, size = parts // 2, size * 2
        pairs = keys.reshape((rows * parts, size))
        place = _merged(pairs, size // 2)
        keys = _row_gather(pairs, place)
        order = _row_gather(order.reshape((rows * parts, size)), place)
    return order.reshape((rows, whole)).shrink((0, 0), (rows, extent))


def _first_of_row(rows: int, parts: int, size: int) -> UOp:
    start = iota(parts, dtypes.int32) * size
    return broadcast(start.reshape((1, parts, 1)), (rows, parts, size)).reshape(
        (rows * parts, size))


def _order_of_part(keys: UOp) -> UOp:
    """Which element of each row stands at each place, by counting the smaller ones."""
    rows, size = keys.shape
    shape = (size, rows, size)  # (other element, row, element)
    other = broadcast(keys.permute((1, 0)).reshape((size, rows, 1)), shape)
    own = broadcast(keys.reshape((1, rows, size)), shape)
    earlier = iota(size).reshape((size, 1)).expand(())
    before = broadcast(earlier, (size, size)) < broadcast(iota(size).reshape((1, size)),
                                                          (size, size))
    before = broadcast(before.reshape((size, 1, size)), shape)
    counts = (other < own) | (other.eq(own) & before)
    rank = counts.cast(dtypes.int32).reduce(Op.ADD, axes=1)  # (row, element)
    # (element, row, place): the element whose rank is the place
    element = broadcast(iota(size, dtypes.int32).reshape((size, 1, 1)), shape)
    place = broadcast(iota(size, dtypes.int32).reshape((1, 1, size)), shape)
    ranks = broadcast(rank.permute((1, 0)).reshape((size, rows, 1)), shape)
    return ranks.eq(place).where(element, 0).reduce(Op.ADD, axes=1)


def _row_gather(x: UOp, place: UOp) -> UOp:
    """x[row, place[row, k]]; every place is in its row."""
    rows, _ = x.shape
    row = iota(rows).reshape((rows, 1))
    return x.index(row, place.cast(dtypes.weak_int))


def _merged(keys: UOp, half: int) -> UOp:
    """Where output k of each row comes from; the halves of a row are sorted.

    Bisection for the smallest i (elements taken from the left) with left[i] > right[k - 1 - i]:
    of equal keys the left one comes first.
    """
    rows, size = keys.shape
    k = broadcast(iota(size, dtypes.int32).reshape((1, size)), (rows, size))
    low = (k > half).where(k - half, 0)
    high = (k < half).where(k, half)
    for _ in range(half.bit_length()):
        searching = low < high
        middle = (low + high) >> 1
        left = searching.where(middle, 0)
        right = searching.where(k - 1 - middle, 0)
        takes_more = elementwise(
            Op.CMPLT, _row_gather(keys, right + half), _row_gather(keys, left)).logical_not()
        low = (searching & takes_more).where(middle + 1, low)
        high = (searching & takes_more.logical_not()).where(middle, high)
    # low elements of the left part are among the first k: the next one is the smaller head.
    from_right = k - low
    left = (low < half).where(low, 0)
    right = (from_right < half).where(from_right, 0)
    left_is_next = _row_gather(keys, right + half) < _row_gather(keys, left)
    takes_right = (low < half).logical_not() | ((from_right < half) & left_is_next)
    return takes_right.where(from_right + half, low)
