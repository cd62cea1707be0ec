"""LLVM IR text → object code: the pass SROA and code generation, nothing else.

The renderers write explicit vectors and leave nothing to vectorise, hoist or combine, so the
pipeline of passes is as short as it can be: SROA turns private arrays into registers. A matmul
compiled with the O2 pipeline takes twice as long to compile and runs 0 to 7 % faster, within the
spread of the measurements.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from core.foundation.errors import CompileError
from core.foundation.lazy_import import lazy_import
from core.toolchain.elf import undefined_symbols
from core.toolchain.machine import Machine

if TYPE_CHECKING:
    import llvmlite
    from llvmlite import binding
else:
    llvmlite = lazy_import("llvmlite", "compiling for a processor")
    binding = lazy_import("llvmlite.binding", "compiling for a processor")

_LEVEL: Final = 1  # of code generation: scheduling, register allocation, no fast selection
_LINE: Final = re.compile(r":(\d+):\d+: (?:error: )?(.*)")
_lock: Final = threading.Lock()


def compiler_identity(machine: Machine) -> str:
    """All that object code depends on besides the text: a cache key."""
    version = ".".join(map(str, binding.llvm_version_info))
    made_by = f"llvmlite {llvmlite.__version__}, LLVM {version}, level {_LEVEL}"
    return f"{made_by}, {machine.architecture}"


@cache
def _initialize() -> None:
    """Make every target known, once."""
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()


@cache
def _target_machine(machine: Machine) -> tuple[Any, Any]:
    """LLVM's target machine, and the builder of passes that asks it."""
    _initialize()
    try:
        target = binding.Target.from_triple(machine.triple)
    except RuntimeError as error:
        message = f"this LLVM makes no code for {machine.triple}: {error}"
        raise CompileError(message, cure="name a triple that llvmlite supports") from error
    made = target.create_target_machine(
        cpu=machine.cpu, features=machine.features, opt=_LEVEL, reloc="pic", codemodel="small")
    return made, binding.create_pass_builder(made, binding.create_pipeline_tuning_options(0))


def _parsed(source: str, machine: Machine) -> Any:
    """The module of a text, in registers."""
    _, builder = _target_machine(machine)
    try:
        module = binding.parse_assembly(source)
        module.verify()
    except RuntimeError as error:
        raise CompileError(_explain(str(error), source), graph=source) from error
    module.triple = machine.triple
    passes = binding.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.run(module, builder)
    return module


def _explain(message: str, source: str) -> str:
    """LLVM's words, and the line they are about."""
    found = _LINE.search(message)
    if found is None:
        return f"LLVM refuses the program: {message.strip()}"
    number = int(found[1])
    line = source.splitlines()[number - 1].strip() if number <= source.count("\n") else ""
    return f"LLVM refuses line {number} of the program: {found[2].strip()}\n{line}"


def compile_ir(sources: Sequence[str], machine: Machine) -> list[bytes]:
    """Object code, one relocatable file for each text.

    Args:
        sources: Texts of LLVM IR modules.
        machine: What to make code for.

    Raises:
        CompileError: LLVM refuses a text, or code needs a function of a library: kernels stand
            alone, an operation that the processor lacks should have been decomposed.
    """
    objects = []
    # One at a time: LLVM's global context is shared by all threads.
    with _lock:
        for source in sources:
            made, _ = _target_machine(machine)
            code = made.emit_object(_parsed(source, machine))
            missing = undefined_symbols(code)
            if missing:
                message = f"code for {machine.cpu} needs the functions {', '.join(missing)}"
                raise CompileError(message, graph=source)
            objects.append(code)
    return objects


def assembly(source: str, machine: Machine) -> str:
    """Assembly of a text, for people.

    Raises:
        CompileError: LLVM refuses the text.
    """
    with _lock:
        made, _ = _target_machine(machine)
        return str(made.emit_assembly(_parsed(source, machine)))
