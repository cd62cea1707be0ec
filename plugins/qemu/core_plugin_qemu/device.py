"""The open hooks of the emulated processors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from core.ir import Op, UOp
from core.plugin import (
    Allocator,
    CompileError,
    Compiler,
    DeviceSpec,
    Loader,
    OpenDevice,
    Renderer,
    hookimpl,
)
from core.render import render_llvm
from core.toolchain import assembly, compile_ir, compiler_identity
from core_plugin_qemu.architectures import ARCHITECTURES, Architecture
from core_plugin_qemu.elf import read_object
from core_plugin_qemu.memory import SharedAllocator, SharedMemory
from core_plugin_qemu.program import EmulatedLoader
from core_plugin_qemu.runner import Runner

_FORMAT: Final = "elf-object"


class EmulatedDevice(OpenDevice):
    """A processor in an emulator's process.

    Attributes:
        architecture: Its instruction set.
        memory: What it shares with this process.
        runner: Runs its kernels.
    """

    def __init__(self, architecture: Architecture) -> None:
        self.architecture, self.target = architecture, architecture.target
        self.memory = SharedMemory(architecture.memory_bytes, architecture.code_bytes)
        try:
            self.runner = Runner(architecture, self.memory)
        except BaseException:
            self.memory.close()
            raise

    def synchronize(self) -> None:
        """Return when all launches are done."""
        self.runner.synchronize()

    def close(self) -> None:
        """End the emulator."""
        self.runner.close()
        self.memory.close()


class CrossCompiler(Compiler):
    """LLVM, in this process, for another processor."""

    def __init__(self, architecture: Architecture) -> None:
        self._machine = architecture.machine
        self.key = compiler_identity(architecture.machine)

    def compile(self, sources: Sequence[str]) -> list[bytes]:
        """An object file for each text, which needs nothing from elsewhere."""
        binaries = compile_ir(sources, self._machine)
        for source, binary in zip(sources, binaries, strict=True):
            missing = read_object(binary).undefined
            if missing:
                raise CompileError(
                    f"code for {self._machine.cpu} needs the functions {', '.join(missing)}",
                    graph=source)
        return binaries


class CrossRenderer(Renderer):
    """Prints LLVM IR."""

    name = "LLVM"
    priority = 100
    binary_format = _FORMAT

    def __init__(self, architecture: Architecture) -> None:
        self._architecture = architecture
        self.compiler = CrossCompiler(architecture)
        self.code_for_op: frozenset[Op] = architecture.operations

    def render(self, name: str, linear: UOp) -> str:
        """The text of a module with one function, and of those that LLVM calls by itself."""
        return self._architecture.complete(render_llvm(name, linear))

    def assembly(self, source: str) -> str:
        """What the processor will run, as text."""
        return assembly(source, self._architecture.machine)


@hookimpl
def core_open_device(spec: DeviceSpec, variant: int | str) -> OpenDevice:
    """Start the emulator of a variant."""
    return EmulatedDevice(ARCHITECTURES[str(variant)])


@hookimpl
def core_renderers(device: OpenDevice) -> Sequence[Renderer]:
    """LLVM IR for the emulated processor."""
    return (CrossRenderer(device.architecture),) if isinstance(device, EmulatedDevice) else ()


@hookimpl
def core_allocator(device: OpenDevice) -> Allocator | None:
    """Memory that both sides see."""
    if isinstance(device, EmulatedDevice):
        return SharedAllocator(device.memory, device.synchronize)
    return None


@hookimpl
def core_loader(device: OpenDevice, binary_format: str) -> Loader | None:
    """The loader of object files."""
    if isinstance(device, EmulatedDevice) and binary_format == _FORMAT:
        return EmulatedLoader(device.runner)
    return None
