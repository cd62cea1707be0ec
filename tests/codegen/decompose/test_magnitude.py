"""What can be proven about the size of a float."""

import math

import pytest

from core.codegen.decompose.magnitude import largest_magnitude
from core.ir import Op, UOp, dtypes

BITS = UOp.param(0, dtypes.uint32, (4,))
UNKNOWN = UOp.param(1, dtypes.float32, (4,))
UNIFORM = (BITS >> 8).cast(dtypes.float32) * 2.0**-24


@pytest.mark.parametrize(("value", "bound"), [
    (UNIFORM * 6.0 - 3.0, 9.0),
    (-(UNIFORM * 2.0).cast(dtypes.float64), 2.0),
    (((BITS >> 9) | 0x3F800000).bitcast(dtypes.float32) - 1.0, 3.0),
    (UNIFORM.eq(0.0).where(UNIFORM, UNIFORM * 4.0), 4.0),
])
def test_bounded(value, bound):
    assert bound * 0.9999 <= largest_magnitude(value) <= bound


@pytest.mark.parametrize("value", [
    UNKNOWN,
    UNKNOWN * 0.0,
    BITS.bitcast(dtypes.float32),
    UNIFORM / UNIFORM,
    UNIFORM + float("nan"),
    UNIFORM.alu(Op.EXP),
    UNIFORM.eq(0.0).where(UNKNOWN, UNIFORM),
])
def test_unknown(value):
    assert math.isinf(largest_magnitude(value))
