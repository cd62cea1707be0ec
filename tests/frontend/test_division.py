"""Integer division never traps, however its divisor came about."""

import numpy as np
import pytest

from core import Tensor


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "int8"])
def test_a_divisor_that_is_one_or_what_may_be_zero(dtype):
    gate = np.array([True, False, True, False, False, True, True, False])
    a, b = np.arange(8).astype(dtype), np.array([1, 0, 2, 3, 0, 0, 5, 0], dtype)
    divisor = Tensor(gate).where(1, Tensor(b))
    wanted = np.where(gate, a, np.where(b == 0, 0, a // np.where(b == 0, 1, b)))
    np.testing.assert_array_equal((Tensor(a) // divisor).numpy(), wanted)
    rest = np.where(gate, 0, np.where(b == 0, 0, a % np.where(b == 0, 1, b)))
    np.testing.assert_array_equal((Tensor(a) % divisor).numpy(), rest)
