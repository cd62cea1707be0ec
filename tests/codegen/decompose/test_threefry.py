"""THREEFRY against the known answers that its authors publish (Random123, kat_vectors)."""

import numpy as np

from core.ir import Op
from core.testing.elementwise import apply_op

KNOWN = [
    ((0x00000000, 0x00000000), (0x00000000, 0x00000000), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
]


def test_known_answers():
    def words(column):
        return np.array([row[column][0] | row[column][1] << 32 for row in KNOWN], np.uint64)

    assert np.array_equal(apply_op(Op.THREEFRY, words(0), words(1)), words(2))
