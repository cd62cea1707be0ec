"""Programs printed as C, compiled by the system's compiler, against core.reference bit for bit."""

import ctypes
import shutil
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from core.codegen.linearize import linearize
from core.foundation.errors import CompileError
from core.ir import AddressSpace, AxisType, BufferSlot, CustomText, Op, UOp, dtypes
from core.reference.formats import STORED
from core.reference.run import run as run_reference
from core.render import PLAIN_C, c_code_for_op, pack_arguments, render_c

COMPILER = shutil.which("cc")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler is installed")

#: Plain C as it is, and without vector types: every lane is a variable.
DIALECTS = {"vectors": PLAIN_C, "variables": replace(PLAIN_C, vectors=None)}
OPTIONS = ("-O1", "-shared", "-fPIC", "-march=native", *PLAIN_C.flags, "-Wall", "-Wextra",
           "-Werror", "-Wno-unused", "-Wno-unused-parameter", "-Wno-psabi", "-Wno-div-by-zero")
INTEGERS = [d for d in PLAIN_C.types if d.is_machine_integer]
MACROS = COMPILER and subprocess.run(
    [COMPILER, "-dM", "-E", "-x", "c", "-"], input="", capture_output=True, text=True,
    check=True).stdout
HALF = [dtypes.float16] if COMPILER and "__FLT16_MAX__" in MACROS else []
FLOATS = [*HALF, dtypes.float32, dtypes.float64]


@pytest.fixture(params=DIALECTS)
def dialect(request):
    return DIALECTS[request.param]


def compiled(texts, options=()):
    """One shared object of all the texts."""
    source = "\n".join(texts)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.so")
        done = subprocess.run(
            [COMPILER, *OPTIONS, *options, "-x", "c", "-", "-o", path, "-lm"], input=source,
            capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{done.stderr}\n{source}"
        return ctypes.CDLL(str(path))


def call(function, arrays, scalars=(), items=(0, 1)):
    slots = pack_arguments([a.ctypes.data for a in arrays], scalars)
    function(slots, *map(ctypes.c_int64, (*items, 0)))


def check(kernel, dialect, *arrays, scalars=(), items=None):
    """Run a kernel both ways on copies of the arrays; returns what it wrote into the first.

    With `items`, a part of its threaded loop: that cannot be compared.
    """
    linear = linearize(kernel) if kernel.op is Op.SINK else kernel
    function = compiled([render_c("kernel", linear, dialect)]).kernel
    mine, wanted = ([a.copy() for a in arrays] for _ in range(2))
    call(function, mine, scalars, items or (0, 1))
    run_reference(linear, wanted, scalars)
    for a, b in zip(mine, wanted, strict=True):
        if items is None:
            same_bits(a, b)
    return mine[0]


def same_bits(got, wanted):
    """Equal bit for bit, but any NaN equals any NaN."""
    assert got.dtype == wanted.dtype
    if got.dtype.kind == "f":
        got, wanted = (np.where(np.isnan(a), a.dtype.type(np.nan), a) for a in (got, wanted))
    kind = np.dtype(f"u{got.dtype.itemsize}")
    np.testing.assert_array_equal(got.view(kind), wanted.view(kind))


def number(value, dtype=dtypes.int64):
    return UOp.const(value, dtype)


def loop(bound, number_of=0, kind=AxisType.LOOP, dtype=dtypes.int64):
    return UOp.range(number(bound, dtype), number_of, kind)


def vector(storage, index, count):
    return storage.shrink((index,), (count,))


def private(number_of, dtype, size, space=AddressSpace.REG):
    return UOp(Op.BUFFER, (UOp.dims((size,)),), BufferSlot(number_of, dtype, None, space))


def special_values(dtype):
    """Numbers at the edges of a dtype, then random bits."""
    random, kind = np.random.default_rng(7), STORED[dtype]
    if dtype.kind == "bool":
        return np.array([False, True] * 8)
    noise = random.integers(0, 256, 23 * kind.itemsize, dtype=np.uint8).view(kind)
    if not dtype.is_float:
        info = np.iinfo(kind)
        edges = [v for v in (0, 1, -1, 2, -2, 7, info.min, info.min + 1, info.max, info.max - 1)
                 if info.min <= v <= info.max]
        return np.concatenate([np.array(edges, kind), noise])
    info = np.finfo(kind)
    edges = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, np.inf, -np.inf, np.nan, info.max, info.min,
             info.tiny, info.smallest_subnormal, -info.smallest_subnormal, 127.5, -129, 255.5,
             65535, 65536, 2**31, -(2**31), 2**31 - 64, 2**32, 2**63, -(2**63), 2**64, -3.7]
    with np.errstate(over="ignore"):
        return np.concatenate([np.array(edges).astype(kind), noise])


def pairs(dtype):
    """Every pair of special values, as arrays whose length is a multiple of 24."""
    values = special_values(dtype)
    a, b = np.repeat(values, len(values)), np.tile(values, len(values))
    keep = len(a) // 24 * 24
    return np.ascontiguousarray(a[:keep]), np.ascontiguousarray(b[:keep])


def mapped(function, result, *sources, count, lanes):
    """A kernel that applies a function to each element, on scalars or vectors."""
    params = [UOp.param(k, d, (count,)) for k, d in enumerate((result, *sources))]
    r = loop(count // max(lanes, 1))
    places = [vector(p, r * lanes, lanes) if lanes else p.index(r) for p in params]
    value = function(*[p.load() for p in places[1:]])
    return UOp.sink(places[0].store(value).end(r))


def check_functions(cases, arrays, dialect):
    """Kernels of many functions, compiled at once: (name, function, dtype of the result).

    On scalars and on vectors; where all lanes are variables, on as many as make no vector.
    """
    source = next(d for d, kind in STORED.items() if kind == arrays[0].dtype)
    kernels = []
    for name, function, result in cases:
        taken = arrays[:function.__code__.co_argcount - len(function.__defaults__ or ())]
        for lanes in (0, 8) if dialect.vectors else (3,):
            linear = linearize(mapped(
                function, result, *[source] * len(taken), count=len(arrays[0]), lanes=lanes))
            kernels.append((f"{name} of {lanes} lanes", linear, result, taken))
    library = compiled([
        render_c(f"k{k}", linear, dialect) for k, (_, linear, _, _) in enumerate(kernels)])
    for k, (name, linear, result, taken) in enumerate(kernels):
        mine, wanted = (np.zeros(len(arrays[0]), STORED[result]) for _ in range(2))
        call(library[f"k{k}"], [mine, *taken])
        run_reference(linear, [wanted, *taken])
        try:
            same_bits(mine, wanted)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from None


@pytest.mark.parametrize("dtype", [dtypes.bool, *INTEGERS, *FLOATS], ids=lambda d: d.name)
def test_arithmetic(dtype, dialect):
    operations = [Op.ADD, Op.MUL, Op.MAX, Op.CMPLT, Op.CMPNE, Op.CMPEQ]
    if dtype.is_float:
        operations += [Op.SUB, Op.FDIV]
    else:
        operations += [Op.AND, Op.OR, Op.XOR]
    if dtype.is_machine_integer:
        operations += [Op.SUB, Op.TRUNCDIV, Op.TRUNCMOD, Op.SHL, Op.SHR]
    compare = (Op.CMPLT, Op.CMPNE, Op.CMPEQ)
    cases = [(op, lambda a, b, op=op: a.alu(op, b), dtypes.bool if op in compare else dtype)
             for op in operations]
    cases.append(("where", lambda a, b: (a < b).where(b, a), dtype))
    if dtype.is_float:
        cases += [(op, lambda a, op=op: a.alu(op), dtype)
                  for op in (Op.NEG, Op.SQRT, Op.TRUNC, Op.RECIPROCAL)]
        cases.append(("no contraction", lambda a, b: a * b + a, dtype))
    elif dtype.is_machine_integer:
        cases.append((Op.NEG, lambda a: a.alu(Op.NEG), dtype))
        cases.append(("by a constant", lambda a: a.alu(Op.TRUNCDIV, number(-1, dtype)).alu(
            Op.SHL, number(3, dtype)).alu(Op.SHR, number(2, dtype)), dtype))
        cases.append(("guarded", lambda a, b: a.alu(
            Op.TRUNCDIV, b.alu(Op.CMPLT, number(2, dtype)).where(number(1, dtype), b)), dtype))
    check_functions(cases, pairs(dtype), dialect)


@pytest.mark.parametrize("old", [dtypes.bool, *INTEGERS, *FLOATS], ids=lambda d: d.name)
def test_conversions(old, dialect):
    values = special_values(old)
    cases = [(new.name, lambda a, new=new: a.cast(new), new)
             for new in (dtypes.bool, *INTEGERS, *FLOATS)]
    check_functions(cases, [np.tile(values, 24)], dialect)


@pytest.mark.parametrize("dtype", [dtypes.bool, *INTEGERS, *FLOATS], ids=lambda d: d.name)
def test_constants(dtype):
    values = special_values(dtype).tolist()
    a = UOp.param(0, dtype, (len(values),))
    stores = [a.index(number(k)).store(UOp.const(v, dtype)) for k, v in enumerate(values)]
    output = check(UOp.sink(*stores), PLAIN_C, np.zeros(len(values), STORED[dtype]))
    same_bits(output, special_values(dtype))


def test_a_fused_multiply_add_rounds_once():
    assert Op.MULACC in c_code_for_op(fma=True)
    assert Op.MULACC not in c_code_for_op()
    for dtype in (dtypes.float32, dtypes.float64, dtypes.int32):
        a, b = pairs(dtype)
        check_functions([("mulacc", lambda x, y: x.alu(Op.MULACC, y, x), dtype)], (a, b), PLAIN_C)


@pytest.mark.parametrize(("old", "new", "count"), [
    (dtypes.float32, dtypes.int32, 8), (dtypes.int64, dtypes.float64, 4),
    (dtypes.int32, dtypes.int64, 8), (dtypes.uint16, dtypes.uint64, 8),
    (dtypes.uint8, dtypes.float32, 16), (dtypes.bool, dtypes.uint8, 8),
    *((half, dtypes.uint16, 8) for half in HALF), (dtypes.uint64, dtypes.uint8, 1),
], ids=lambda v: getattr(v, "name", str(v)))
def test_bitcast_of_values_and_of_storage(old, new, count, dialect):
    values = np.resize(special_values(old), count)
    size = count * old.itemsize // new.itemsize
    a, b = UOp.param(0, new, (2 * size,)), UOp.param(1, old, (count,))
    value = vector(b, number(0), count).load().bitcast(new)
    other = vector(b.bitcast(new), number(0), size).load()
    sink = UOp.sink(vector(a, number(0), size).store(value),
                    vector(a, number(size), size).store(other))
    output = check(sink, dialect, np.zeros(2 * size, STORED[new]), values)
    assert output.tobytes() == 2 * values.tobytes()


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.int64, dtypes.uint8, dtypes.bool],
                         ids=lambda d: d.name)
@pytest.mark.parametrize("lanes", [0, 8, 3])
def test_gates_touch_nothing_beyond(dtype, lanes, dialect):
    """x[i] for i < 13, 0 beyond, from far outside of x where the gate is shut."""
    values = np.resize(special_values(dtype), 13)
    a, b = UOp.param(0, dtype, (18,)), UOp.param(1, dtype, (1 << 40,))
    far = 1 << 36
    width = max(lanes, 1)
    r = loop(18 // width)
    index = UOp.stack(*(r * lanes + k for k in range(lanes))) if lanes else r
    gate = index < number(13)
    read = UOp(Op.LOAD, (b.index(gate.where(index, index + far)), gate))
    whole = r * width + (width - 1) < number(13)
    if lanes:
        start = whole.where(r * lanes, r * lanes + far)
        read = whole.where(UOp(Op.LOAD, (vector(b, start, lanes), whole)), read)
    place = vector(a, r * lanes, lanes) if lanes else a.index(r)
    sink = UOp.sink(UOp(Op.STORE, (place, read, gate)).end(r))
    function = compiled([render_c("kernel", linearize(sink), dialect)]).kernel
    output = np.ones(18, STORED[dtype])
    call(function, [output, values])
    same_bits(output, np.concatenate([values, np.ones(5, STORED[dtype])]))


def test_scatter_with_and_without_gates(dialect):
    values = np.arange(1, 9, dtype=np.int32)
    a, b = UOp.param(0, dtypes.int32, (32,)), UOp.param(1, dtypes.int32, (8,))
    value = vector(b, number(0), 8).load()
    lanes = UOp.stack(*(UOp.const(k < 3, dtypes.bool) for k in range(8)))
    index = value.cast(dtypes.int64) * 2 - 1
    first = a.index(index).store(value)
    second = UOp(Op.STORE, (a.after(first).index(index), value * 10, lanes))
    check(UOp.sink(second), dialect, np.zeros(32, np.int32), values)


@pytest.mark.parametrize("count", [1, 3, 8, 12])
def test_horizontal_reduction(count, dialect):
    """Of whole numbers, whose sums are exact in any order."""
    values = np.random.default_rng(1).integers(-9, 9, count).astype(np.float32)
    a, b = UOp.param(0, dtypes.float32, (3,)), UOp.param(1, dtypes.float32, (count,))
    value = vector(b, number(0), count).load()
    stores = [a.index(number(k)).store(value.reduce(op, axes=1))
              for k, op in enumerate((Op.ADD, Op.MUL, Op.MAX))]
    check(UOp.sink(*stores), dialect, np.zeros(3, np.float32), values)


def test_a_register_tile_and_scratch(dialect):
    """Accumulators in a vector and in a scalar; bools and numbers in scratch memory."""
    values = np.random.default_rng(2).integers(-9, 9, 320).astype(np.float32)
    a, b = UOp.param(0, dtypes.float32, (5,)), UOp.param(1, dtypes.float32, (320,))
    row, k = loop(5, 0), loop(8, 1)
    storage, flags = private(0, dtypes.float32, 8), private(1, dtypes.bool, 8, AddressSpace.LOCAL)
    start = vector(storage.after(row), number(0), 8).store(UOp.const(0.0, dtypes.float32))
    place = vector(storage.after(start, k), number(0), 8)
    step = place.store(place.load() + vector(b, row * 64 + k * 8, 8).load()).end(k)
    total = storage.after(step).load()  # all of it at once
    mark = flags.index(row).store(total.index(number(3)) < 0.0)
    flag = flags.after(mark).index(row).load()
    result = flag.where(total.reduce(Op.ADD, axes=1), total.reduce(Op.MAX, axes=1))
    check(UOp.sink(a.index(row).store(result).end(row)), dialect, np.zeros(5, np.float32), values)


@pytest.mark.parametrize("dtype", [dtypes.int32, dtypes.int64], ids=lambda d: d.name)
def test_threaded_loop_runs_the_part_it_is_given(dtype):
    a = UOp.param(0, dtypes.int32, (16,))
    r = loop(16, 0, AxisType.THREAD, dtype)
    sink = UOp.sink(a.index(r).store(r.cast(dtypes.int32) + 1).end(r))
    output = np.zeros(16, np.int32)
    np.testing.assert_array_equal(check(sink, PLAIN_C, output, items=(5, 5)), output)
    output[3:7] = [4, 5, 6, 7]
    np.testing.assert_array_equal(check(sink, PLAIN_C, output * 0, items=(3, 7)), output)


def test_scalars_follow_the_buffers():
    kinds = (dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64, dtypes.uint8, dtypes.bool,
             dtypes.uint64, *HALF)
    a = UOp.param(0, dtypes.float64, (len(kinds),))
    scalars = [UOp.param(k + 1, d, (), space=AddressSpace.ALU) for k, d in enumerate(kinds)]
    values = [-5, 1 << 40, 0.1, 0.1, 200, 1, (1 << 64) - 1, *[0.1] * len(HALF)]
    stores = [a.index(number(k)).store(s.cast(dtypes.float64)) for k, s in enumerate(scalars)]
    output = check(UOp.sink(*stores), PLAIN_C, np.zeros(len(kinds)), scalars=values)
    assert output.tolist() == [-5, 1 << 40, float(np.float32(0.1)), 0.1, 200, 1, 2.0**64,
                               *[float(np.float16(0.1))] * len(HALF)]


@pytest.mark.parametrize("bound", [0, 1, 5])
def test_a_loop_with_a_symbolic_bound(bound):
    a = UOp.param(0, dtypes.int32, (8,))
    size = UOp.param(1, dtypes.int64, (), space=AddressSpace.ALU)
    r = UOp.range(size, 0)
    sink = UOp.sink(a.index(r).store(UOp.const(1, dtypes.int32)).end(r))
    check(sink, PLAIN_C, np.zeros(8, np.int32), scalars=[bound])


def machine(*items):
    """A LINEAR of items that no kernel of tensors has, run on an array of int64."""
    text = render_c("kernel", UOp(Op.LINEAR, items))
    output = np.arange(10, 18)
    call(compiled([text]).kernel, [output])
    return output.tolist(), text


def test_conditions_and_loops_that_say_when_they_end():
    """while (++x[0] < 100); if (x[0] < 0) x[1] = 1; if (x[1] < 99) x[2] = 1."""
    a = UOp.param(0, dtypes.int64, (8,))
    forever = UOp(Op.RANGE, (), loop(1).arg)
    place, one = a.index(number(0)), number(1)
    read = UOp(Op.LOAD, (place,), True)
    more = read + one
    write = UOp(Op.STORE, (place, more), True)
    again = more < number(100)
    items = [a, forever, place, read, more, write, again, UOp(Op.END, (write, forever, again))]
    for k, limit in enumerate((0, 99)):
        read = UOp(Op.LOAD, (a.after(items[-1]).index(number(k)),))
        gate = read < number(limit)
        condition, at = UOp(Op.IF, (gate,)), a.index(number(k + 1))
        items += [read, gate, condition, at, at.store(one), UOp(Op.ENDIF, (condition,))]
    output, text = machine(*items)
    assert output[:4] == [100, 11, 1, 13]
    assert "__ATOMIC_ACQUIRE" in text
    assert "__ATOMIC_RELEASE" in text


def test_addresses_calls_atomics_and_custom_text():
    a = UOp.param(0, dtypes.int64, (8,))
    labs = ctypes.cast(ctypes.CDLL(None).labs, ctypes.c_void_p).value
    callee, place = number(labs), a.index(number(0))
    called = UOp(Op.CALL, (callee, number(-7)))
    old = UOp(Op.ATOMIC_ADD, (place, number(5)))
    address = UOp(Op.GETADDR, (a,))
    custom = UOp(Op.CUSTOMI, (called, old), CustomText("({0} * 100 + {1})", dtypes.int64))
    stores = []
    for k, value in enumerate((custom, address.bitcast(dtypes.int64)), 1):
        at = a.index(number(k))
        stores += [*([value.src[0], value] if k == 2 else [value]), at, at.store(value)]
    output, _ = machine(a, called, place, old, *stores, UOp(Op.INS, (), '__asm__ volatile("")'),
                        UOp(Op.CUSTOM, (number(3),), "b0[7] = {0};"))
    assert output[:2] == [15, 710]
    assert output[2] != 12
    assert output[7] == 3


def test_a_dialect_whose_arguments_are_parameters_and_that_has_launch_indices():
    """What GPU dialects differ in, as far as a C compiler understands it."""
    gpu = replace(
        PLAIN_C, name="GPU", parameters="", vectors=None,
        heading="#define kernel\n#define global\n#define local\nextern int item[3];",
        function="kernel void {name}({parameters})", barrier="barrier();",
        spaces={AddressSpace.GLOBAL: "global ", AddressSpace.LOCAL: "local "},
        launch={"g": "item[{axis}]"})
    a = UOp.param(0, dtypes.float32, (8,))
    s = UOp.param(1, dtypes.float32, (), space=AddressSpace.ALU)
    at = UOp(Op.SPECIAL, (number(8, dtypes.int32),), "g1")
    scratch = private(0, dtypes.float32, 4, AddressSpace.LOCAL)
    value = scratch.after(UOp(Op.BARRIER, (scratch.index(number(0)).store(s),)))
    store = a.index(at).store(value.index(number(0)).load())
    text = render_c("kernel_1", linearize(UOp.sink(store)), gpu)
    assert "kernel void kernel_1(global float *b0, float s1) {" in text
    assert "  local float " in text
    library = compiled(["int item[3]; static void barrier(void) {}", text])
    (ctypes.c_int * 3).in_dll(library, "item")[1] = 6
    output = np.zeros(8, np.float32)
    library.kernel_1(ctypes.c_void_p(output.ctypes.data), ctypes.c_float(2.5))
    assert output.tolist() == [0, 0, 0, 0, 0, 0, 2.5, 0]


def test_what_has_no_form_is_refused():
    a = UOp.param(0, dtypes.float32, (4,))
    place = a.index(number(0))
    for value, match in ((place.load().alu(Op.SIN), "SIN"),
                         (UOp(Op.SPECIAL, (number(4),), "g0").cast(dtypes.float32), "launch")):
        with pytest.raises(CompileError, match=match):
            render_c("kernel", linearize(UOp.sink(place.store(value))))
    small = UOp.param(0, dtypes.bfloat16, (4,))
    with pytest.raises(CompileError, match="bfloat16"):
        render_c("kernel", linearize(UOp.sink(
            small.index(number(0)).store(small.index(number(1)).load()))))
    with pytest.raises(CompileError, match="WMMA"):
        render_c("kernel", UOp(Op.LINEAR, (UOp(Op.WMMA, (place, place, place)),)))
