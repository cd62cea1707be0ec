"""LLVM IR for AMD's processors: every operation compiles, in a child process, since LLVM aborts."""

import subprocess
import sys

import pytest

pytest.importorskip("pyopencl", reason="the library pyopencl is not installed")
pytest.importorskip("llvmlite", reason="the library llvmlite is not installed")
pytest.importorskip("core_plugin_amd", reason="core-plugin-amd is not installed")

from core.compiler.pipeline import generate
from core.foundation.errors import CompileError
from core.ir import AxisType, Op, UOp, dtypes
from core.plugin import Target
from core.testing.pass_checks import kernel, matmul, place
from core_plugin_amd.amdgcn import PROCESSORS, AmdgcnCompiler, AmdgcnRenderer, render_amdgcn

TYPES = frozenset({
    dtypes.bool, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64, dtypes.uint8,
    dtypes.uint16, dtypes.uint32, dtypes.uint64, dtypes.float32, dtypes.float64})
CARD = Target(
    name="AMD", architecture="gfx", dtypes=TYPES, vector_bytes=16, vector_registers=32, cores=60,
    has_local=True, local_is_fast=True, scratch_bytes=64 << 10, global_limit=(1 << 31,) * 3,
    local_limit=(1024, 1024, 1024), local_total=1024, fma=True)


def operations():
    """A kernel for each elementwise operation and dtype that it takes, by name."""
    floats = [d for d in TYPES if d.is_float]
    integers = [d for d in TYPES if d.is_machine_integer]
    only_floats = {Op.FDIV, Op.RECIPROCAL, Op.SQRT, Op.EXP, Op.EXP2, Op.LOG, Op.LOG2, Op.SIN,
                   Op.COS, Op.POW, Op.TRUNC}
    only_integers = {Op.AND, Op.OR, Op.XOR, Op.SHL, Op.SHR, Op.FLOORDIV, Op.FLOORMOD, Op.TRUNCDIV,
                     Op.TRUNCMOD}
    counts = dict.fromkeys((Op.RECIPROCAL, Op.SQRT, Op.EXP, Op.EXP2, Op.LOG, Op.LOG2, Op.SIN,
                            Op.COS, Op.TRUNC, Op.NEG), 1) | {Op.MULACC: 3, Op.WHERE: 3}
    others = (Op.ADD, Op.SUB, Op.MUL, Op.MAX, Op.CMPLT, Op.CMPNE, Op.CMPEQ, Op.MULACC, Op.WHERE,
              Op.NEG)
    for op in (*sorted(only_floats, key=str), *sorted(only_integers, key=str), *others):
        taken = floats if op in only_floats else integers if op in only_integers else (
            [*floats, *integers])
        for dtype in sorted(taken, key=str):
            i = UOp.range(256, 0)
            values = [place(k + 1, 256, dtype).index(i).load() for k in range(counts.get(op, 2))]
            if op is Op.WHERE:
                values[0] = values[0].ne(values[0].const_like(0))
            value = values[0].alu(op, *values[1:])
            yield f"{op.name}_{dtype.name}", kernel(
                place(0, 256, value.dtype).index(i).store(value).end(i))
    i = UOp.range(256, 0)
    counter, key = (place(k, 256, dtypes.uint64).index(i).load() for k in (1, 2))
    yield "THREEFRY", kernel(place(0, 256, dtypes.uint64).index(i).store(
        counter.alu(Op.THREEFRY, key)).end(i))
    for old in sorted(TYPES, key=str):
        for new in sorted(TYPES, key=str):
            if old is not new:
                i = UOp.range(256, 0)
                value = place(1, 256, old).index(i).load().cast(new)
                yield f"CAST_{old.name}_{new.name}", kernel(
                    place(0, 256, new).index(i).store(value).end(i))


def programs():
    """(name, text) of every operation, and of kernels with scratch, barriers, gates, scalars."""
    renderer = AmdgcnRenderer("gfx942")
    kernels = dict(operations())
    kernels["matmul"] = matmul(256)
    i, k = UOp.range(8, 0), UOp.range(4096, 1, AxisType.REDUCE)
    total = place(1, 8 * 4096).index(i * 4096 + k).load().reduce(Op.ADD, k)
    kernels["shared_sum"] = kernel(place(0, 8).index(i).store(total).end(i))
    i = UOp.range(1000, 0)
    shifted = place(1, 998).index((i - 2).valid(UOp.const(1) < i)).load()
    kernels["gated"] = kernel(place(0, 1000).index(i).store(shifted).end(i))
    n = UOp.variable("n", 1, 1 << 20, slot=2)
    i = UOp.range(n, 0)
    kernels["symbolic"] = kernel(place(0, 1 << 20).index(i).store(
        place(1, 1 << 20).index(i).load() * 2.0).end(i))
    for name, sink in kernels.items():
        yield name, renderer.render(name, generate(sink, CARD, renderer.code_for_op).src[1])


def test_a_kernel_in_words():
    """Launch indices, work-group memory and barriers as AMD's backend has them."""
    text = dict(programs())["shared_sum"]
    assert "define amdgpu_kernel void @shared_sum(ptr addrspace(1) %p0, ptr addrspace(1)" in text
    assert "internal addrspace(3) global [64 x float]" in text
    assert "call void @llvm.amdgcn.s.barrier()" in text
    assert "llvm.amdgcn.workitem.id.x" in text
    assert '"amdgpu-flat-work-group-size"="64,64"' in text


CHILD = """
import sys
from core_plugin_amd.amdgcn import AmdgcnCompiler
compiler = AmdgcnCompiler(sys.argv[1])
texts = sys.stdin.read().split(";;;;\\n")
for text in texts:
    print("compiling", text.split("amdgpu_kernel void @")[1].split("(")[0], flush=True)
    (code,) = compiler.compile([text])
    assert code[:4] == b"\\x7fELF" and code[18:20] == b"\\xe0\\x00", "no code object of EM_AMDGPU"
    assert b"amdhsa.kernels" in code, "no metadata"
print("all", len(texts))
"""


@pytest.mark.parametrize("processor", PROCESSORS)
def test_every_operation_compiles(processor):
    texts = [text for _, text in programs()]
    done = subprocess.run(  # LLVM ends the process where it lacks a function
        [sys.executable, "-c", CHILD, processor], input=";;;;\n".join(texts), text=True,
        capture_output=True, check=False, timeout=300)
    assert done.returncode == 0, f"{done.stdout.splitlines()[-1:]} {done.stderr[-2000:]}"
    assert done.stdout.splitlines()[-1] == f"all {len(texts)}"


def test_what_llvm_refuses_is_said():
    with pytest.raises(CompileError, match="LLVM refuses"):
        AmdgcnCompiler("gfx942").compile(["define amdgpu_kernel void @k() { ret i32 0 }"])


def test_what_a_card_cannot_do_is_refused():
    with pytest.raises(CompileError, match="CALL has no form"):
        render_amdgcn("k", UOp(Op.LINEAR, (UOp(Op.CALL, (UOp.const(0, dtypes.int64),)),)))
