"""Elementwise ops of machine integers, weak ints and bool: everything wraps, nothing traps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from core.ir import Op
from core.reference.formats import Array

_ROTATIONS: Final = (13, 15, 26, 6, 17, 29, 16, 24)
_PARITY: Final = 0x1BD11BDA
_ROUNDS: Final = 20
_WORD: Final = 32


def _floor_divide(a: Array, b: Array) -> Array:
    """Rounded down; 0 where b is 0; INT_MIN / -1 wraps."""
    safe = np.where(_traps(a, b), b.dtype.type(1), b)
    # INT_MIN / 1 is INT_MIN, which is what INT_MIN / -1 wraps to.
    return np.where(b == 0, a.dtype.type(0), np.floor_divide(a, safe))


def _floor_remainder(a: Array, b: Array) -> Array:
    safe = np.where(_traps(a, b), b.dtype.type(1), b)
    return np.asarray(np.remainder(a, safe))  # anything modulo 1 is 0


def _truncate_remainder(a: Array, b: Array) -> Array:
    safe = np.where(_traps(a, b), b.dtype.type(1), b)
    return np.asarray(np.fmod(a, safe))


def _truncate_divide(a: Array, b: Array) -> Array:
    quotient = _floor_divide(a, b)
    upwards = ((a < 0) != (b < 0)) & (b != 0) & (_floor_remainder(a, b) != 0)
    return np.asarray(quotient + upwards.astype(a.dtype))


def _traps(a: Array, b: Array) -> Array:
    """Where a processor's division would trap."""
    zero = b == 0
    if a.dtype.kind == "u":
        return np.asarray(zero)
    return np.asarray(zero | ((b == -1) & (a == np.iinfo(a.dtype).min)))


def _amount(a: Array, b: Array) -> Array:
    """A shift's amount modulo the width."""
    return np.asarray(b & b.dtype.type(a.dtype.itemsize * 8 - 1))


def _power(base: Array, exponent: Array) -> Array:
    """base ** exponent modulo 2^bits; the exponent's bits are taken as unsigned."""
    unsigned = np.dtype(f"u{base.dtype.itemsize}")
    base, exponent = np.broadcast_arrays(base, exponent)
    power, left = base.astype(unsigned), exponent.astype(unsigned)
    result = np.ones(base.shape, unsigned)
    while np.any(left):
        result = np.where(left & unsigned.type(1), result * power, result)
        power, left = power * power, left >> unsigned.type(1)
    return result.astype(base.dtype)


def threefry(counter: Array, key: Array) -> Array:
    """Threefry-2x32, 20 rounds, on uint64 (Salmon et al., SC 2011); word 0 is the low half."""
    mask = np.uint64(0xFFFFFFFF)
    counter, key = np.broadcast_arrays(counter, key)
    words = [(counter & mask).astype(np.uint32), (counter >> np.uint64(_WORD)).astype(np.uint32)]
    keys = [(key & mask).astype(np.uint32), (key >> np.uint64(_WORD)).astype(np.uint32)]
    keys.append(keys[0] ^ keys[1] ^ np.uint32(_PARITY))
    x, y = words[0] + keys[0], words[1] + keys[1]
    for step in range(_ROUNDS):
        x = x + y
        turn = _ROTATIONS[step % len(_ROTATIONS)]
        y = ((y << np.uint32(turn)) | (y >> np.uint32(_WORD - turn))) ^ x
        if step % 4 == 3:
            injection = step // 4 + 1
            x = x + keys[injection % 3]
            y = y + keys[(injection + 1) % 3] + np.uint32(injection)
    return x.astype(np.uint64) | (y.astype(np.uint64) << np.uint64(_WORD))


COMPARISONS: Final[dict[Op, Callable[..., Any]]] = {
    Op.CMPLT: np.less, Op.CMPNE: np.not_equal, Op.CMPEQ: np.equal,
}
INTEGER: Final[dict[Op, Callable[..., Any]]] = {
    Op.ADD: np.add, Op.SUB: np.subtract, Op.MUL: np.multiply, Op.NEG: np.negative,
    Op.TRUNC: np.positive, Op.MAX: np.maximum, Op.POW: _power,
    Op.FLOORDIV: _floor_divide, Op.FLOORMOD: _floor_remainder,
    Op.TRUNCDIV: _truncate_divide, Op.TRUNCMOD: _truncate_remainder,
    Op.AND: np.bitwise_and, Op.OR: np.bitwise_or, Op.XOR: np.bitwise_xor,
    Op.SHL: lambda a, b: np.left_shift(a, _amount(a, b)),
    Op.SHR: lambda a, b: np.right_shift(a, _amount(a, b)),
    Op.MULACC: lambda a, b, c: a * b + c,
    **COMPARISONS,
}
BOOLEAN: Final[dict[Op, Callable[..., Any]]] = {
    **dict.fromkeys((Op.ADD, Op.OR, Op.MAX), np.logical_or),
    **dict.fromkeys((Op.MUL, Op.AND), np.logical_and),
    Op.XOR: np.logical_xor,
    **COMPARISONS,
}
