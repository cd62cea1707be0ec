"""The instruction sets: how code is made for each, how its emulator is started, what it can do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from core.ir import DType, Op, dtypes
from core.plugin import Target
from core.render import code_for_op
from core.toolchain import Machine
from core_plugin_qemu import hexagon

_INTEGERS: Final = frozenset({
    dtypes.bool, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64, dtypes.uint8,
    dtypes.uint16, dtypes.uint32, dtypes.uint64,
})
_FLOATS: Final = frozenset({dtypes.float32, dtypes.float64})
_MEBIBYTE: Final = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """An instruction set, as emulated.

    Args:
        name: The device's variant.
        machine: What LLVM makes code for.
        options: Of the emulator: which processor it is.
        word_bits: Bits of an address.
        system_call: Machine code of a function that makes a system call: it moves its first
            argument to where the system wants the call's number, the six others to where it wants
            arguments, traps and returns. LLVM cannot be asked for it: llvmlite has no assembler for
            other processors than the host's, and aborts on inline assembly.
        memory_at: Where memory should be mapped; 0: anywhere.
        memory_bytes: Largest memory that the emulated process can map.
        code_bytes: How much of it is for kernels.
        vector_bytes: Bytes of a vector. RISC-V has no such registers here, LLVM makes
            scalars of one: as fast as one at a time, and sums have several parts, so that they
            round less and in the same order as elsewhere. LLVM's code for Hexagon does not
            survive that (loads of bytes are misaligned): 4 bytes are one scalar.
        registers: Vectors that fit into the registers.
        converts_half: Whether instructions convert between float16 and float32.
        complete: Adds to a program's text what LLVM lacks for this processor.
        lacking: Operations of the renderer that take a library call here, which core decomposes.
    """

    name: str
    machine: Machine
    options: tuple[str, ...]
    word_bits: int
    system_call: bytes
    memory_bytes: int
    code_bytes: int
    vector_bytes: int
    registers: int
    converts_half: bool
    memory_at: int = 0
    complete: Callable[[str], str] = str
    lacking: frozenset[Op] = frozenset()

    @property
    def emulator(self) -> str:
        """The emulator's command."""
        return f"qemu-{self.name}"

    @property
    def operations(self) -> frozenset[Op]:
        """What the renderer prints for it."""
        return code_for_op() - self.lacking

    @property
    def target(self) -> Target:
        """What kernels may use. The cost of everything is that of an emulator."""
        half: frozenset[DType] = frozenset({dtypes.float16} if self.converts_half else ())
        wide = self.word_bits == 64
        return Target(
            name="QEMU", architecture=self.machine.architecture,
            dtypes=_INTEGERS | _FLOATS | half, storage_dtypes=half,
            vector_bytes=self.vector_bytes, vector_registers=self.registers,
            l2_bytes=512 * 1024, scratch_bytes=_MEBIBYTE // 4, fma=Op.MULACC in self.operations,
            asynchronous=True, wide_index=wide, flop_nanoseconds=2.0,
            dram_byte_nanoseconds=0.25, cache_byte_nanoseconds=0.25, launch_nanoseconds=1000.0)


# mv a7,a0; mv a0,a1; mv a1,a2; mv a2,a3; mv a3,a4; mv a4,a5; mv a5,a6; ecall; ret
_RISCV_CALL: Final = "aa882e85b2853686ba863e87c287730000008280"
# mov x8,x0; mov x0,x1; mov x1,x2; mov x2,x3; mov x3,x4; mov x4,x5; mov x5,x6; svc #0; ret
_AARCH64_CALL: Final = "e80300aae00301aae10302aae20303aae30304aae40305aae50306aa010000d4c0035fd6"
# r6=r0; r0=r1; r1=r2; r2=r3; r3=r4; r4=r5; r5=memw(r29+#0); trap0(#1); jumpr r31
_HEXAGON_CALL: Final = "06c0607000c0617001c0627002c0637003c0647004c0657005c09d9104c0005400c09f52"

ARCHITECTURES: Final = {a.name: a for a in (
    Architecture(
        name="aarch64", machine=Machine("aarch64-unknown-linux-gnu"), options=("-cpu", "max"),
        word_bits=64, system_call=bytes.fromhex(_AARCH64_CALL), memory_bytes=1 << 40,
        code_bytes=128 * _MEBIBYTE, vector_bytes=16, registers=32, converts_half=True),
    Architecture(
        # Without the vector extension: under the emulator it is slower than scalar code, and
        # conversions of vectors from float to integer crash version 7.2.
        name="riscv64",
        machine=Machine("riscv64-unknown-linux-gnu", "generic-rv64", "+m,+a,+f,+d,+c,+zfh"),
        options=("-cpu", "rv64,Zfh=true"), word_bits=64,
        system_call=bytes.fromhex(_RISCV_CALL), memory_bytes=1 << 40,
        code_bytes=128 * _MEBIBYTE, vector_bytes=16, registers=8, converts_half=True),
    Architecture(
        name="hexagon", machine=Machine("hexagon-unknown-linux-musl", "hexagonv67"), options=(),
        word_bits=32, system_call=bytes.fromhex(_HEXAGON_CALL), memory_bytes=7 << 28,
        code_bytes=32 * _MEBIBYTE, vector_bytes=4, registers=16, converts_half=False,
        # LLVM's trap is a load from 0xBADC0FEE, which must not be there.
        memory_at=1 << 28, complete=hexagon.complete, lacking=frozenset({Op.MULACC, Op.TRUNC})),
)}
