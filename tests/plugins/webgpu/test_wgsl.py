"""Shaders by their text and by their numbers: what drivers and WGSL itself would spoil."""

import numpy as np
import pytest

pytest.importorskip("wgpu", reason="the library wgpu is not installed")
pytest.importorskip("core_plugin_webgpu", reason="core-plugin-webgpu is not installed")

import core_plugin_webgpu
from core.codegen.linearize import linearize
from core.compiler.compile import compile_linear
from core.ir import AxisType, CallInfo, KernelInfo, Op, UOp, dtypes
from core.plugin import CompileError, DeviceError
from core.runtime.device import open_device
from core.runtime.launch import bind_launch
from core_plugin_webgpu.memory import WebGpuAllocator
from core_plugin_webgpu.wgsl import render_wgsl, wgsl_literal

SPECIAL = np.array([0.0, -0.0, 1.5, -2.25, np.inf, -np.inf, np.nan, 1e-45, 3e38, 0.1],
                   np.float32)


@pytest.fixture(scope="session")
def opened():
    """The first adapter; without a driver the tests here are skipped."""
    found = core_plugin_webgpu.probe()
    if not found.count:
        pytest.skip(found.reason)
    return open_device("WEBGPU")


def run(opened, sink, *arrays):
    """Launch a kernel on arrays and read them back."""
    source = opened.renderer.render("kernel", linearize(sink))
    (binary,) = opened.renderer.compiler.compile([source])
    program, memory = opened.loader.load("kernel", binary), WebGpuAllocator(opened.device)
    blocks = []
    for array in arrays:
        blocks.append(memory.allocate(array.nbytes))
        memory.copy_in(blocks[-1], 0, memoryview(array).cast("B"))
    program(blocks, (), (1, 1, 1), (1, 1, 1), wait=True)
    for array, block in zip(arrays, blocks, strict=True):
        memory.copy_out(memoryview(array).cast("B"), block, 0)
        memory.free(block)


def elementwise(opened, function, *inputs, dtype=np.float32):
    """The result of a function of UOps on arrays of one length."""
    count, out = len(inputs[0]), np.zeros(len(inputs[0]), dtype)
    kinds = [dtypes.float32 if a.dtype == np.float32 else
             dtypes.int32 if a.dtype == np.int32 else dtypes.uint32 for a in (out, *inputs)]
    params = [UOp.param(k, kind, (count,)) for k, kind in enumerate(kinds)]
    r = UOp.range(UOp.const(count, dtypes.int32), 0, AxisType.LOOP)
    value = function(*(p.index(r).load() for p in params[1:]))
    run(opened, UOp.sink(params[0].index(r).store(value).end(r)), out,
        *(np.ascontiguousarray(a) for a in inputs))
    return out


def same_bits(a, b):
    nan = np.isnan(a) & np.isnan(b) if a.dtype == np.float32 else np.zeros(a.shape, bool)
    return bool(((a.view(np.uint32) == b.view(np.uint32)) | nan).all())


def pairs():
    a, b = np.meshgrid(SPECIAL, SPECIAL)
    return a.ravel().copy(), b.ravel().copy()


@pytest.mark.parametrize("op", [Op.ADD, Op.SUB, Op.MUL, Op.FDIV])
def test_arithmetic_is_exact(opened, op):
    a, b = pairs()
    numpy = {Op.ADD: np.add, Op.SUB: np.subtract, Op.MUL: np.multiply, Op.FDIV: np.divide}[op]
    with np.errstate(all="ignore"):
        assert same_bits(elementwise(opened, lambda x, y: x.alu(op, y), a, b), numpy(a, b))


def test_random_quotients_are_correctly_rounded(opened):
    random = np.random.default_rng(3).standard_normal((2, 4000)).astype(np.float32)
    found = elementwise(opened, lambda x, y: x / y, *random)
    assert same_bits(found, random[0] / random[1])


@pytest.mark.parametrize(("name", "function", "numpy"), [
    ("shifter", lambda x: (x + 12582912.0) - 12582912.0, lambda x: (x + np.float32(12582912)) -
     np.float32(12582912)),
    ("difference", lambda x: x - x, lambda x: x - x),
    ("quotient", lambda x: x / x, lambda x: x / x),
    ("times zero", lambda x: x * 0.0, lambda x: x * np.float32(0)),
    ("plus zero", lambda x: x + 0.0, lambda x: x + np.float32(0)),
    ("product and sum", lambda x: x * x - 0.01, lambda x: x * x - np.float32(0.01)),
    ("scaled twice", lambda x: x * 1e-30 * 1e30, lambda x: x * np.float32(1e-30) *
     np.float32(1e30)),
])
def test_nothing_is_reassociated_or_contracted(opened, name, function, numpy):
    x = np.concatenate([SPECIAL, np.linspace(-3, 3, 50, dtype=np.float32)])
    with np.errstate(all="ignore"):
        assert same_bits(elementwise(opened, function, x), numpy(x))


@pytest.mark.parametrize(("op", "numpy"), [
    (Op.CMPLT, np.less), (Op.CMPNE, np.not_equal), (Op.CMPEQ, np.equal)])
def test_comparisons_know_nan(opened, op, numpy):
    a, b = pairs()
    found = elementwise(opened, lambda x, y: x.alu(op, y).cast(dtypes.int32), a, b, dtype=np.int32)
    assert (found == numpy(a, b)).all()


def test_a_float_compared_with_itself_and_as_a_bool(opened):
    found = elementwise(opened, lambda x: x.ne(x).cast(dtypes.int32) * 2
                        + x.cast(dtypes.bool).cast(dtypes.int32), SPECIAL, dtype=np.int32)
    assert (found == np.isnan(SPECIAL) * 2 + (SPECIAL != 0)).all()


def test_the_larger_of_two_floats(opened):
    a, b = pairs()
    found = elementwise(opened, lambda x, y: x.alu(Op.MAX, y), a, b)
    want = np.where(np.isnan(a) | np.isnan(b), np.float32(np.nan), np.maximum(a, b))
    zeros = (a == 0) & (b == 0)
    want[zeros] = np.where(np.signbit(a) & np.signbit(b), np.float32(-0.0), np.float32(0))[zeros]
    assert same_bits(found, want)


@pytest.mark.parametrize("kind", ["int32", "uint32"])
def test_floats_become_integers_by_saturation(opened, kind):
    x = np.concatenate([SPECIAL, np.array([3e9, -3e9, 5e9, 2147483647, -2147483648], np.float32)])
    found = elementwise(opened, lambda v: v.cast(getattr(dtypes, kind)), x, dtype=getattr(np, kind))
    limits = np.iinfo(kind)
    assert (found == np.clip(np.trunc(np.nan_to_num(x.astype(np.float64), posinf=1e30, neginf=-1e30
                                                    )), limits.min, limits.max)).all()


def test_integers_wrap_and_divide_by_zero(opened):
    values = np.array([0, 1, -1, 7, -7, 2**31 - 1, -2**31], np.int32)
    a, b = (m.ravel().copy() for m in np.meshgrid(values, values))
    wide = a.astype(np.int64), b.astype(np.int64)
    total = elementwise(opened, lambda x, y: x + y * 3, a, b, dtype=np.int32)
    assert (total == (wide[0] + wide[1] * 3).astype(np.int32)).all()
    safe = np.where(b == 0, 1, wide[1])
    quotient = np.where(b == 0, 0, np.trunc(wide[0] / safe)).astype(np.int64).astype(np.int32)
    found = elementwise(opened, lambda x, y: x.alu(Op.TRUNCDIV, y), a, b, dtype=np.int32)
    assert (found == quotient).all()
    rest = np.where(b == 0, 0, np.fmod(wide[0], safe)).astype(np.int32)
    found = elementwise(opened, lambda x, y: x.alu(Op.TRUNCMOD, y), a, b, dtype=np.int32)
    assert (found == rest).all()
    shifted = elementwise(opened, lambda x, y: x << y, a, b, dtype=np.int32)
    assert (shifted == (wide[0] << (wide[1] & 31)).astype(np.int32)).all()


def test_constants_are_written_so_that_every_compiler_takes_them():
    assert wgsl_literal(-2**31, dtypes.int32) == "i32(-2147483648)"
    assert wgsl_literal(float("inf"), dtypes.float32) == "bitcast<f32>(0x7f800000u)"
    assert wgsl_literal(-0.0, dtypes.float32) == "bitcast<f32>(0x80000000u)"
    assert wgsl_literal(1e-45, dtypes.float32) == "bitcast<f32>(0x00000001u)"
    assert wgsl_literal(0.5, dtypes.float32) == "0.5f"
    assert wgsl_literal(True, dtypes.bool) == "true"


def counted(count, outer=2):
    out = UOp.param(0, dtypes.int32, (outer * count,))
    rows, columns = (UOp.range(UOp.const(n, dtypes.int32), k) for k, n in enumerate((outer, count)))
    value = columns.cast(dtypes.int32)
    return UOp.sink(out.index(rows * count + columns).store(value).end(rows, columns))


def test_a_kernel_that_could_loop_for_too_long_is_an_error():
    program = linearize(counted(40_000))
    assert "40000" in render_wgsl("kernel", program)
    with pytest.raises(CompileError, match="could make 80002 loop iterations"):
        render_wgsl("kernel", program, loop_limit=60_000)
    render_wgsl("kernel", linearize(counted(20_000)), loop_limit=60_000)


def test_text_that_is_refused_comes_with_the_compilers_words(opened):
    with pytest.raises(CompileError, match="no definition in scope for identifier: `nothing`"
                       ) as raised:
        opened.renderer.compiler.compile(["fn f() -> i32 { return nothing; }"])
    assert "return nothing" in str(raised.value.graph)


def test_a_launch_with_the_wrong_buffers_says_so(opened):
    source = opened.renderer.render("kernel", linearize(counted(4)))
    program = opened.loader.load("kernel", source.encode())
    with pytest.raises(DeviceError, match="takes 1 buffers, not 0"):
        program([], ())


def test_items_of_a_group_share_a_sum(opened):
    """A sum with one result goes through work-group memory, behind a barrier."""
    x = np.random.default_rng(5).integers(-9, 9, 10_000).astype(np.float32)
    out = np.zeros(1, np.float32)
    a, b = (UOp.param(k, dtypes.float32, (n,)) for k, n in ((0, 1), (1, len(x))))
    r = UOp.range(UOp.const(len(x)), 0, AxisType.REDUCE)
    total = b.index(r).load().reduce(Op.ADD, r)
    call = UOp(Op.CALL, (UOp.sink(a.index(UOp.const(0)).store(total),
                                  info=KernelInfo("total")), a, b), CallInfo("total"))
    (compiled,) = compile_linear(UOp(Op.LINEAR, (call,)), lambda name: opened).src
    text = compiled.src[0].src[2].arg
    assert "var<workgroup>" in text
    assert "workgroupBarrier();" in text
    launch, memory = bind_launch(compiled, opened, 2), WebGpuAllocator(opened.device)
    blocks = [memory.allocate(array.nbytes) for array in (out, x)]
    memory.copy_in(blocks[1], 0, memoryview(x).cast("B"))
    launch.run(blocks, {}, wait=True)
    memory.copy_out(memoryview(out).cast("B"), blocks[0], 0)
    assert out[0] == x.sum()  # whole numbers: exact in any order
