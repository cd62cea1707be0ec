"""The open hooks of the CPU: renderer and compiler, memory, loading and running programs."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from time import perf_counter
from typing import Any, Final

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
    Renderer,
    hookimpl,
)
from core.render import code_for_op, render_llvm
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
from core_plugin_cpu.pool import Function, ThreadPool

_FORMAT: Final = "object"
_SIGNATURE: Final = ctypes.CFUNCTYPE(
    None, ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
_SIGN: Final = 1 << 63


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
        pool: Runs the parts of kernels with a threaded loop.
    """

    def __init__(self, name: str, binary: bytes, pool: ThreadPool) -> None:
        self._loaded = LoadedObject(binary, name)  # keeps the code in memory
        self.address = self._loaded.addresses[name]
        self._function: Function = _SIGNATURE(self.address)
        self._pool = pool

    def __call__(
        self,
        buffers: Sequence[HostBlock],
        scalars: Sequence[int | float] = (),
        global_size: LaunchSize = (1, 1, 1),
        local_size: LaunchSize = (1, 1, 1),
        wait: bool = False,
    ) -> float | None:
        """Run the kernel.

        `global_size[0]` is the number of items of its threaded loop, `local_size[0]` how many of
        them a thread takes at a time.
        """
        arguments = struct.pack(f"{len(buffers)}Q", *[block.address for block in buffers])
        for value in scalars:
            arguments += _slot(value)
        items, start = global_size[0], perf_counter() if wait else 0.0
        if items > 1:
            self._pool.run(self._function, arguments, items, local_size[0])
        else:
            self._function(arguments, 0, items, 0)
        return perf_counter() - start if wait else None


def _slot(value: Any) -> bytes:
    """The 8 bytes of a scalar argument: a double, or an integer modulo 2^64."""
    if isinstance(value, float):
        return struct.pack("d", value)
    return struct.pack("Q", value & (2 * _SIGN - 1))


class HostLoader(Loader):
    """Loads object files."""

    def __init__(self, pool: ThreadPool) -> None:
        self._pool = pool

    def load(self, name: str, binary: bytes) -> Program:
        """The function `name`, ready to run."""
        return HostProgram(name, binary, self._pool)


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
