"""Constants fold to what numpy and ml_dtypes compute, bit by bit."""

import itertools
import math

import ml_dtypes
import numpy as np
import pytest

from core.ir import Op, UOp, dtypes
from core.simplify import simplify
from core.simplify.constant_folding import cast_value, threefry

FLOATS = {
    dtypes.float64: np.float64, dtypes.float32: np.float32, dtypes.float16: np.float16,
    dtypes.bfloat16: ml_dtypes.bfloat16, dtypes.fp8_e5m2: ml_dtypes.float8_e5m2,
    dtypes.fp8_e4m3: ml_dtypes.float8_e4m3fn,
}
INTEGERS = {d: np.dtype(d.name).type for d in (
    dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16, dtypes.int32, dtypes.uint32,
    dtypes.int64, dtypes.uint64)}
NUMPY = {
    Op.ADD: np.add, Op.SUB: np.subtract, Op.MUL: np.multiply, Op.FDIV: np.divide,
    Op.CMPLT: np.less, Op.CMPEQ: np.equal, Op.CMPNE: np.not_equal, Op.AND: np.bitwise_and,
    Op.OR: np.bitwise_or, Op.XOR: np.bitwise_xor,
}
FLOAT_VALUES = [0.0, -0.0, 1.0, -1.5, 0.1, 1 / 3, 3.4e38, 1e-45, 6e-8, 65504.0, 448.0,
                math.inf, -math.inf, math.nan, 1.0000001]


def folded(node):
    result = simplify(node)
    assert result.op is Op.CONST, result
    return result.value


def same(a, b):
    a, b = float(a), float(b)
    return (a != a and b != b) or (a == b and math.copysign(1, a) == math.copysign(1, b))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("op", [Op.ADD, Op.SUB, Op.MUL, Op.FDIV, Op.CMPLT, Op.CMPEQ, Op.CMPNE])
def test_floats(dtype, op):
    random = np.random.default_rng(0)
    values = FLOAT_VALUES + list(random.normal(size=6)) + list(random.normal(size=4) * 1e-39)
    for a, b in itertools.product(values, repeat=2):
        with np.errstate(all="ignore"):
            x, y = (np.array(v).astype(FLOATS[dtype]) for v in (a, b))
            expected = NUMPY[op](x, y)
        found = folded(UOp.const(float(x), dtype).alu(op, UOp.const(float(y), dtype)))
        assert same(found, expected), (op, x, y, found, expected)


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64], ids=str)
def test_square_root(dtype):
    for a in [v for v in FLOAT_VALUES if abs(v) != 1e-45] + [2.0, 7.3, -1.0]:
        with np.errstate(all="ignore"):
            expected = np.sqrt(FLOATS[dtype](a))
        assert same(folded(UOp.const(a, dtype).alu(Op.SQRT)), expected)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("op", [Op.ADD, Op.SUB, Op.MUL, Op.CMPLT, Op.CMPEQ, Op.CMPNE, Op.AND,
                                Op.OR, Op.XOR])
def test_integers_wrap(dtype, op):
    low, high = dtype.minimum, dtype.maximum
    for a, b in itertools.product({low, low + 1, 0, 1, 2, 7, high - 1, high}, repeat=2):
        with np.errstate(all="ignore"):
            expected = NUMPY[op](INTEGERS[dtype](a), INTEGERS[dtype](b))
        assert folded(UOp.const(a, dtype).alu(op, b)) == int(expected)


@pytest.mark.parametrize("op", [Op.FLOORDIV, Op.FLOORMOD, Op.TRUNCDIV, Op.TRUNCMOD])
def test_division(op):
    for a, b in itertools.product([-128, -127, -7, -1, 0, 1, 5, 127], repeat=2):
        if b == 0:
            expected = 0
        elif op in (Op.FLOORDIV, Op.FLOORMOD):
            expected = a // b if op is Op.FLOORDIV else a % b
        else:
            quotient = int(a / b)
            expected = quotient if op is Op.TRUNCDIV else a - b * quotient
        expected = (expected + 128) % 256 - 128
        assert folded(UOp.const(a, dtypes.int8).alu(op, b)) == expected


def test_shifts_mask_their_amount():
    assert folded(UOp.const(1, dtypes.int32) << 33) == 2
    assert folded(UOp.const(-8, dtypes.int8) >> 1) == -4
    assert folded(UOp.const(200, dtypes.uint8) >> 9) == 100
    assert folded(UOp.const(1, dtypes.int8) << 7) == -128


def test_larger():
    zero, minus = UOp.const(0.0, dtypes.float32), UOp.const(-0.0, dtypes.float32)
    assert math.copysign(1, folded(zero.maximum(minus))) == 1
    assert math.copysign(1, folded(minus.maximum(zero))) == 1
    assert math.isnan(folded(zero.maximum(math.nan)))
    assert math.isnan(folded(UOp.const(math.nan, dtypes.float32).maximum(1.0)))


@pytest.mark.parametrize(("value", "target", "expected"), [
    (2.9, dtypes.int32, 2), (-2.9, dtypes.int32, -2), (math.nan, dtypes.int64, 0),
    (math.inf, dtypes.int32, 2**31 - 1), (-math.inf, dtypes.uint32, 0), (-5.0, dtypes.uint64, 0),
    (1e20, dtypes.uint64, 2**64 - 1), (300.0, dtypes.uint8, 44), (-1.0, dtypes.uint8, 255),
    (1e10, dtypes.int8, -1), (-1e10, dtypes.int16, 0), (math.nan, dtypes.bool, True),
    (-0.0, dtypes.bool, False), (1e-45, dtypes.bool, True), (7.5, dtypes.weak_int, 7),
])
def test_casts_from_floats(value, target, expected):
    assert cast_value(value, dtypes.float64, target) == expected
    assert folded(UOp.const(value, dtypes.float64).cast(target)) == expected


@pytest.mark.parametrize("target", [dtypes.float16, dtypes.bfloat16, dtypes.float32,
                                    dtypes.float64], ids=str)
def test_integers_become_floats_in_one_rounding(target):
    halfway = (1 << 60) + (1 << 36)  # halfway between two float32
    for value in [0, 1, -1, 2049, 65519, 65520, 2**24 + 1, halfway, halfway + 1, halfway - 1,
                  -halfway - 1, 2**63 - 1, -2**63, (1 << 62) + (1 << 54),
                  (1 << 62) + (1 << 54) + 1]:
        found = folded(UOp.const(value, dtypes.int64).cast(target))
        bits = {dtypes.float16: 11, dtypes.bfloat16: 8, dtypes.float32: 24, dtypes.float64: 53}
        shift = max(abs(value).bit_length() - bits[target], 0)
        kept, left = divmod(abs(value), 1 << shift)
        half = 1 << shift >> 1
        kept += left > half or (left == half and shift and kept % 2 == 1)
        expected = float(kept << shift) * (1 if value >= 0 else -1)
        if target is dtypes.float16 and abs(expected) > 65504:
            expected = math.copysign(math.inf, expected)
        assert found == expected, (value, target)


def test_threefry_known_answers():
    """Random123's known answers of threefry2x32, 20 rounds."""
    def run(counter, key):
        result = threefry(counter[0] | counter[1] << 32, key[0] | key[1] << 32)
        return result & 0xFFFFFFFF, result >> 32

    ones = 0xFFFFFFFF
    assert run((0, 0), (0, 0)) == (0x6B200159, 0x99BA4EFE)
    assert run((ones, ones), (ones, ones)) == (0x1CB996FC, 0xBB002BE7)
    assert run((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344)) == (0xC4923A9C, 0x483DF7A0)


def test_functions_fold_only_where_exact():
    assert folded(UOp.const(0.0, dtypes.float32).alu(Op.EXP)) == 1.0
    assert simplify(UOp.const(0.5, dtypes.float32).alu(Op.EXP)).op is Op.EXP
    assert simplify(UOp.const(0.5, dtypes.float32).alu(Op.POW, 0.5)).op is Op.POW


def test_lanes():
    lanes = UOp.stack(*map(UOp.const, range(4)))
    assert simplify(lanes * 8 + 3) is UOp.stack(*map(UOp.const, (3, 11, 19, 27)))


def test_invalid_propagates():
    nothing = UOp.invalid(dtypes.int32)
    x = UOp.param(0, dtypes.int32)
    assert simplify(x + nothing).is_invalid
    assert simplify(nothing.cast(dtypes.float32)).is_invalid
    assert simplify(nothing < x).is_invalid
    assert simplify(nothing * 0).is_invalid
    assert simplify(UOp.const(True, dtypes.bool).where(x, nothing)) is x
