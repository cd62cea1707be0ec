"""How the kit compares: units in the last place, special values, bounds."""

import math

import numpy as np
import pytest

from core.ir import Op, dtypes
from core.testing.conformance.bench import (
    MismatchError,
    NoLaunchError,
    compare,
    compare_near,
    distance,
    is_denormal,
    open_bench,
)
from core.testing.conformance.samples import operands, singles

F4 = np.float32


@pytest.fixture(scope="module")
def bench(device):
    return open_bench(device)


def apart(a, b, dtype=dtypes.float32, kind=F4):
    return int(distance(np.array(a, kind), np.array(b, kind), dtype))


def test_distance_counts_the_numbers_between():
    one = F4(1)
    assert apart(one, one) == 0
    assert apart(one, np.nextafter(one, F4(2))) == 1
    assert apart(np.nextafter(one, F4(0)), np.nextafter(one, F4(2))) == 2
    assert apart(math.inf, np.finfo(F4).max) == 1
    tiny = np.nextafter(F4(0), one)
    assert apart(-tiny, tiny) == 2
    assert apart(0.0, tiny) == 1
    assert apart(math.nan, math.nan) == 0
    assert min(apart(0.0, -0.0), apart(math.nan, 1.0), apart(1.0, math.nan)) == 2**63 - 1
    assert apart(-1e308, 1e308, dtypes.float64, np.float64) == 2**63 - 1
    assert apart(1.0, 1.0078125, dtypes.bfloat16) == 1
    assert apart(416.0, 448.0, dtypes.fp8_e4m3) == 1
    assert apart(3, 5, dtypes.int32, np.int32) == 1


def test_compare_shows_the_worst_element_and_its_operands():
    right = np.array([1, 2, 3], F4)
    compare(right, right.copy(), dtypes.float32)
    wrong = np.array([1, 2.0000002, 4], F4)
    with pytest.raises(MismatchError, match=r"ADD float32: 2 of 3 .* at \[2\].*7\.0.*4\.0"):
        compare(wrong, right, dtypes.float32, operands=[right + 4], what="ADD")
    compare(wrong[:2], right[:2], dtypes.float32, ulps=1)
    compare(wrong, right, dtypes.float32, where=np.array([True, False, False]))
    with pytest.raises(MismatchError, match="shape"):
        compare(right[:2], right, dtypes.float32)


def test_compare_near_takes_a_bound_per_element():
    right = np.array([1.0, 100.0, np.inf, np.nan])
    compare_near(right + np.array([0, 0.5, 0, 0]), right, np.array([0, 1, 0, 0]))
    for wrong in ([1.0, 102.0, np.inf, np.nan], [1.0, 100.0, 5.0, np.nan], [1, 100, np.inf, 0.0],
                  [np.nan, 100.0, np.inf, np.nan]):
        with pytest.raises(MismatchError, match="1 of 4 differ"):
            compare_near(np.array(wrong), right, 1.5)


def test_denormals_are_told_apart():
    values = np.array([0.0, 1e-40, -1e-40, 2.0**-126, 1e-37, np.nan, np.inf], F4)
    assert is_denormal(values, dtypes.float32).tolist() == [False, True, True, True, *[False] * 3]
    assert not is_denormal(np.array([1, 2]), dtypes.int32).any()


@pytest.mark.parametrize("dtype", [dtypes.int8, dtypes.uint8, dtypes.fp8_e4m3, dtypes.fp8_e5m2])
def test_eight_bits_are_tried_with_every_pair(dtype):
    a, b = operands(Op.ADD, dtype)
    assert a.size == b.size == 65536
    assert np.unique(singles(dtype)[~np.isnan(singles(dtype))]).size >= 246


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16])
def test_samples_of_floats_hold_what_is_hard(dtype):
    for op in (Op.ADD, Op.POW, Op.MULACC, Op.EXP):
        for x in operands(op, dtype):
            finite = x[np.isfinite(x)]
            assert np.isnan(x).any()
            assert np.isposinf(x).any()
            assert is_denormal(x, dtype).any()
            assert (x == 0).any()
            assert finite.max() > 1e4
            assert (np.abs(finite) < 100).sum() > 300


def test_a_computation_without_a_launch_is_found(bench):
    leaf = bench.place(np.arange(5, dtype=F4), dtypes.float32)
    (found,) = bench.run([leaf + 1.0])
    assert found.tolist() == [1, 2, 3, 4, 5]
    with pytest.raises(NoLaunchError, match="no launch ran in a Program"):
        bench.run([leaf])


def test_a_wrong_result_is_found(bench):
    leaf = bench.place(np.arange(5, dtype=F4), dtypes.float32)
    bench.check([leaf * 2.0], {leaf: np.arange(5, dtype=F4)})
    with pytest.raises(MismatchError, match="4 of 5 differ"):
        bench.check([leaf * 2.0], {leaf: np.arange(5, dtype=F4) * 2})
