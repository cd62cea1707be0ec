"""LLVM IR for AMD's graphics processors: what core's writer of LLVM IR writes differently here.

    define amdgpu_kernel void @name(ptr addrspace(1) %p0, ..., i64 %s0, ...)

Arguments are 8 bytes each, as everywhere in core, so that the kernel argument segment is the table
of slots. Addresses are flat (address space 0); LLVM finds out of which space they come. Work-group
memory is in space 3, private arrays in space 5, constants in space 4 (LLVM, User Guide for AMDGPU
Backend, "Address Spaces"). Code objects are of version 4, which every ROCm since 4.5 loads.

Nothing here was run: no AMD card was at hand. That every operation compiles, for four processors,
is tested.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from core.foundation.errors import CompileError
from core.ir import AddressSpace, Op, UOp, dtypes
from core.plugin import Compiler, Renderer
from core.render import ProgramWriter, code_for_op
from core.render.items import parameters
from core.render.llvm_arithmetic import cast
from core.render.llvm_text import memory_type
from core.toolchain import Machine, compile_ir, compiler_identity

#: Processors whose code is tested: CDNA 2 and 3, RDNA 3 and 4.
PROCESSORS: Final = ("gfx90a", "gfx942", "gfx1100", "gfx1201")
FORMAT: Final = "amdgcn"
_TRIPLE: Final = "amdgcn-amd-amdhsa"
_AXES: Final = "xyz"
_INDEX: Final = {"g": "llvm.amdgcn.workgroup.id", "l": "llvm.amdgcn.workitem.id"}
_ZEROS: Final = "@zeros = private unnamed_addr constant"
_VERSION: Final = """!llvm.module.flags = !{!99}
!99 = !{i32 1, !"amdhsa_code_object_version", i32 400}
"""


class AmdgcnWriter(ProgramWriter):
    """Writes one kernel."""

    silent = ProgramWriter.silent - {Op.BARRIER}

    def __init__(self, items: Sequence[UOp]) -> None:
        super().__init__(items)
        self.shared: list[str] = []
        self.sizes = [1, 1, 1]
        self.write_item |= {Op.SPECIAL: self._special, Op.BARRIER: self._barrier}
        for op in (Op.CALL, Op.GETADDR, Op.INS):
            self.write_item.pop(op)

    def write(self, name: str) -> str:
        """The whole module."""
        text = super().write(name)
        kinds = [self._kind(p) for p in parameters(self.items)]
        arguments = ", ".join(f"{kind} %p{k}" for k, kind in enumerate(kinds))
        head = f"define amdgpu_kernel void @{name}({arguments}) #0 {{"
        items = self.sizes[0] * self.sizes[1] * self.sizes[2]
        old = text[text.index("define void"):text.index("{\nentry:") + 1]
        text = text.replace(old, head, 1)
        text = text.replace("ptr @zeros", "ptr addrspacecast (ptr addrspace(4) @zeros to ptr)")
        text = text.replace(_ZEROS, _ZEROS.replace("constant", "addrspace(4) constant"))
        attributes = f'nounwind "amdgpu-flat-work-group-size"="{items},{items}"'
        return "\n".join([f'target triple = "{_TRIPLE}"', *self.shared, text,
                          f"attributes #0 = {{ {attributes} }}", _VERSION])

    @staticmethod
    def _kind(node: UOp) -> str:
        if node.arg.space is not AddressSpace.ALU:
            return "ptr addrspace(1)"
        return "double" if node.dtype.is_float else "i64"

    def _param(self, node: UOp) -> None:
        if node in self.values:
            return
        argument = f"%p{self.slots[node]}"
        if node.arg.space is not AddressSpace.ALU:
            self.values[node] = self._flat(f"ptr addrspace(1) {argument}")
            return
        stored = dtypes.float64 if node.dtype.is_float else dtypes.int64
        value = argument if node.dtype.is_weak else cast(
            self.function, stored, node.dtype, 0, argument)
        self._define(node, value)

    def _flat(self, pointer: str) -> str:
        name = self.function.name()
        self.function.entry.append(f"  {name} = addrspacecast {pointer} to ptr")
        return name

    def _buffer(self, node: UOp) -> None:
        if node in self.values:
            return
        array = f"[{int(node.shape[0]) if node.shape else 1} x {memory_type(node.dtype)}]"
        if node.arg.space is AddressSpace.LOCAL:
            name = f"@shared{len(self.shared)}"
            self.shared.append(f"{name} = internal addrspace(3) global {array} undef, align 16")
            self.values[node] = self._flat(f"ptr addrspace(3) {name}")
        elif node.arg.space is AddressSpace.REG:
            name = self.function.name()
            self.function.entry.append(f"  {name} = alloca {array}, align 16, addrspace(5)")
            self.values[node] = self._flat(f"ptr addrspace(5) {name}")
        else:
            raise CompileError(f"a program holds storage that is not private to it: {node!r}")

    def _special(self, node: UOp) -> None:
        kind, axis = str(node.arg)[0], int(str(node.arg)[1:])
        if kind == "l":
            self.sizes[axis] = int(node.src[0].value)
        index = self.function.intrinsic(f"{_INDEX[kind]}.{_AXES[axis]}", "i32")
        self._define(node, cast(self.function, dtypes.uint32, node.dtype, 0, index))

    def _barrier(self, _node: UOp) -> None:
        self.function.say('fence syncscope("workgroup") release')
        self.function.intrinsic("llvm.amdgcn.s.barrier", "void")
        self.function.say('fence syncscope("workgroup") acquire')


def render_amdgcn(name: str, linear: UOp) -> str:
    """The text of a module with one kernel.

    Args:
        name: A C identifier.
        linear: LINEAR of the program's items in order.

    Raises:
        CompileError: An item has no form in LLVM IR: it should have been lowered.
    """
    return AmdgcnWriter(linear.src).write(name)


class AmdgcnCompiler(Compiler):
    """LLVM's backend for one processor.

    Args:
        processor: LLVM's name of it: "gfx942".
    """

    def __init__(self, processor: str) -> None:
        self._machine = Machine(_TRIPLE, processor)
        self.key = f"amdgcn 1 {compiler_identity(self._machine)} {processor}"

    def compile(self, sources: Sequence[str]) -> list[bytes]:
        """A relocatable code object for each text."""
        return compile_ir(sources, self._machine)


class AmdgcnRenderer(Renderer):
    """LLVM IR for one processor; chosen by `AMD::LLVM` where something loads its code objects.

    Args:
        processor: LLVM's name of it.
    """

    name = "LLVM"
    binary_format = FORMAT
    priority = -1  # OpenCL C is what has run

    def __init__(self, processor: str) -> None:
        self.code_for_op = code_for_op()
        self.compiler = AmdgcnCompiler(processor)

    def render(self, name: str, linear: UOp) -> str:
        """The text of a kernel."""
        return render_amdgcn(name, linear)
