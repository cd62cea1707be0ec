"""From LLVM IR text to machine code in memory, for any triple, through llvmlite.

Only plugins that depend on llvmlite import this package; llvmlite itself is imported when the
first program is compiled.
"""

from core.toolchain.llvm import assembly, compile_ir, compiler_identity
from core.toolchain.load import LoadedObject, load_object
from core.toolchain.machine import Machine, host_machine, target_of

__all__ = [
    "LoadedObject", "Machine", "assembly", "compile_ir", "compiler_identity", "host_machine",
    "load_object", "target_of",
]
