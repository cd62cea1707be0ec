"""SIN and COS within 2 units (float32) and 8 (float64) for every finite argument."""

import mpmath
import numpy as np
import pytest

from core.ir import Op, UOp, dtypes, toposort
from core.testing.elementwise import apply_op, evaluate, lower, target_with, units

FUNCTIONS = {Op.SIN: np.sin, Op.COS: np.cos}
# The floats nearest to a multiple of pi/2 (J.-M. Muller, Elementary Functions, 2006, table 11.1).
NEAREST32 = 16367173 * 2.0**72
NEAREST64 = 6381956970095103 * 2.0**797


def arguments(dtype):
    """Bit patterns of every exponent, multiples of pi/4 and their neighbours, hard cases."""
    if dtype is np.float32:
        patterns = np.arange(0, 2**32, 39_989, dtype=np.uint64).astype(np.uint32).view(dtype)
    else:
        patterns = np.random.default_rng(1).integers(0, 2**64, 40_000, np.uint64).view(dtype)
    turns = (np.arange(1, 4000) * np.longdouble(np.pi) / 4).astype(dtype)
    special = np.array([
        0.0, -0.0, np.inf, -np.inf, np.nan, np.finfo(dtype).max, np.finfo(dtype).smallest_subnormal,
        NEAREST32, NEAREST64 if dtype is np.float64 else 1, 1e5, 1e22, -1e22,
    ], dtype)
    return np.concatenate([
        patterns, turns, np.nextafter(turns, 0), -turns, np.linspace(-20, 20, 20_001, dtype=dtype),
        special,
    ])


# A processor with a fused multiply-add goes through float64 for float32, all others do not.
PROCESSOR, PLAIN_PROCESSOR = target_with(fma=True), target_with(fma=False)
GPU = target_with(fma=True, global_limit=(1, 1, 1))
every_target = pytest.mark.parametrize("target", [PROCESSOR, PLAIN_PROCESSOR, GPU])


@every_target
@pytest.mark.parametrize(("dtype", "bound"), [(np.float32, 2), (np.float64, 8)])
@pytest.mark.parametrize("op", FUNCTIONS)
def test_error_is_within_the_bound(op, dtype, bound, target):
    x = arguments(dtype)
    with np.errstate(all="ignore"):
        wanted = FUNCTIONS[op](x.astype(np.longdouble))
    errors = units(apply_op(op, x, target=target), wanted)
    worst = errors.argmax()
    assert errors[worst] <= bound, f"{errors[worst]} units at {x[worst]!r}"


@every_target
@pytest.mark.parametrize("op", FUNCTIONS)
def test_arguments_nearest_to_quarter_turns_against_many_digits(op, target):
    exact = {Op.SIN: mpmath.sin, Op.COS: mpmath.cos}[op]
    for dtype, x in ((np.float32, NEAREST32), (np.float64, NEAREST64)):
        with mpmath.workprec(1400):
            wanted = float(exact(mpmath.mpf(x)))
        got = float(apply_op(op, np.array([x], dtype), target=target)[0])
        assert abs(got - wanted) <= 4 * np.spacing(dtype(abs(wanted)))


@every_target
def test_special_values_are_exact(target):
    x = np.float32([0.0, -0.0, np.inf, -np.inf, np.nan])
    sine, cosine = (apply_op(op, x, target=target) for op in (Op.SIN, Op.COS))
    assert sine[:2].tolist() == [0, 0]
    assert np.signbit(sine[:2]).tolist() == [False, True]
    assert cosine[:2].tolist() == [1, 1]
    assert np.isnan(sine[2:]).all()
    assert np.isnan(cosine[2:]).all()


def test_float32_needs_no_wider_type():
    narrow = frozenset({dtypes.bool, dtypes.int32, dtypes.uint32, dtypes.float32})
    target = target_with(dtypes=narrow)
    x = arguments(np.float32)[::7]
    assert np.array_equal(
        apply_op(Op.SIN, x, target=target), apply_op(Op.SIN, x, target=GPU), equal_nan=True
    )


@pytest.mark.parametrize("fma", [True, False])
@pytest.mark.parametrize("op", FUNCTIONS)
def test_a_provably_small_argument_is_reduced_in_a_few_steps(op, fma):
    bits = UOp.param(0, dtypes.uint32, (1 << 16,))
    angle = (bits >> 8).cast(dtypes.float32) * (60 * 2.0**-24) - 30.0
    lowered = lower(angle.alu(op), fma=fma)
    assert sum(bool(n.src) for n in toposort(lowered)) < 60
    values = np.arange(0, 2**32, 2**16 + 1, dtype=np.uint64).astype(np.uint32)[: 1 << 16]
    x = evaluate(lower(angle), {bits: values})
    errors = units(evaluate(lowered, {bits: values}), FUNCTIONS[op](x.astype(np.longdouble)))
    assert errors.max() <= 2


def test_a_processor_needs_a_third_of_the_operations():
    x = UOp.param(0, dtypes.float32, (8,))
    sizes = [
        sum(bool(n.src) for n in toposort(lower(x.alu(Op.SIN), target=t))) for t in (PROCESSOR, GPU)
    ]
    assert sizes[0] < 50
    assert sizes[1] < 140


def test_small_arguments_next_to_quarter_turns():
    turns = (np.arange(1, 40) * np.longdouble(np.pi) / 2).astype(np.float32)
    x = np.concatenate([turns, np.nextafter(turns, 0), np.nextafter(turns, 99)])
    bits = UOp.param(0, dtypes.uint32, x.shape)
    # Bounds know that these bits are those of a number below 2.
    small = ((bits & 0x3FFFFFFF) | 0).bitcast(dtypes.float32)
    for op, function in FUNCTIONS.items():
        scaled = small * 32.0
        values = (x / np.float32(32)).view(np.uint32)
        got = evaluate(lower(scaled.alu(op)), {bits: values})
        assert units(got, function(x.astype(np.longdouble))).max() <= 2
