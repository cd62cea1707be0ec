"""Elementwise operations as LLVM IR, run on this machine, against numpy bit for bit."""

import ctypes
import struct
from importlib.util import find_spec

import numpy as np
import pytest

from core.codegen.linearize import linearize
from core.ir import AxisType, Op, Reduction, UOp, dtypes
from core.render import code_for_op, render_llvm
from core.toolchain import (
    Machine,
    assembly,
    compile_ir,
    host_machine,
    load_object,
    target_of,
)

pytestmark = pytest.mark.skipif(
    find_spec("llvmlite") is None, reason="llvmlite comes with a device plugin; none is installed")

SIGNATURE = ctypes.CFUNCTYPE(
    None, ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
NUMPY = {d: np.dtype(d.name) for d in (
    dtypes.bool, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64, dtypes.uint8,
    dtypes.uint16, dtypes.uint32, dtypes.uint64, dtypes.float16, dtypes.float32, dtypes.float64)}
INTEGERS = [d for d in NUMPY if d.is_machine_integer]
FLOATS = [dtypes.float16, dtypes.float32, dtypes.float64]


def run(sink, *arrays, scalars=(), items=None):
    """Compile and run a kernel on arrays (in order of PARAM slots) in place."""
    program = linearize(sink) if sink.op is Op.SINK else sink
    source = render_llvm("kernel", program)
    loaded = load_object(compile_ir([source], host_machine())[0], "kernel")
    slots = struct.pack(f"{len(arrays)}Q", *[a.ctypes.data for a in arrays])
    for value in scalars:
        slots += struct.pack("d" if isinstance(value, float) else "q", value)
    first, end = items or (0, 1)
    SIGNATURE(loaded.addresses["kernel"])(slots, first, end, 0)
    return arrays[0]


def number(value, dtype=dtypes.int64):
    return UOp.const(value, dtype)


def loop(bound, number_of=0, kind=AxisType.LOOP, dtype=dtypes.int64):
    return UOp.range(number(bound, dtype), number_of, kind)


def vector(storage, index, count):
    return storage.shrink((index,), (count,))


def same_bits(got, wanted):
    """Equal bit for bit, but any NaN equals any NaN."""
    assert got.dtype == wanted.dtype
    if got.dtype.kind == "f":
        got, wanted = (np.where(np.isnan(a), a.dtype.type(np.nan), a) for a in (got, wanted))
    kind = np.dtype(f"u{got.dtype.itemsize}")
    np.testing.assert_array_equal(got.view(kind), wanted.view(kind))


def special_values(dtype):
    """Numbers at the edges of a dtype, then random bits."""
    random, kind = np.random.default_rng(7), NUMPY[dtype]
    if dtype.kind == "bool":
        return np.array([False, True] * 40)
    if dtype.is_float:
        info = np.finfo(kind)
        edges = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, np.inf, -np.inf, np.nan, info.max,
                 info.min, info.tiny, info.smallest_subnormal, -info.smallest_subnormal, 127.5,
                 128, 255.5, 256, 32767.5, 32768, 65535, 65536, 2**31, -(2**31), 2**31 - 64,
                 2**32, 2**32 - 256, 2**53, 2**63, -(2**63), 2**64, 1e10, 1e-10, -3.7, 3.7]
        with np.errstate(over="ignore"):
            edges = np.array(edges).astype(kind)
        noise = random.integers(0, 256, 83 * kind.itemsize, dtype=np.uint8).view(kind)
        return np.concatenate([edges, noise])
    info = np.iinfo(kind)
    edges = [v for v in (0, 1, -1, 2, -2, 3, 7, info.min, info.min + 1, info.max, info.max - 1)
             if info.min <= v <= info.max]
    noise = random.integers(0, 256, 69 * kind.itemsize, dtype=np.uint8).view(kind)
    return np.concatenate([np.array(edges, kind), noise])


def pairs(dtype):
    """Every pair of special values, as two arrays whose length is a multiple of 8."""
    values = special_values(dtype)
    a, b = np.repeat(values, len(values)), np.tile(values, len(values))
    keep = len(a) // 8 * 8
    return np.ascontiguousarray(a[:keep]), np.ascontiguousarray(b[:keep])


def mapped(function, result, *inputs, lanes):
    """A kernel that applies a function to each element, on scalars or vectors."""
    count = len(inputs[0])
    dtype_of = {v: k for k, v in NUMPY.items()}
    output = np.zeros(count, NUMPY[result])
    params = [UOp.param(k, dtype_of[a.dtype], (count,)) for k, a in enumerate((output, *inputs))]
    if lanes:
        r = loop(count // lanes)
        places = [vector(p, r * lanes, lanes) for p in params]
    else:
        r = loop(count)
        places = [p.index(r) for p in params]
    value = function(*[p.load() for p in places[1:]])
    run(UOp.sink(places[0].store(value).end(r)), output, *inputs)
    return output


@pytest.mark.parametrize("lanes", [0, 8])
@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda d: d.name)
def test_integers_wrap(dtype, lanes):
    a, b = pairs(dtype)
    for op, function in {
        Op.ADD: np.add, Op.SUB: np.subtract, Op.MUL: np.multiply, Op.MAX: np.maximum,
        Op.AND: np.bitwise_and, Op.OR: np.bitwise_or, Op.XOR: np.bitwise_xor,
    }.items():
        got = mapped(lambda x, y, op=op: x.alu(op, y), dtype, a, b, lanes=lanes)
        same_bits(got, function(a, b))
    shifts = (b & b.dtype.type(dtype.bits - 1)).astype(b.dtype)
    same_bits(mapped(lambda x, y: x << y, dtype, a, b, lanes=lanes), np.left_shift(a, shifts))
    same_bits(mapped(lambda x, y: x >> y, dtype, a, b, lanes=lanes), np.right_shift(a, shifts))
    same_bits(mapped(lambda x, y: -x, dtype, a, b, lanes=lanes), np.negative(a))


def divided(a, b):
    """(quotient toward zero, remainder), 0 where b is 0, in Python's integers."""
    low, size = int(np.iinfo(a.dtype).min), 1 << (8 * a.dtype.itemsize)
    quotients, remainders = [], []
    for x, y in zip(a.tolist(), b.tolist(), strict=True):
        quotient = 0 if y == 0 else abs(x) // abs(y) * (-1 if (x < 0) != (y < 0) else 1)
        quotients.append((quotient - low) % size + low)
        remainders.append(0 if y == 0 else x - quotient * y)
    return np.array(quotients, a.dtype), np.array(remainders, a.dtype)


@pytest.mark.parametrize("lanes", [0, 8])
@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda d: d.name)
def test_division_is_total(dtype, lanes):
    a, b = pairs(dtype)
    quotient, remainder = divided(a, b)
    same_bits(mapped(lambda x, y: x.alu(Op.TRUNCDIV, y), dtype, a, b, lanes=lanes), quotient)
    same_bits(mapped(lambda x, y: x.alu(Op.TRUNCMOD, y), dtype, a, b, lanes=lanes), remainder)
    for divisor in (1, 3, int(dtype.maximum), *([-1, int(dtype.minimum)] * dtype.is_signed)):
        quotient, remainder = divided(a, np.full_like(a, divisor))
        got = mapped(lambda x, d=divisor: x.alu(Op.TRUNCDIV, d), dtype, a, lanes=lanes)
        same_bits(got, quotient)
        got = mapped(lambda x, d=divisor: x.alu(Op.TRUNCMOD, d), dtype, a, lanes=lanes)
        same_bits(got, remainder)


@pytest.mark.parametrize("lanes", [0, 8])
@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
def test_floats_are_those_of_ieee(dtype, lanes):
    a, b = pairs(dtype)
    kind = NUMPY[dtype]
    with np.errstate(all="ignore"):
        for op, function in {
            Op.ADD: np.add, Op.SUB: np.subtract, Op.MUL: np.multiply, Op.FDIV: np.divide,
        }.items():
            got = mapped(lambda x, y, op=op: x.alu(op, y), dtype, a, b, lanes=lanes)
            same_bits(got, function(a, b))
        for op, wanted in {
            Op.SQRT: np.sqrt(a), Op.TRUNC: np.trunc(a), Op.NEG: -a,
            Op.RECIPROCAL: np.divide(kind.type(1), a),
        }.items():
            same_bits(mapped(lambda x, op=op: x.alu(op), dtype, a, lanes=lanes), wanted)
    larger = np.where(a == b, np.where(np.signbit(a), b, a), np.maximum(a, b))
    same_bits(mapped(lambda x, y: x.maximum(y), dtype, a, b, lanes=lanes), larger)


@pytest.mark.parametrize("lanes", [0, 8])
@pytest.mark.parametrize("dtype", NUMPY, ids=lambda d: d.name)
def test_comparison_and_choice(dtype, lanes):
    a, b = pairs(dtype)
    for op, function in {
        Op.CMPLT: np.less, Op.CMPNE: np.not_equal, Op.CMPEQ: np.equal,
    }.items():
        got = mapped(lambda x, y, op=op: x.alu(op, y), dtypes.bool, a, b, lanes=lanes)
        same_bits(got, function(a, b))
    got = mapped(lambda x, y: (x < y).where(x, y), dtype, a, b, lanes=lanes)
    same_bits(got, np.where(a < b, a, b))


@pytest.mark.parametrize("lanes", [0, 8])
def test_bools_are_logical(lanes):
    a, b = pairs(dtypes.bool)
    for op, wanted in {
        Op.AND: a & b, Op.OR: a | b, Op.XOR: a ^ b, Op.MAX: a | b, Op.ADD: a | b, Op.MUL: a & b,
    }.items():
        got = mapped(lambda x, y, op=op: x.alu(op, y), dtypes.bool, a, b, lanes=lanes)
        same_bits(got, wanted)


def converted(values, target):
    """DESIGN 2, Numbers: what a CAST gives."""
    kind = NUMPY[target]
    with np.errstate(all="ignore"):
        if values.dtype.kind != "f" or target.is_float:
            return values.astype(kind)
        if target.kind == "bool":
            return values != 0
        through = target if target.bits >= 32 else dtypes.int32
        low, high = int(through.minimum), int(through.maximum)
        numbers = [0 if v != v else low if v <= low else high if v >= high else int(v)
                   for v in values.tolist()]
        return np.array(numbers, NUMPY[through]).astype(kind)


@pytest.mark.parametrize("lanes", [0, 8])
@pytest.mark.parametrize("old", NUMPY, ids=lambda d: d.name)
def test_casts(old, lanes):
    values = special_values(old)
    values = np.ascontiguousarray(values[:len(values) // 8 * 8])
    for new in NUMPY:
        got = mapped(lambda x, new=new: x.cast(new), new, values, lanes=lanes)
        same_bits(got, converted(values, new))


def test_float64_rounds_to_float16_once():
    halves = np.arange(0, 0x7C00, dtype=np.uint16).view(np.float16).astype(np.float64)
    middle = (halves[1:] + halves[:-1]) / 2
    values = np.concatenate([
        middle, np.nextafter(middle, np.inf), np.nextafter(middle, 0), -middle, [65520, 1e300]])
    values = np.ascontiguousarray(values[:len(values) // 8 * 8])
    got = mapped(lambda x: x.cast(dtypes.float16), dtypes.float16, values, lanes=8)
    with np.errstate(over="ignore"):
        same_bits(got, values.astype(np.float16))


@pytest.mark.parametrize("lanes", [0, 8])
def test_a_product_is_never_contracted_and_mulacc_is(lanes):
    a = np.full(8, 1 + 2.0**-12, np.float32)
    c = np.full(8, -1.0, np.float32)
    separate = mapped(lambda x, y: x * x + y, dtypes.float32, a, c, lanes=lanes)
    fused = mapped(lambda x, y: x.alu(Op.MULACC, x, y), dtypes.float32, a, c, lanes=lanes)
    same_bits(separate, a * a + c)
    exact = (a.astype(np.float64) * a + c).astype(np.float32)
    same_bits(fused, exact)
    assert (separate != fused).all()


def test_what_a_processor_lacks_is_not_offered():
    assert Op.MULACC in code_for_op()
    assert Op.MULACC not in code_for_op(fma=False)
    assert Op.TRUNC not in code_for_op(rounding=False)
    assert Op.SIN not in code_for_op()


OTHERS = [
    Machine("aarch64-unknown-linux-gnu", "cortex-a72"),
    Machine("x86_64-unknown-linux-gnu", "x86-64-v4", "-prefer-256-bit"),
    Machine("x86_64-unknown-linux-gnu", "x86-64-v2"),
]


@pytest.mark.parametrize("machine", OTHERS, ids=lambda m: m.cpu)
@pytest.mark.parametrize("lanes", [0, 4, 16])
def test_every_operation_compiles_for_other_processors(machine, lanes):
    """One program with all ops in all dtypes: no library function may be left over."""
    supported = target_of(machine).dtypes
    kinds = [d for d in NUMPY if d in supported]
    ops = code_for_op(fma=machine.has_fma, rounding=machine.has_rounding)
    effects = []
    params = {d: UOp.param(k, d, (64,)) for k, d in enumerate(kinds)}
    places = {d: vector(p, number(0), lanes) if lanes else p.index(number(0))
              for d, p in params.items()}
    for dtype, place in places.items():
        x = place.load()
        binary = {Op.ADD, Op.SUB, Op.MUL, Op.MAX} if dtype.kind != "bool" else {Op.AND, Op.MAX}
        if dtype.is_machine_integer:
            binary |= {Op.TRUNCDIV, Op.TRUNCMOD, Op.SHL, Op.SHR, Op.XOR}
        if dtype.is_float:
            binary |= {Op.FDIV}
            effects += [place.store(x.alu(op)) for op in (Op.SQRT, Op.TRUNC, Op.NEG) if op in ops]
        if dtype.is_float and Op.MULACC in ops and dtype is not dtypes.float16:
            effects.append(place.store(x.alu(Op.MULACC, x, x)))
        effects += [place.store(x.alu(op, x)) for op in binary & ops]
        effects += [places[new].store(x.cast(new)) for new in kinds]
        effects.append(UOp(Op.STORE, (place, x, x.eq(x))))
    source = render_llvm("kernel", linearize(UOp.sink(*effects)))
    assert compile_ir([source], machine)[0]
    assert "kernel:" in assembly(source, machine)


def test_a_sum_of_products_of_bools():
    """With VNNI, LLVM made an instruction of this that loses terms."""
    generator = np.random.default_rng(0)
    a, b = (generator.integers(0, 2, (9, 16)).astype(np.float32) for _ in range(2))
    out, x, y = (UOp.param(k, d, (n,)) for k, (d, n) in enumerate(
        [(dtypes.int32, 9), (dtypes.float32, 144), (dtypes.float32, 144)]))
    r, zero = loop(9), UOp.const(0.0, dtypes.float32)
    first, second = (vector(p, r * 16, 16).load().ne(zero).cast(dtypes.int32) for p in (x, y))
    total = UOp(Op.REDUCE, (first * second,), Reduction(Op.ADD, 1))
    found = run(UOp.sink(out.index(r).store(total).end(r)), np.zeros(9, np.int32), a.ravel(),
                b.ravel())
    np.testing.assert_array_equal(found, (a * b).sum(1))
