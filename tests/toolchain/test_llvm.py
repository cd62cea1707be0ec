"""Texts of LLVM IR → objects → addresses, for this machine and for others."""

import ctypes
import gc
from importlib.util import find_spec

import pytest

from core.foundation.errors import CompileError, DeviceError
from core.ir import dtypes
from core.toolchain import (
    LoadedObject,
    Machine,
    assembly,
    compile_ir,
    compiler_identity,
    host_machine,
    load_object,
    target_of,
)
from core.toolchain.elf import undefined_symbols

pytestmark = pytest.mark.skipif(
    find_spec("llvmlite") is None, reason="llvmlite comes with a device plugin; none is installed")

ADD = "define i64 @add{0}(i64 %a) nounwind {{\n  %b = add i64 %a, {0}\n  ret i64 %b\n}}\n"
ARRAY = """define float @array(float %x, i64 %n) nounwind {
entry:
  %a = alloca [2 x float], align 64
  store float %x, ptr %a, align 4
  %v = load float, ptr %a, align 4
  ret float %v
}
"""
WITH_CONSTANT = """@table = private unnamed_addr constant [4 x i64] [i64 2, i64 3, i64 5, i64 7]
define i64 @prime(i64 %k) nounwind {
  %p = getelementptr i64, ptr @table, i64 %k
  %v = load i64, ptr %p, align 8
  ret i64 %v
}
"""
AARCH64 = Machine("aarch64-unknown-linux-gnu", "cortex-a72")


def call(loaded, name, value):
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(loaded.addresses[name])(value)


def test_one_object_for_each_text():
    objects = compile_ir([ADD.format(1), ADD.format(2), WITH_CONSTANT], host_machine())
    assert len(objects) == 3
    assert [call(load_object(o, n), n, 2) for o, n in zip(
        objects, ("add1", "add2", "prime"), strict=True)] == [3, 4, 5]


def test_the_same_name_may_be_loaded_again_and_is_freed():
    code = compile_ir([ADD.format(1)], host_machine())[0]
    kept = LoadedObject(code, "add1")
    for _ in range(20):
        assert call(LoadedObject(code, "add1"), "add1", 1) == 2
    gc.collect()
    assert call(kept, "add1", 5) == 6


def test_private_arrays_become_registers():
    body = assembly(ARRAY, host_machine())
    code = [line.strip() for line in body.splitlines() if line.startswith("\t")]
    assert [line for line in code if not line.startswith((".", "ret"))] == []


@pytest.mark.parametrize(("source", "line"), [
    ("define void @f() {\n  %a = add i32 1, 2.0\n  ret void\n}\n", "add i32 1, 2.0"),
    ("define void @f() {\n  %a = fadd float 1, %b\n  ret void\n}\n", "%a = fadd"),
])
def test_an_error_names_the_line(source, line):
    with pytest.raises(CompileError, match="line 2") as caught:
        compile_ir([ADD.format(1), source], host_machine())
    assert line in caught.value.message
    assert caught.value.graph == source


def test_invalid_code_is_refused_before_it_crashes():
    crossed = ("define i64 @f(i1 %c) {\n  br i1 %c, label %a, label %b\na:\n  %x = add i64 1, 1\n"
               "  br label %b\nb:\n  ret i64 %x\n}\n")
    with pytest.raises(CompileError, match="dominate"):
        compile_ir([crossed], host_machine())


def test_a_call_of_a_library_is_refused():
    source = ("declare double @llvm.sin.f64(double)\ndefine double @f(double %x) nounwind {\n"
              "  %y = call double @llvm.sin.f64(double %x)\n  ret double %y\n}\n")
    with pytest.raises(CompileError, match="needs the functions sin"):
        compile_ir([source], host_machine())


def test_undefined_symbols_of_other_formats_are_unknown():
    assert undefined_symbols(b"\xcf\xfa\xed\xfe") == []


def test_loading_says_what_is_missing():
    code = compile_ir([ADD.format(1)], host_machine())[0]
    with pytest.raises(DeviceError, match="other"):
        load_object(code, "other")
    with pytest.raises(DeviceError, match="add1"):
        load_object(b"no object", "add1")


def test_other_processors():
    assert "add\tx0, x0, #1" in assembly(ADD.format(1), AARCH64)
    (code,) = compile_ir([ADD.format(1)], AARCH64)
    assert code[:4] == b"\x7fELF"
    assert code[18] == 183  # the machine of an ELF header: AArch64
    with pytest.raises(CompileError, match="nothing-such"):
        compile_ir([ADD.format(1)], Machine("nothing-such-os"))


@pytest.mark.parametrize(("machine", "lanes", "registers", "fma", "float16"), [
    (Machine("x86_64-unknown-linux-gnu", "x86-64"), 4, 16, False, False),
    (Machine("x86_64-unknown-linux-gnu", "x86-64-v3"), 8, 16, True, True),
    (Machine("x86_64-unknown-linux-gnu", "x86-64-v4"), 16, 32, True, True),
    (Machine("x86_64-unknown-linux-gnu", "znver3", "+avx2,-fma,+f16c"), 8, 16, False, True),
    (AARCH64, 4, 32, True, True),
])
def test_target_of(machine, lanes, registers, fma, float16):
    target = target_of(machine, cores=3)
    assert (target.lanes(4), target.vector_registers, target.fma) == (lanes, registers, fma)
    assert (dtypes.float16 in target.dtypes) == float16
    assert target.storage_dtypes <= target.dtypes
    assert dtypes.bfloat16 not in target.dtypes
    assert (target.cores, target.has_threads) == (3, True)


def test_the_identity_tells_machines_apart():
    assert compiler_identity(AARCH64) != compiler_identity(host_machine())
    some = Machine("x86_64-unknown-linux-gnu", "znver3", "+avx2")
    assert some.architecture != Machine(some.triple, some.cpu, "-avx2").architecture
