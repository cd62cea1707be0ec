"""Integers of 8, 16 and 64 bits by words of 32, run by the interpreter, against numpy."""

from dataclasses import replace

import numpy as np
import pytest

from core.compiler import pipeline
from core.foundation.errors import CompileError
from core.ir import AxisType, KernelInfo, Op, UOp, dtypes, toposort
from core.reference.run import run
from core.testing.pass_checks import EVERY_OP, TARGET

WORDS = frozenset({dtypes.bool, dtypes.int32, dtypes.uint32, dtypes.float32})
LACKING = replace(TARGET, dtypes=WORDS, wide_index=False)
NARROW = ("int8", "uint8", "int16", "uint16")
WIDE = ("int64", "uint64")
every_dtype = pytest.mark.parametrize("name", [*NARROW, *WIDE])


def ir(array):
    return getattr(dtypes, array.dtype.name)


def in_words(array):
    """Storage as the program sees it: of other sizes than 32 bits as words, the last one whole."""
    if array.dtype.itemsize == 4:
        return array.copy()
    held = np.zeros(-(-array.nbytes // 4) * 4, np.uint8)
    held[:array.nbytes] = np.ascontiguousarray(array).view(np.uint8)
    return held.view(np.uint32)


def computed(function, *inputs, result, lanes=1):
    """function(elements of inputs) for each element, by a program without other integers."""
    count = len(inputs[0])
    out = np.zeros(count, result)
    storage = [UOp.param(k, ir(a), (count,)) for k, a in enumerate((out, *inputs))]
    outer = UOp.range(count // lanes, 0)
    inner = UOp.range(lanes, 1, AxisType.LANE)
    i = outer * lanes + inner if lanes > 1 else outer
    value = function(*(p.index(i).load() for p in storage[1:]))
    ends = (outer, inner) if lanes > 1 else (outer,)
    sink = UOp.sink(storage[0].index(i).store(value).end(*ends), info=KernelInfo("k", actions=()))
    program = pipeline.generate(sink, LACKING, EVERY_OP)
    found = {n.dtype for n in toposort(program.src[1]) if n.dtype.bits}
    assert found - {dtypes.weak_int} <= WORDS
    held = [in_words(a) for a in (out, *inputs)]
    run(program.src[1], held)
    return held[0].view(np.uint8)[:out.nbytes].view(result)


def samples(name, count=96):
    """Edges crossed with each other, then random numbers of all sizes."""
    info, draw = np.iinfo(name), np.random.default_rng(7)
    edges = [0, 1, 2, 3, 7, info.max, info.max - 1, info.max // 2, info.min, info.min + 1]
    edges = np.array(edges, object)
    sized = [int(draw.integers(0, 2**63)) >> int(draw.integers(0, 63)) for _ in range(2 * count)]
    signs = np.where(draw.random(2 * count) < 0.5, 1, -1) if info.min else 1
    numbers = np.array(sized, object) * signs
    a, b = np.meshgrid(edges, edges)
    a = np.concatenate([a.ravel(), numbers[:count]])
    b = np.concatenate([b.ravel(), numbers[count:]])
    a, b = (((x - info.min) % 2**info.bits + info.min).astype(name) for x in (a, b))
    return a[:len(a) // 4 * 4], b[:len(b) // 4 * 4]


def exact(a, b, function, name):
    """function on Python's integers, wrapped."""
    bits, low = np.iinfo(name).bits, np.iinfo(name).min
    values = [function(int(x), int(y)) for x, y in zip(a, b, strict=True)]
    return np.array([(v - low) % 2**bits + low for v in values], object).astype(name)


def quotient(x, y):
    return 0 if not y else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


ARITHMETIC = {
    Op.ADD: lambda x, y: x + y, Op.SUB: lambda x, y: x - y, Op.MUL: lambda x, y: x * y,
    Op.AND: lambda x, y: x & y, Op.OR: lambda x, y: x | y, Op.XOR: lambda x, y: x ^ y,
    Op.MAX: max, Op.TRUNCDIV: quotient,
    Op.TRUNCMOD: lambda x, y: x - quotient(x, y) * y if y else 0,
}


@every_dtype
@pytest.mark.parametrize("op", ARITHMETIC)
def test_arithmetic_is_that_of_the_dtype(name, op):
    a, b = samples(name)
    found = computed(lambda x, y: x.alu(op, y), a, b, result=name)
    np.testing.assert_array_equal(found, exact(a, b, ARITHMETIC[op], name))


@every_dtype
@pytest.mark.parametrize("op", [Op.SHL, Op.SHR])
def test_shifts_take_the_count_modulo_the_width(name, op):
    a, b = samples(name)
    bits = np.iinfo(name).bits
    numpy = (lambda x, y: x << (y % bits)) if op is Op.SHL else lambda x, y: x >> (y % bits)
    found = computed(lambda x, y: x.alu(op, y), a, b, result=name)
    np.testing.assert_array_equal(found, exact(a, b, numpy, name))


@every_dtype
def test_comparisons_and_choice(name):
    a, b = samples(name)
    less = computed(lambda x, y: x < y, a, b, result=bool)
    np.testing.assert_array_equal(less, a < b)
    np.testing.assert_array_equal(computed(lambda x, y: x.eq(y), a, b, result=bool), a == b)
    np.testing.assert_array_equal(computed(lambda x, y: x.ne(y), a, b, result=bool), a != b)
    least = computed(lambda x, y: (x < y).where(x, y), a, b, result=name)
    np.testing.assert_array_equal(least, np.minimum(a, b))


@every_dtype
@pytest.mark.parametrize("new", [*NARROW, *WIDE, "int32", "uint32", "bool", "float32"])
def test_conversions(name, new):
    a, _ = samples(name)
    found = computed(lambda x: x.cast(getattr(dtypes, new)), a, result=new)
    np.testing.assert_array_equal(found, a.astype(new))


@every_dtype
def test_floats_become_integers_toward_zero(name):
    info = np.iinfo(name)
    x = np.array([0, -0.0, 0.5, -0.5, 1.5, -1.99, 127.5, 300, -300, 70000, 2**31, -2**31, 2**33,
                  2**40 + 2**20, -2**40, 2**62, 2**63, -2**63, 2**64, 1e30, -1e30, np.inf,
                  -np.inf, np.nan], np.float32)
    found = computed(lambda v: v.cast(getattr(dtypes, name)), x, result=name)
    limits = info if info.bits == 64 else np.iinfo(np.int32)
    whole = [0 if v != v else int(max(min(v, 1e30), -1e30)) for v in x.tolist()]
    kept = np.array([min(max(v, limits.min), limits.max) for v in whole], object)
    wanted = ((kept - info.min) % 2**info.bits + info.min).astype(name)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("name", WIDE)
def test_a_64_bit_integer_becomes_the_nearest_float(name):
    near = [(1 << k) + d for k in range(23, 63) for d in (-1, 0, 1, 1 << (k - 23), 1 << (k - 22))]
    ties = [(1 << k) + (1 << (k - 24)) + d for k in range(24, 63) for d in (-1, 0, 1)]
    a = np.array([*near, *ties], np.uint64).astype(name)
    np.testing.assert_array_equal(
        computed(lambda x: x.cast(dtypes.float32), a, result=np.float32), a.astype(np.float32))


@pytest.mark.parametrize("name", [*NARROW, "bool"])
@pytest.mark.parametrize("lanes", [1, 2, 4, 8])
def test_parts_of_words_are_written_beside_their_neighbours(name, lanes):
    draw = np.random.default_rng(1)
    a = draw.integers(0, 2, 32).astype(bool) if name == "bool" else samples(name)[0][:32]
    np.testing.assert_array_equal(computed(lambda x: x, a, result=name, lanes=lanes), a)


def test_whole_words_are_stored_and_parts_are_added():
    def accesses(lanes):
        out, x = (UOp.param(k, dtypes.uint8, (32,)) for k in (0, 1))
        outer, inner = UOp.range(32 // lanes, 0), UOp.range(lanes, 1, AxisType.LANE)
        i = outer * lanes + inner
        sink = UOp.sink(out.index(i).store(x.index(i).load() + 1).end(outer, inner),
                        info=KernelInfo("k", actions=()))
        items = pipeline.generate(sink, LACKING, EVERY_OP).src[1].src
        return [sum(n.op is op for n in items) for op in (Op.STORE, Op.ATOMIC_ADD)]

    assert accesses(8) == [2, 0]
    assert accesses(2) == [0, 2]


def test_an_odd_number_of_bytes_leaves_the_rest_of_the_last_word():
    held = np.full(8, 99, np.uint8)
    out, x = UOp.param(0, dtypes.uint8, (5,)), UOp.param(1, dtypes.uint8, (5,))
    i = UOp.range(5, 0)
    sink = UOp.sink(out.index(i).store(x.index(i).load() + 1).end(i),
                    info=KernelInfo("k", actions=()))
    program = pipeline.generate(sink, LACKING, EVERY_OP).src[1]
    run(program, [held.view(np.uint32), np.arange(8, dtype=np.uint8).view(np.uint32)])
    np.testing.assert_array_equal(held, [1, 2, 3, 4, 5, 99, 99, 99])


def test_float64_is_moved_but_not_computed():
    x = np.array([1.5, -0.0, np.inf, 5e-324])
    moved = computed(lambda v: v, x, result=np.float64)
    np.testing.assert_array_equal(moved.view(np.int64), x.view(np.int64))
    with pytest.raises(CompileError, match="does not compute in float64.*ADD"):
        computed(lambda v: v + v, x, result=np.float64)
    with pytest.raises(CompileError, match="CAST"):
        computed(lambda v: v.cast(dtypes.float32), x, result=np.float32)


def test_a_target_that_has_them_is_left_alone():
    i = UOp.range(8, 0)
    value = UOp.param(1, dtypes.int64, (8,)).index(i).load() + 1
    sink = UOp.sink(UOp.param(0, dtypes.int64, (8,)).index(i).store(value).end(i),
                    info=KernelInfo("k", actions=()))
    program = pipeline.generate(sink, TARGET, EVERY_OP).src[1]
    assert sum(n.op is Op.LOAD for n in program.src) == 1
