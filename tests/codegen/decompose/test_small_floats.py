"""Small floats by integers: every bit pattern, every rounding, against numpy and ml_dtypes."""

import itertools

import ml_dtypes
import numpy as np
import pytest

from core.ir import AddressSpace, BufferSlot, Op, UOp, dtypes, toposort
from core.testing.elementwise import EVERYTHING, PLAIN, evaluate, lower, target_with

NUMPY = {
    dtypes.float16: np.float16, dtypes.bfloat16: ml_dtypes.bfloat16,
    dtypes.fp8_e4m3: ml_dtypes.float8_e4m3fn, dtypes.fp8_e5m2: ml_dtypes.float8_e5m2,
}
every_dtype = pytest.mark.parametrize("dtype", NUMPY)


def code(dtype):
    """The integers that hold a small float: (dtype of the IR, dtype of numpy)."""
    return (dtypes.uint8, np.uint8) if dtype.itemsize == 1 else (dtypes.uint16, np.uint16)


def all_numbers(dtype):
    """Every bit pattern of a small float, as integers."""
    return np.arange(2**dtype.bits, dtype=code(dtype)[1])


def through(function, *inputs, result, target=None):
    """Values of function(inputs), a graph; small floats go in and out as bits."""
    leaves, graph_inputs, values = [], [], {}
    for slot, (dtype, array) in enumerate(inputs):
        held = code(dtype)[0] if dtype in NUMPY else dtype
        leaves.append(UOp.param(slot, held, array.shape))
        graph_inputs.append(leaves[-1].bitcast(dtype))
        values[leaves[-1]] = array
    graph = function(*graph_inputs)
    if result in NUMPY:
        graph = graph.bitcast(code(result)[0])
    graph = lower(graph, target=target)
    assert not {n.dtype for n in toposort(graph)} & set(NUMPY)
    return evaluate(graph, values)


def same(got, wanted, dtype):
    """Equality of bits, any NaN equal to any NaN."""
    a, b = (v.view(NUMPY[dtype]).astype(np.float32) for v in (got, wanted))
    return np.array_equal(a, b, equal_nan=True) and np.array_equal(
        np.signbit(a)[~np.isnan(a)], np.signbit(b)[~np.isnan(b)]
    )


def float32_samples():
    """Every 9973rd bit pattern of float32, and all ties of 16-bit formats with neighbours."""
    patterns = np.arange(0, 2**32, 9973, dtype=np.uint64).astype(np.uint32)
    ties = np.arange(0, 2**32, 1 << 11, dtype=np.uint64)[:: 5].astype(np.uint32)
    edges = np.float32([
        448, 464, 463.99997, 464.00003, 480, 57344, 61440, 61439.996, 65504, 65519.996, 65520,
        2**-10, 2**-9, 2**-17, 2**-25, 2**-24, 3.3895314e38, 3.3961e38, np.inf, np.nan, 0,
    ]).view(np.uint32)
    bits = np.concatenate([patterns, ties, ties + 1, ties - 1, edges, edges | 0x80000000])
    return bits.astype(np.uint32).view(np.float32)


@every_dtype
def test_every_number_becomes_float32_and_comes_back(dtype):
    numbers = all_numbers(dtype)
    wide = through(
        lambda x: x.cast(dtypes.float32), (dtype, numbers), result=dtypes.float32
    )
    with np.errstate(all="ignore"):
        assert np.array_equal(wide, numbers.view(NUMPY[dtype]).astype(np.float32), equal_nan=True)
    back = through(lambda x: x.cast(dtype), (dtypes.float32, wide), result=dtype)
    assert same(back, numbers, dtype)


@every_dtype
def test_float32_rounds_as_ml_dtypes(dtype):
    x = float32_samples()
    got = through(lambda x: x.cast(dtype), (dtypes.float32, x), result=dtype)
    with np.errstate(all="ignore"):
        wanted = x.astype(NUMPY[dtype]).view(code(dtype)[1])
    assert same(got, wanted, dtype)


@every_dtype
def test_float64_is_rounded_once(dtype):
    bits = all_numbers(dtype)
    with np.errstate(all="ignore"):
        numbers = bits.view(NUMPY[dtype]).astype(np.float64)
    order = np.argsort(numbers[np.isfinite(numbers)], kind="stable")
    bits, numbers = bits[np.isfinite(numbers)][order], numbers[np.isfinite(numbers)][order]
    middle = (numbers[1:] + numbers[:-1]) / 2
    lower, upper = bits[:-1], bits[1:]
    # Just below the middle of two neighbours is the lower one, just above the upper one.
    for x, wanted in ((np.nextafter(middle, -np.inf), lower), (np.nextafter(middle, np.inf), upper),
                      (middle, np.where(lower & 1, upper, lower))):
        distinct = (numbers[1:] != numbers[:-1]) & (x != 0)
        got = through(lambda x: x.cast(dtype), (dtypes.float64, x), result=dtype)
        values = (v[distinct].view(NUMPY[dtype]).astype(np.float32) for v in (got, wanted))
        assert np.array_equal(*values)


@every_dtype
def test_float64_extremes(dtype):
    x = np.array([np.inf, -np.inf, np.nan, 1e300, -1e300, 1e-300, -1e-300, 0.0, -0.0])
    got = through(lambda x: x.cast(dtype), (dtypes.float64, x), result=dtype)
    with np.errstate(all="ignore"):
        wanted = x.astype(np.float32).astype(NUMPY[dtype]).view(code(dtype)[1])
    assert same(got, wanted, dtype)


OPERATIONS = {
    Op.ADD: np.add, Op.SUB: np.subtract, Op.MUL: np.multiply, Op.FDIV: np.divide,
}


@every_dtype
@pytest.mark.parametrize("op", OPERATIONS)
def test_each_operation_rounds(dtype, op):
    numbers = all_numbers(dtype)
    step = 1 if dtype.bits == 8 else 251
    a, b = (v.ravel() for v in np.meshgrid(numbers[::step], numbers[:: step + dtype.bits - 8]))
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    got = through(lambda x, y: x.alu(op, y), (dtype, a), (dtype, b), result=dtype)
    with np.errstate(all="ignore"):
        exact = OPERATIONS[op](*(v.view(NUMPY[dtype]).astype(np.float32) for v in (a, b)))
        wanted = exact.astype(NUMPY[dtype]).view(code(dtype)[1])
    assert same(got, wanted, dtype)


def test_a_sum_of_three_rounds_twice():
    one, tiny = (np.array([v], ml_dtypes.bfloat16).view(np.uint16) for v in (1, 2**-9))
    got = through(lambda x, y: x + y + y, (dtypes.bfloat16, one), (dtypes.bfloat16, tiny),
                  result=dtypes.bfloat16)
    assert got.view(ml_dtypes.bfloat16)[0] == 1  # in float32 it would be 1 + 2^-8, a tie


FUNCTIONS = {
    Op.EXP: np.exp, Op.EXP2: np.exp2, Op.LOG: np.log, Op.LOG2: np.log2, Op.SIN: np.sin,
    Op.COS: np.cos,
}


@every_dtype
@pytest.mark.parametrize("op", FUNCTIONS)
def test_functions_of_every_number_are_rounded_once(dtype, op):
    numbers = all_numbers(dtype)
    got = through(lambda x: x.alu(op), (dtype, numbers), result=dtype)
    with np.errstate(all="ignore"):
        exact = FUNCTIONS[op](numbers.view(NUMPY[dtype]).astype(np.float64))
        # Two float32 units on either side: the rounding of one of them must be the result.
        near = [
            (exact * (1 + k * 2.0**-23)).astype(np.float32).astype(NUMPY[dtype]).astype(np.float32)
            for k in (-2, 0, 2)
        ]
        value = got.view(NUMPY[dtype]).astype(np.float32)
    accepted = np.isnan(value) & np.isnan(near[1])
    for candidate in near:
        accepted |= value == candidate
    assert accepted.all()
    assert np.mean((value != near[1]) & ~np.isnan(value)) < 2e-3


@every_dtype
@pytest.mark.parametrize("integer", [dtypes.int32, dtypes.uint8, dtypes.bool])
def test_integers_convert(dtype, integer):
    values = np.array([0, 1, 2, 3, 17, 100, 255, 449, 65520, -5, 2**24]).astype(integer.name)
    got = through(lambda x: x.cast(dtype), (integer, values), result=dtype)
    with np.errstate(all="ignore"):
        wanted = values.astype(np.float32).astype(NUMPY[dtype]).view(code(dtype)[1])
    assert same(got, wanted, dtype)


def kernel(dtype, space=AddressSpace.GLOBAL):
    """out[i] = max(in[i], -in[i]) + 1 for one i."""
    place = UOp.const(3, dtypes.int32)
    given, out = UOp.param(0, dtype, (8,)), UOp.param(1, dtype, (8,))
    value = given.index(place).load()
    return UOp.sink(out.index(place).store(value.maximum(-value) + 1.0))


@every_dtype
def test_storage_is_seen_as_integers(dtype):
    lowered = lower(kernel(dtype), ops=PLAIN | {Op.MAX})
    nodes = toposort(lowered)
    views = [n for n in nodes if n.op is Op.BITCAST and n.src[0].op is Op.PARAM]
    assert {(v.src[0].arg.slot, v.dtype) for v in views} == {(k, code(dtype)[0]) for k in (0, 1)}
    store = next(n for n in nodes if n.op is Op.STORE)
    assert store.src[0].dtype is store.src[1].dtype is code(dtype)[0]
    floats = {n.dtype for n in nodes if n.dtype.is_float and n.op is not Op.PARAM}
    assert floats == {dtypes.float32}


def test_a_copy_moves_the_bits_without_converting():
    place = UOp.const(3, dtypes.int32)
    given, out = (UOp.param(k, dtypes.bfloat16, (8,)) for k in (0, 1))
    copy = UOp.sink(out.index(place).store(given.index(place).load()))
    lowered = lower(copy)
    assert not any(n.dtype is dtypes.float32 for n in toposort(lowered))


def test_a_gated_load_keeps_its_gate():
    place, gate = UOp.const(3, dtypes.int32), UOp.const(True, dtypes.bool)
    given, out = (UOp.param(k, dtypes.bfloat16, (8,)) for k in (0, 1))
    load = UOp(Op.LOAD, (given.index(place), gate))
    lowered = lower(UOp.sink(UOp(Op.STORE, (out.index(place), -load, gate))))
    found = {n.op: n for n in toposort(lowered)}
    assert found[Op.LOAD].src[1] is gate
    assert found[Op.STORE].src[2] is gate


def test_registers_hold_float32():
    register = UOp(Op.BUFFER, (UOp.dims((4,)),),
                   BufferSlot(0, dtypes.bfloat16, None, AddressSpace.REG))
    place = register.index(UOp.const(1, dtypes.int32))
    lowered = lower(UOp.sink(place.store(UOp.const(1.5, dtypes.bfloat16))))
    store = lowered.src[0]
    assert store.src[0].dtype is store.src[1].dtype is dtypes.float32


def test_a_dtype_that_the_device_stores_is_cast_by_it():
    target = target_with(
        dtypes=EVERYTHING, storage_dtypes=frozenset({dtypes.float16}),
    )
    lowered = lower(kernel(dtypes.float16), ops=PLAIN | {Op.MAX}, target=target)
    nodes = toposort(lowered)
    computed = {n.op for n in nodes if n.dtype is dtypes.float16}
    assert computed == {Op.PARAM, Op.INDEX, Op.LOAD, Op.CAST}


def test_a_native_dtype_stays():
    root = kernel(dtypes.float16)
    target = target_with(dtypes=EVERYTHING)
    assert lower(root, ops=PLAIN | {Op.MAX}, target=target) is root


def test_comparison_and_choice_are_exact():
    numbers = all_numbers(dtypes.fp8_e4m3)
    a, b = (np.ascontiguousarray(v.ravel()) for v in np.meshgrid(numbers, numbers))
    got = through(lambda x, y: x.maximum(y), (dtypes.fp8_e4m3, a), (dtypes.fp8_e4m3, b),
                  result=dtypes.fp8_e4m3)
    x, y = (v.view(ml_dtypes.float8_e4m3fn).astype(np.float32) for v in (a, b))
    larger = np.where((x == 0) & (y == 0), np.where(np.signbit(x), y, x), np.maximum(x, y))
    assert same(got, larger.astype(ml_dtypes.float8_e4m3fn).view(np.uint8), dtypes.fp8_e4m3)


def test_every_pair_of_small_floats_converts():
    for old, new in itertools.permutations(NUMPY, 2):
        numbers = all_numbers(old)
        got = through(lambda x, new=new: x.cast(new), (old, numbers), result=new)
        with np.errstate(all="ignore"):
            wanted = numbers.view(NUMPY[old]).astype(np.float32).astype(NUMPY[new])
        assert same(got, wanted.view(code(new)[1]), new)
