"""The open hooks of the CPU: renderer and compiler, memory, loading and running programs."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Final

from core.ir import Op, UOp
from core.plugin import (
    Allocator,
    Compiler,
    DeviceError,
    DeviceSpec,
    LaunchSize,
    Loader,
    OpenDevice,
    Program,
    RecordedCall,
    Recording,
    Renderer,
    hookimpl,
)
from core.render import code_for_op, pack_arguments, render_llvm
from core.toolchain import (
    LoadedObject,
    Machine,
    assembly,
    compile_ir,
    compiler_identity,
    host_machine,
)
from core_plugin_cpu.host import host_target
from core_plugin_cpu.memory import HostAllocator, HostBlock
from core_plugin_cpu.pool import SIGNATURE, ThreadPool
from core_plugin_cpu.recording import HostRecording

_FORMAT: Final = "object"


class HostDevice(OpenDevice):
    """The host's processor.

    Attributes:
        machine: What code is made for.
        pool: The threads that run kernels.
    """

    def __init__(self) -> None:
        self.machine: Machine = host_machine()
        self.target = host_target(self.machine)
        self.pool = ThreadPool(self.target.cores)

    def synchronize(self) -> None:
        """Nothing runs in the background: a launch returns when the kernel is done."""

    def close(self) -> None:
        """End the threads."""
        self.pool.close()


class HostCompiler(Compiler):
    """LLVM, in this process."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.key = compiler_identity(machine)

    def compile(self, sources: Sequence[str]) -> list[bytes]:
        """An object file for each text."""
        return compile_ir(sources, self.machine)


class HostRenderer(Renderer):
    """Prints LLVM IR."""

    name = "LLVM"
    priority = 100
    binary_format = _FORMAT

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.compiler = HostCompiler(machine)
        self.code_for_op: frozenset[Op] = code_for_op(
            fma=machine.has_fma, rounding=machine.has_rounding)

    def render(self, name: str, linear: UOp) -> str:
        """The text of a module with one function."""
        return render_llvm(name, linear)

    def assembly(self, source: str) -> str:
        """What the processor will run, as text."""
        return assembly(source, self.machine)


class HostProgram(Program):
    """A function in this process's memory.

    Args:
        name: Symbol of the function.
        binary: Object file.
    """

    def __init__(self, name: str, binary: bytes) -> None:
        self._loaded = LoadedObject(binary, name)  # keeps the code in memory
        self.address = self._loaded.addresses[name]
        self._function = SIGNATURE(self.address)

    def __call__(
        self,
        buffers: Sequence[HostBlock],
        scalars: Sequence[int | float] = (),
        global_size: LaunchSize = (1, 1, 1),
        local_size: LaunchSize = (1, 1, 1),
        wait: bool = False,
    ) -> float | None:
        """Run the kernel on this thread; `global_size[0]` is the number of items of its loop.

        core records its launches, and a recording shares them among threads; this is for others.
        """
        arguments = ctypes.create_string_buffer(
            pack_arguments((block.address for block in buffers), scalars))
        start = perf_counter() if wait else 0.0
        self._function(ctypes.addressof(arguments), 0, global_size[0], 0)
        return perf_counter() - start if wait else None


class HostLoader(Loader):
    """Loads object files."""

    def __init__(self, pool: ThreadPool) -> None:
        self._pool = pool

    def load(self, name: str, binary: bytes) -> Program:
        """The function `name`, ready to run."""
        return HostProgram(name, binary)

    def record(self, calls: Sequence[RecordedCall], support: Mapping[str, bytes]) -> Recording:
        """Calls that the device's threads run together."""
        self._pool.prepare(support)
        return HostRecording(calls, self._pool)


@hookimpl
def core_open_device(spec: DeviceSpec, variant: int | str) -> OpenDevice:
    """Open the host; there is one."""
    if variant not in (0, ""):
        raise DeviceError(
            f"there is no {spec.name}:{variant}: the host is one device with all its cores",
            cure=f"use {spec.name}; the setting THREADS limits its threads")
    return HostDevice()


@hookimpl
def core_renderers(device: OpenDevice) -> Sequence[Renderer]:
    """LLVM IR for the host."""
    return (HostRenderer(device.machine),) if isinstance(device, HostDevice) else ()


@hookimpl
def core_allocator(device: OpenDevice) -> Allocator | None:
    """The host's memory."""
    return HostAllocator() if isinstance(device, HostDevice) else None


@hookimpl
def core_loader(device: OpenDevice, binary_format: str) -> Loader | None:
    """The loader of object files."""
    if isinstance(device, HostDevice) and binary_format == _FORMAT:
        return HostLoader(device.pool)
    return None
