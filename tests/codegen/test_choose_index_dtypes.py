"""choose-index-dtypes: int32 where bounds allow, int64 where they do not."""

import numpy as np
import pytest

from core.codegen.choose_index_dtypes import choose_index_dtypes
from core.ir import Op, UOp, dtypes, toposort
from core.testing.pass_checks import choose_index_dtypes as check
from core.testing.pass_checks import expect_values, kernel, place


def test_choose_index_dtypes():
    check()


def copy_of(size, index=lambda i: i):
    i = UOp.range(size, 0)
    return kernel(place(0, size).index(i).store(place(1, size).index(index(i)).load()).end(i))


def loop_dtype(sink, *, wide):
    (loop,) = {n for n in toposort(choose_index_dtypes(sink, wide=wide)) if n.op is Op.RANGE}
    return loop.dtype


@pytest.mark.parametrize(("size", "wide", "expected"), [
    (8, False, dtypes.int32), (8, True, dtypes.int64),
    (1 << 31, False, dtypes.int64), ((1 << 31) - 1, False, dtypes.int32),
])
def test_loops_are_as_wide_as_needed(size, wide, expected):
    assert loop_dtype(copy_of(size), wide=wide) is expected


def test_an_intermediate_that_leaves_int32_makes_the_whole_sum_wide():
    """(i * 2^30) // 2^30 fits, its numerator does not."""
    sink = copy_of(8, lambda i: (i * (1 << 30)) // (1 << 30))
    lowered = choose_index_dtypes(sink, wide=False)
    product = [n for n in toposort(lowered) if n.op is Op.MUL]
    assert {n.dtype for n in product} == {dtypes.int64}
    x = np.arange(8, dtype=np.float32)
    expect_values(lowered, x, x)


def test_division_of_what_is_not_negative_truncates():
    def divisions(index):
        lowered = choose_index_dtypes(copy_of(8, index), wide=False)
        return {n.op for n in toposort(lowered)} & {Op.FLOORDIV, Op.TRUNCDIV}

    assert divisions(lambda i: i // 2) == {Op.TRUNCDIV}
    assert divisions(lambda i: (i - 3) // 2 + 2) == {Op.FLOORDIV}


def test_floor_division_of_negative_indices_keeps_its_values():
    sink = copy_of(8, lambda i: (i - 3) // 2 + 2)
    x = np.arange(8, dtype=np.float32)
    expect_values(choose_index_dtypes(sink, wide=True), x[(np.arange(8) - 3) // 2 + 2], x)
