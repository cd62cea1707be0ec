"""MAX, TRUNC, NEG, CMPEQ and MULACC for renderers that lack them."""

import itertools

import numpy as np
import pytest

from core.ir import Op
from core.testing.elementwise import PLAIN, apply_op

NUMBERS = [0.0, -0.0, 1.5, -1.5, 0.5, -0.5, 0.99999994, 2.0**23 + 1, -(2.0**22) - 0.5, 1e30, np.inf,
           -np.inf, np.nan, 1e-45, -1e-45]
FLOATS = [np.float32, np.float64]


def signed_equal(a, b):
    """Equal values, and equal signs where not NaN."""
    number = ~np.isnan(a)
    return np.array_equal(a, b, equal_nan=True) and np.array_equal(
        np.signbit(a[number]), np.signbit(b[number])
    )


@pytest.mark.parametrize("dtype", FLOATS)
def test_max_propagates_nan_and_orders_zeros(dtype):
    pairs = np.array(list(itertools.product(NUMBERS, NUMBERS)), dtype)
    a, b = np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])
    wanted = np.where((a == 0) & (b == 0), np.where(np.signbit(a), b, a), np.maximum(a, b))
    assert signed_equal(apply_op(Op.MAX, a, b), wanted)


@pytest.mark.parametrize("dtype", [np.int8, np.uint32, np.int64])
def test_max_of_integers(dtype):
    info = np.iinfo(dtype)
    a = np.array([info.min, info.max, 3, 0], dtype)
    assert np.array_equal(apply_op(Op.MAX, a, a[::-1].copy()), np.maximum(a, a[::-1]))


def test_max_of_bools():
    a, b = np.array([False, False, True, True]), np.array([False, True, False, True])
    assert apply_op(Op.MAX, a, b).tolist() == [False, True, True, True]


@pytest.mark.parametrize("dtype", FLOATS)
def test_trunc_keeps_signs_and_large_numbers(dtype):
    x = np.array(NUMBERS, dtype)
    assert signed_equal(apply_op(Op.TRUNC, x, ops=PLAIN - {Op.TRUNC}), np.trunc(x))


def test_neg():
    ops = PLAIN - {Op.NEG}
    assert signed_equal(apply_op(Op.NEG, np.float32(NUMBERS), ops=ops), -np.float32(NUMBERS))
    assert apply_op(Op.NEG, np.int8([-128, 0, 5]), ops=ops).tolist() == [-128, 0, -5]


def test_equality():
    a, b = np.float32([0.0, 1, np.nan, np.inf]), np.float32([-0.0, 2, np.nan, np.inf])
    assert apply_op(Op.CMPEQ, a, b, ops=PLAIN - {Op.CMPEQ}).tolist() == [True, False, False, True]


def test_multiply_accumulate_without_one_rounds_twice():
    a, b, c = np.float32([1 + 2**-23]), np.float32([1 - 2**-23]), np.float32([-1])
    assert apply_op(Op.MULACC, a, b, c)[0] == -(2.0**-46)
    assert apply_op(Op.MULACC, a, b, c, ops=PLAIN - {Op.MULACC})[0] == 0
