"""Object files of three processors: read, linked without a linker, and right when they run."""

import shutil
import struct

import numpy as np
import pytest

import core_plugin_qemu
from core.plugin import DeviceError
from core.testing.hook_bench import HookBench
from core.toolchain import compile_ir
from core_plugin_qemu import device as hooks
from core_plugin_qemu import relocate
from core_plugin_qemu.architectures import ARCHITECTURES
from core_plugin_qemu.elf import ObjectFile, Relocation, Symbol, executable, read_object
from core_plugin_qemu.relocate import AARCH64, HEXAGON, RISCV, link

HEAD = "define void @kernel(ptr %args, i64 %lo, i64 %hi, i64 %tid) {"
CASES = 12
# A table, a table of floats, a switch that becomes a table of jumps, calls of functions that call,
# a private variable, a chain of pointers.
PARTS = "\n".join([
    "@table = internal constant [64 x i32] [" + ", ".join(
        f"i32 {k * k + 1}" for k in range(64)) + "]",
    "@floats = internal constant [8 x float] [" + ", ".join(
        f"float {k}.5" for k in range(8)) + "]",
    "@counter = internal global i32 0",
    "define internal i32 @triple(i32 %x) noinline {\n  %y = mul i32 %x, 3\n"
    "  %n = load volatile i32, ptr @counter\n  %n1 = add i32 %n, 1\n"
    "  store volatile i32 %n1, ptr @counter\n  ret i32 %y\n}",
    "define internal i32 @pick(i32 %x) noinline {\n  switch i32 %x, label %other [" + " ".join(
        f"i32 {k}, label %l{k}" for k in range(CASES)) + "]",
    *(f"l{k}:\n  %r{k} = call i32 @triple(i32 {k * 7})\n"
      f"  %z{k} = {'add' if k % 2 else 'xor'} i32 %r{k}, %x\n  ret i32 %z{k}"
      for k in range(CASES)),
    "other:\n  ret i32 -1\n}",
    HEAD, """  %out = load ptr, ptr %args
  br label %loop
loop:
  %k = phi i32 [ 0, %0 ], [ %k1, %loop ]
  %entry = getelementptr i32, ptr @table, i32 %k
  %v = load i32, ptr %entry
  %w = call i32 @pick(i32 %k)
  %k7 = and i32 %k, 7
  %fentry = getelementptr float, ptr @floats, i32 %k7
  %f = load float, ptr %fentry
  %doubled = fadd float %f, %f
  %fi = fptosi float %doubled to i32
  %s = add i32 %v, %w
  %s2 = add i32 %s, %fi
  %to = getelementptr i32, ptr %out, i32 %k
  store i32 %s2, ptr %to
  %k1 = add i32 %k, 1
  %more = icmp slt i32 %k1, 64
  br i1 %more, label %loop, label %done
done:
  ret void
}"""])


def picked(k):
    if k >= CASES:
        return -1
    return 21 * k + k if k % 2 else 21 * k ^ k


EXPECTED = [k * k + 1 + picked(k) + 2 * (k % 8) + 1 for k in range(64)]


@pytest.mark.parametrize("variant", core_plugin_qemu.VARIANTS)
def test_code_with_tables_jumps_and_calls_runs(variant):
    if shutil.which(f"qemu-{variant}") is None:
        pytest.skip(f"qemu-{variant} is not installed (apt-get install qemu-user)")
    device = hooks.EmulatedDevice(ARCHITECTURES[variant])
    try:
        bench = HookBench(hooks, device)
        # The code is the second: neither its place nor its base is 0.
        bench.increment(3)
        program = bench.program(PARTS, "kernel")
        out = bench.block(np.zeros(64, np.int32))
        # Kernels may not write to code: what is global there is read only.
        with pytest.raises(DeviceError, match="kernel kernel on QEMU"):
            program([out], [], wait=True)
        constant = PARTS.replace("store volatile i32 %n1, ptr @counter", "fence seq_cst")
        bench.program(constant, "kernel")([out], [], wait=True)
        np.testing.assert_array_equal(bench.read(out, 64), EXPECTED)
    finally:
        device.close()


@pytest.mark.parametrize("variant", core_plugin_qemu.VARIANTS)
def test_an_object_file_is_read(variant):
    architecture = ARCHITECTURES[variant]
    text = f"declare void @elsewhere()\n{HEAD}\n  call void @elsewhere()\n  ret void\n}}"
    if architecture.word_bits == 64:
        (data,) = compile_ir([PARTS], architecture.machine)
        assert read_object(data).undefined == []
    else:  # core's own check sees undefined names in files of 64 bits only
        (data,) = compile_ir([text], architecture.machine)
        assert read_object(data).undefined == ["elsewhere"]
        with pytest.raises(DeviceError, match="the code needs elsewhere"):
            link(read_object(data), 0)
        assert link(read_object(data), 0, {"elsewhere": 64})
    parsed = read_object(data)
    assert "kernel" in parsed.defined
    assert parsed.machine == {"aarch64": AARCH64, "riscv64": RISCV, "hexagon": HEXAGON}[variant]


@pytest.mark.parametrize("cut", [0, 3, 4, 5, 16, 40, 63, 100, 300])
def test_a_damaged_file_is_an_error(cut):
    (data,) = compile_ir([PARTS], ARCHITECTURES["aarch64"].machine)
    with pytest.raises(DeviceError, match="no object file, or a damaged one"):
        read_object(data[:cut])


def test_an_executable_is_no_object_file():
    data = executable(bytes(16), 4, machine=RISCV, flags=0, wide=True, base=0x10000)
    with pytest.raises(DeviceError, match="not relocatable"):
        read_object(data)


def one(machine, kind, word, *, target=0x1234, addend=0, base=0x10000):
    """The word behind a relocation whose symbol lies at `target` from the base."""
    memory = bytearray(0x2000)
    struct.pack_into("<I", memory, 0x100, word)
    parsed = ObjectFile(machine, 0, bytes(memory), (Symbol("x", target, visible=True),),
                        (Relocation(0x100, kind, 0, addend),))
    return struct.unpack_from("<I", link(parsed, base), 0x100)[0]


# (processor, kind, instruction before, after): immediates worked out by hand from the manuals for
# a distance of 0x1234 - 0x100 = 0x1134 bytes.
@pytest.mark.parametrize(
    ("machine", "kind", "before", "after"),
    [(RISCV, 17, 0x0000006F, 0x1340106F),  # j: imm[20|10:1|11|19:12]
     (RISCV, 57, 0, 0x1134),
     (RISCV, 35, 1, 0x11235),
     (RISCV, 39, 0x11234, 0),
     (AARCH64, 283, 0x94000000, 0x9400044D),  # bl: distance / 4
     (AARCH64, 282, 0x14000000, 0x1400044D),
     (AARCH64, 275, 0x90000000, 0xB0000000),  # adrp: one page on
     (AARCH64, 277, 0x91000000, 0x9108D000),  # add #0x234
     (AARCH64, 285, 0xB9400000, 0xB9423400),  # ldr w, [x, #0x234]
     (AARCH64, 261, 0, 0x1134),
     (AARCH64, 274, 0x10000000, 0x100089A0),  # adr: 19 bits of distance / 4
     (AARCH64, 278, 0x39400000, 0x3948D000),  # ldrb w, [x, #0x234]
     (AARCH64, 284, 0x79400000, 0x79446800),  # ldrh: 0x234 / 2
     (HEXAGON, 1, 0x5A00C000, 0x5A00C89A),  # call: distance / 4 in bits 13:1 and 24:16
     (HEXAGON, 2, 0x5C00C000, 0x5C04C09A),  # if (p0) jump: bits 7:1, 13, 20:16, 23:22
     (HEXAGON, 16, 0x00004000, 0x00004044),  # immext: distance / 64
     (HEXAGON, 18, 0x5A00C000, 0x5A00C068),  # call ##: the low 6 bits
     (HEXAGON, 65, 0x6A494000, 0x6A495A00),  # r = add(pc, ##): 6 bits from bit 7
     (HEXAGON, 31, 0, 0x1134),
     (HEXAGON, 6, 0, 0x11234)])
def test_instructions_are_patched(machine, kind, before, after):
    assert one(machine, kind, before) == after


def test_pairs_of_instructions_are_patched():
    """auipc and what follows: the low half is signed, so the high half is rounded."""
    for target, high, low in ((0x1134, 1, 0x034), (0x19F4, 2, 0x8F4)):
        memory = bytearray(0x2000)
        struct.pack_into("<4I", memory, 0x100, 0x97, 0xE7, 0, 0x23)
        parsed = ObjectFile(
            RISCV, 0, bytes(memory), (Symbol("x", target, True), Symbol("here", 0x100, False)),
            (Relocation(0x100, 19, 0, 0),))
        words = struct.unpack_from("<2I", link(parsed, 0x4000), 0x100)
        assert words == (high << 12 | 0x97, low << 20 | 0xE7)
        parsed = parsed._replace(relocations=(
            Relocation(0x100, 23, 0, 0), Relocation(0x104, 24, 1, 0), Relocation(0x10C, 25, 1, 0)))
        words = struct.unpack_from("<4I", link(parsed, 0x4000), 0x100)
        assert words[:2] == (high << 12 | 0x97, low << 20 | 0xE7)
        assert words[3] == (low >> 5) << 25 | (low & 31) << 7 | 0x23


def test_a_branch_is_patched():
    # beq: 0x134 - 0x100 = 52 bytes on: imm[4:1] in bits 11:8, imm[10:5] in bits 30:25
    assert one(RISCV, 16, 0x00000063, target=0x134) == 0x02000A63
    assert one(RISCV, 16, 0x00000063, target=0xF0) == 0xFE0008E3


def test_short_jumps_are_patched():
    assert one(RISCV, 45, 0xA001, target=0x134) == 0xA815  # c.j +52
    assert one(RISCV, 44, 0xC001, target=0x134) == 0xC815  # c.beqz s0, +52


@pytest.mark.parametrize("machine", [RISCV, AARCH64, HEXAGON])
def test_an_unknown_relocation_is_an_error(machine):
    with pytest.raises(DeviceError, match="relocation of kind 250"):
        one(machine, 250, 0)


def test_a_jump_that_is_too_far_is_an_error():
    with pytest.raises(DeviceError, match="does not fit into 13 bits"):
        one(RISCV, 16, 0x63, target=0x1FFC)


def test_another_processor_is_an_error():
    with pytest.raises(DeviceError, match="processor number 62"):
        link(ObjectFile(62, 0, b"", (), ()), 0)
    assert set(relocate._PATCHES) == {RISCV, AARCH64, HEXAGON}
