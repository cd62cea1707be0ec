"""The promotion lattice against the Array API's table, and rounding against ml_dtypes."""

import itertools
import math
import struct

import pytest

from core.ir import ALL_DTYPES, DType, dtype_named, dtypes, promote
from core.ir.dtype import round_to_float, wrap_integer

INTEGERS = [f"{u}int{b}" for u in ("", "u") for b in (8, 16, 32, 64)]


def array_api_result(a: str, b: str) -> str | None:
    """Data type promotion of the Python Array API standard, 2023.12; None where undefined."""
    if a == b:
        return a
    if a.startswith("u") == b.startswith("u"):
        return max(a, b, key=lambda n: int(n.strip("uint")))
    unsigned, signed = (a, b) if a.startswith("u") else (b, a)
    bits = max(2 * int(unsigned[4:]), int(signed[3:]))
    return f"int{bits}" if bits <= 64 else None


@pytest.mark.parametrize(("a", "b"), list(itertools.product(INTEGERS, INTEGERS)))
def test_integers_promote_as_in_the_array_api(a, b):
    expected = array_api_result(a, b)
    found = promote(dtype_named(a), dtype_named(b))
    assert found is (dtypes.weak_float if expected is None else dtype_named(expected))


def test_floats_promote_as_in_the_array_api():
    assert promote(dtypes.float32, dtypes.float64) is dtypes.float64
    assert promote(dtypes.float16, dtypes.bfloat16) is dtypes.float32
    assert promote(dtypes.fp8_e4m3, dtypes.fp8_e5m2) is dtypes.float16


def test_weak_types_never_widen_within_a_kind():
    for dtype in ALL_DTYPES:
        if dtype.is_integer:
            assert promote(dtype, dtypes.weak_int) is dtype
        if dtype.is_float:
            assert promote(dtype, dtypes.weak_float) is dtype
            assert promote(dtype, dtypes.int64) is dtype


def test_promotion_is_a_join():
    typed = [d for d in ALL_DTYPES if d is not dtypes.void]
    for a, b in itertools.product(typed, typed):
        assert promote(a, b) is promote(b, a)
        assert promote(a, promote(a, b)) is promote(a, b)
    with pytest.raises(TypeError):
        promote(dtypes.void, dtypes.int32)


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.float32])
def test_rounding_matches_struct(dtype: DType):
    code = {16: "e", 32: "f"}[dtype.bits]
    for exponent in range(-160, 140, 3):
        value = math.ldexp(1.2345678901234567, exponent)
        try:
            expected = struct.unpack(code, struct.pack(code, value))[0]
        except OverflowError:
            expected = math.inf
        assert round_to_float(value, dtype) == expected
        assert math.copysign(1, round_to_float(-value, dtype)) == -1


def test_fp8_overflows_as_ml_dtypes_does():
    assert round_to_float(464.0, dtypes.fp8_e4m3) == 448.0
    assert math.isnan(round_to_float(465.0, dtypes.fp8_e4m3))
    assert math.isinf(round_to_float(65536.0, dtypes.fp8_e5m2))


def test_machine_integers_wrap():
    assert wrap_integer(128, dtypes.int8) == -128
    assert wrap_integer(-1, dtypes.uint16) == 65535
    assert wrap_integer(1 << 80, dtypes.weak_int) == 1 << 80
