"""Programs rendered as LLVM IR, compiled and run on this machine, against numpy bit for bit."""

import ctypes
import struct
from importlib.util import find_spec

import numpy as np
import pytest

from core.codegen.linearize import linearize
from core.foundation.errors import CompileError
from core.ir import AddressSpace, AxisType, BufferSlot, CustomText, Op, UOp, dtypes
from core.render import render_llvm
from core.toolchain import compile_ir, host_machine, load_object

pytestmark = pytest.mark.skipif(
    find_spec("llvmlite") is None, reason="llvmlite comes with a device plugin; none is installed")

SIGNATURE = ctypes.CFUNCTYPE(
    None, ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
NUMPY = {d: np.dtype(d.name) for d in (
    dtypes.bool, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64, dtypes.uint8,
    dtypes.uint16, dtypes.uint32, dtypes.uint64, dtypes.float16, dtypes.float32, dtypes.float64)}


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


def register(number_of, dtype, size, space=AddressSpace.REG):
    return UOp(Op.BUFFER, (UOp.dims((size,)),), BufferSlot(number_of, dtype, None, space))


def same_bits(got, wanted):
    """Equal bit for bit, but any NaN equals any NaN."""
    assert got.dtype == wanted.dtype
    if got.dtype.kind == "f":
        got, wanted = (np.where(np.isnan(a), a.dtype.type(np.nan), a) for a in (got, wanted))
    kind = np.dtype(f"u{got.dtype.itemsize}")
    np.testing.assert_array_equal(got.view(kind), wanted.view(kind))


def special_values(dtype):
    """Some numbers of a dtype, as random bytes; no NaN among them."""
    noise = np.random.default_rng(7).integers(0, 100, 64 * NUMPY[dtype].itemsize, dtype=np.uint8)
    return noise < 50 if dtype.kind == "bool" else noise.view(NUMPY[dtype])


@pytest.mark.parametrize(("old", "new", "count"), [
    (dtypes.float32, dtypes.int32, 8), (dtypes.int64, dtypes.float64, 4),
    (dtypes.int32, dtypes.int64, 8), (dtypes.uint16, dtypes.uint64, 8),
    (dtypes.uint8, dtypes.float32, 16), (dtypes.bool, dtypes.uint8, 8),
])
def test_bitcast_keeps_the_bytes(old, new, count):
    values = special_values(old)[:count].copy()
    size = count * old.itemsize // new.itemsize
    output = np.zeros(size, NUMPY[new])
    a, b = UOp.param(0, new, (size,)), UOp.param(1, old, (count,))
    value = vector(b, number(0), count).load().bitcast(new)
    run(UOp.sink(vector(a, number(0), size).store(value)), output, values)
    assert output.tobytes() == values.tobytes()


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.int64, dtypes.uint8, dtypes.bool],
                         ids=lambda d: d.name)
@pytest.mark.parametrize("lanes", [0, 8])
def test_gated_copy_touches_nothing_beyond(dtype, lanes):
    """out[i] = i < 13 ? x[i] : 0 for i < 16 and stores only where i < 13; x ends at a page that
    cannot be read, if the load is not gated."""
    count = 13
    values = special_values(dtype)[:count].copy()
    output = np.ones(16, NUMPY[dtype])
    a, b = UOp.param(0, dtype, (16,)), UOp.param(1, dtype, (1 << 40,))
    far = 1 << 36  # lanes that are gated off read from here
    if lanes:
        r = loop(2)
        index = UOp.stack(*(r * 8 + k for k in range(8)))
        place, gate = vector(a, r * 8, 8), index < number(count)
        where = gate.where(index, index + far)
        read = UOp(Op.LOAD, (b.index(where), gate))
        masked = UOp(Op.LOAD, (vector(b, r * 8, 8), gate))
        both = gate.where(read, masked)
        run(UOp.sink(UOp(Op.STORE, (place, both, gate)).end(r)), output, values)
    else:
        r = loop(16)
        gate = r < number(count)
        read = UOp(Op.LOAD, (b.index(gate.where(r, r + far)), gate))
        run(UOp.sink(UOp(Op.STORE, (a.index(r), read, gate)).end(r)), output, values)
    same_bits(output[:count], values)
    same_bits(output[count:], np.ones(3, NUMPY[dtype]))


def test_gated_off_loads_give_zero():
    output, values = np.ones(24, np.float32), np.arange(1, 25, dtype=np.float32)
    a, b = (UOp.param(k, dtypes.float32, (24,)) for k in (0, 1))
    closed = loop(1) < 0
    lanes = UOp.stack(*(UOp.const(k % 2 == 0, dtypes.bool) for k in range(8)))
    scattered = UOp.stack(*(number(7 - k) for k in range(8)))
    effects = [
        vector(a, number(0), 8).store(UOp(Op.LOAD, (vector(b, number(0), 8), closed))),
        vector(a, number(8), 8).store(UOp(Op.LOAD, (vector(b, number(8), 8), lanes))),
        vector(a, number(16), 8).store(UOp(Op.LOAD, (b.index(scattered), lanes))),
    ]
    run(UOp.sink(UOp.group(*effects).end(closed.src[0])), output, values)
    np.testing.assert_array_equal(output[:8], np.zeros(8))
    np.testing.assert_array_equal(output[8:16], np.where(np.arange(8) % 2, 0, values[8:16]))
    np.testing.assert_array_equal(output[16:], np.where(np.arange(8) % 2, 0, values[:8][::-1]))


def test_scatter_with_and_without_gates():
    output, values = np.zeros(32, np.int32), np.arange(1, 9, dtype=np.int32)
    a, b = UOp.param(0, dtypes.int32, (32,)), UOp.param(1, dtypes.int32, (8,))
    value = vector(b, number(0), 8).load()
    lanes = UOp.stack(*(UOp.const(k < 3, dtypes.bool) for k in range(8)))
    index = value.cast(dtypes.int64) * 2 - 1
    first = a.index(index).store(value)
    second = UOp(Op.STORE, (a.after(first).index(index), value * 10, lanes))
    run(UOp.sink(second), output, values)
    wanted = np.zeros(32, np.int32)
    wanted[1:16:2] = np.where(np.arange(8) < 3, values * 10, values)
    np.testing.assert_array_equal(output, wanted)


@pytest.mark.parametrize("op", [Op.ADD, Op.MUL, Op.MAX])
@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 12, 16])
def test_horizontal_reduction(op, count):
    values = np.random.default_rng(1).integers(-9, 9, count).astype(np.int32)
    output = np.zeros(1, np.int32)
    a, b = UOp.param(0, dtypes.int32, (1,)), UOp.param(1, dtypes.int32, (count,))
    value = vector(b, number(0), count).load().reduce(op, axes=1)
    run(UOp.sink(a.index(number(0)).store(value)), output, values)
    wanted = {Op.ADD: np.sum, Op.MUL: np.prod, Op.MAX: np.max}[op](values)
    assert output[0] == np.int32(wanted)


def test_sum_of_rows_with_an_accumulator():
    values = np.random.default_rng(2).standard_normal((5, 64)).astype(np.float32)
    output = np.zeros(5, np.float32)
    a, b = UOp.param(0, dtypes.float32, (5,)), UOp.param(1, dtypes.float32, (320,))
    row, k = loop(5, 0), loop(8, 1)
    storage = register(0, dtypes.float32, 8)
    start = vector(storage.after(row), number(0), 8).store(UOp.const(0.0, dtypes.float32))
    place = vector(storage.after(start, k), number(0), 8)
    step = place.store(place.load() + vector(b, row * 64 + k * 8, 8).load()).end(k)
    total = vector(storage.after(step), number(0), 8).load().reduce(Op.ADD, axes=1)
    run(UOp.sink(a.index(row).store(total).end(row)), output, values)
    wanted = np.zeros((5, 8), np.float32)
    for part in range(8):
        wanted += values[:, part * 8:part * 8 + 8]
    while wanted.shape[1] > 1:
        half = wanted.shape[1] // 2
        wanted = wanted[:, :half] + wanted[:, half:]
    same_bits(output, np.ascontiguousarray(wanted[:, 0]))


def test_register_tile_of_a_product():
    """2 x 2 vectors of fused multiply-adds, every operand row spread over the lanes."""
    rng = np.random.default_rng(3)
    x, y = rng.standard_normal((2, 32)), rng.standard_normal((32, 16))
    x, y, output = x.astype(np.float32), y.astype(np.float32), np.zeros((2, 16), np.float32)
    c, a, b = (UOp.param(k, dtypes.float32, (v.size,)) for k, v in enumerate((output, x, y)))
    k, storage = loop(32), register(0, dtypes.float32, 32)
    tile = [(i, j) for i in range(2) for j in range(2)]
    start = UOp.group(*(
        vector(storage, number(16 * i + 8 * j), 8).store(UOp.const(0.0, dtypes.float32))
        for i, j in tile))
    steps = []
    for i, j in tile:
        place = vector(storage.after(start, k), number(16 * i + 8 * j), 8)
        row, column = a.index(k + 32 * i).load(), vector(b, k * 16 + 8 * j, 8).load()
        steps.append(place.store(row.alu(Op.MULACC, column, place.load())))
    done = UOp.group(*steps).end(k)
    stores = [
        vector(c, number(16 * i + 8 * j), 8).store(
            vector(storage.after(done), number(16 * i + 8 * j), 8).load()) for i, j in tile]
    run(UOp.sink(*stores), output, x, y)
    wanted = np.zeros((2, 16))
    for step in range(32):  # a product of floats is exact in double, the sum rounds once or twice
        product = np.outer(x[:, step].astype(np.float64), y[step])
        wanted = (wanted + product).astype(np.float32).astype(np.float64)
    np.testing.assert_allclose(output, wanted, rtol=1e-6)


def test_scratch_memory_and_bool_arrays():
    output, values = np.zeros(64, np.float32), np.arange(64, dtype=np.float32)
    a, b = (UOp.param(k, dtypes.float32, (64,)) for k in (0, 1))
    i, j = loop(64, 0), loop(64, 1)
    scratch = register(0, dtypes.float32, 64, AddressSpace.LOCAL)
    flags = register(1, dtypes.bool, 64, AddressSpace.LOCAL)
    value = b.index(i).load()
    fill = UOp.group(scratch.index(i).store(value * 2.0),
                     flags.index(i).store(value < 32.0)).end(i)
    back = number(63) - j
    flag = flags.after(fill).index(back).load()
    result = flag.where(scratch.after(fill).index(back).load(), -1.0)
    run(UOp.sink(a.index(j).store(result).end(j)), output, values)
    np.testing.assert_array_equal(output, np.where(values < 32, 2 * values, -1)[::-1])


def test_threaded_loop_runs_the_part_it_is_given():
    output = np.zeros(16, np.int32)
    a = UOp.param(0, dtypes.int32, (16,))
    for dtype in (dtypes.int32, dtypes.int64):
        output[:] = 0
        r = loop(16, 0, AxisType.THREAD, dtype)
        sink = UOp.sink(a.index(r).store(r.cast(dtypes.int32) + 1).end(r))
        run(sink, output, items=(3, 7))
        np.testing.assert_array_equal(output, [0] * 3 + [4, 5, 6, 7] + [0] * 9)
        run(sink, output, items=(5, 5))
        assert output[7] == 0


def test_scalars_follow_the_buffers():
    output = np.zeros(6, np.float64)
    a = UOp.param(0, dtypes.float64, (6,))
    scalars = [UOp.param(k + 1, dtype, (), space=AddressSpace.ALU) for k, dtype in enumerate(
        (dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64, dtypes.uint8, dtypes.bool))]
    values = [-5, 1 << 40, 0.1, 0.1, 200, 1]
    stores = [a.index(number(k)).store(s.cast(dtypes.float64)) for k, s in enumerate(scalars)]
    run(UOp.sink(*stores), output, scalars=values)
    assert output.tolist() == [-5, 1 << 40, float(np.float32(0.1)), 0.1, 200, 1]


@pytest.mark.parametrize("bound", [0, 1, 5])
def test_a_loop_with_a_symbolic_bound(bound):
    output = np.zeros(8, np.int32)
    a = UOp.param(0, dtypes.int32, (8,))
    size = UOp.param(1, dtypes.int64, (), space=AddressSpace.ALU)
    r = UOp.range(size, 0)
    run(UOp.sink(a.index(r).store(UOp.const(1, dtypes.int32)).end(r)), output, scalars=[bound])
    np.testing.assert_array_equal(output, np.arange(8) < bound)


def test_a_scalar_is_spread_where_it_is_defined():
    """Defined outside of two loops and used as a vector in both."""
    output = np.zeros(32, np.float32)
    a = UOp.param(0, dtypes.float32, (32,))
    factor = UOp.param(1, dtypes.float32, (), space=AddressSpace.ALU) * 2.0
    effects = []
    for k in range(2):
        r = loop(2, k)
        place = vector(a, r * 8 + 16 * k, 8)
        effects.append(place.store(factor + UOp.stack(
            *(UOp.const(float(n), dtypes.float32) for n in range(8)))).end(r))
    run(UOp.sink(*effects), output, scalars=[1.5])
    np.testing.assert_array_equal(output, np.tile(np.arange(8) + 3, 4).astype(np.float32))


def test_lanes_custom_text_conditions_and_stream():
    output = np.zeros(24, np.float32)
    base = (-output.ctypes.data // 4) % 8
    output = output[base:base + 16]
    a = UOp.param(0, dtypes.float32, (16,))
    values = UOp.stack(*(UOp.const(float(k), dtypes.float32) for k in range(8)))
    text = CustomText("fadd <8 x float> {0}, {1}", dtypes.float32)
    twice = UOp(Op.CUSTOMI, (values, values), text)
    lane = twice.index(number(3))
    stream = UOp(Op.STORE, (vector(a, number(0), 8), twice), "stream")
    items = [*linearize(UOp.sink(stream, lane)).src]
    gate = UOp(Op.IF, (lane < 0.0,))
    skipped = vector(a, number(8), 8)
    other = skipped.store(twice)
    condition = lane < 0.0
    linear = UOp(Op.LINEAR, (
        *items, condition.src[1], condition, gate, skipped, other, UOp(Op.ENDIF, (gate,)),
        a.index(number(15)), a.index(number(15)).store(lane)))
    source = render_llvm("kernel", linear)
    assert "!nontemporal" in source
    run(linear, output)
    np.testing.assert_array_equal(output, [*range(0, 16, 2), *[0] * 7, 6])


def test_what_has_no_form_is_refused():
    a = UOp.param(0, dtypes.float32, (4,))
    sine = a.index(number(0)).load().alu(Op.SIN)
    with pytest.raises(CompileError, match="SIN"):
        render_llvm("kernel", linearize(UOp.sink(a.index(number(0)).store(sine))))
    small = UOp.param(0, dtypes.bfloat16, (4,))
    with pytest.raises(CompileError, match="bfloat16"):
        render_llvm("kernel", linearize(UOp.sink(
            small.index(number(0)).store(small.index(number(1)).load()))))
