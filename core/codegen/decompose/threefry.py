"""THREEFRY(counter, key) on uint64 → 20 rounds of Threefry-2x32 on uint32 halves.

Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3 (SC 2011). The low half is
word 0, the high half word 1, of counter, key and result.
"""

from __future__ import annotations

from typing import Final

from core.ir import UOp, dtypes

_ROTATIONS: Final = (13, 15, 26, 6, 17, 29, 16, 24)
_PARITY: Final = 0x1BD11BDA
_ROUNDS: Final = 20


def _halves(value: UOp) -> tuple[UOp, UOp]:
    return value.cast(dtypes.uint32), (value >> 32).cast(dtypes.uint32)


def decompose_threefry(counter: UOp, key: UOp) -> UOp:
    """THREEFRY(counter, key) → additions, rotations and exclusive ors."""
    low, high = _halves(counter)
    first, second = _halves(key)
    keys = (first, second, first ^ second ^ _PARITY)
    low, high = low + keys[0], high + keys[1]
    for number in range(_ROUNDS):
        low = low + high
        left = _ROTATIONS[number % 8]
        high = ((high << left) | (high >> (32 - left))) ^ low
        if number % 4 == 3:
            turn = number // 4 + 1
            low = low + keys[turn % 3]
            high = high + keys[(turn + 1) % 3] + turn
    return low.cast(dtypes.uint64) | (high.cast(dtypes.uint64) << 32)
