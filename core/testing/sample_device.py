"""The smallest device that opens: its memory is bytearrays and its kernels do nothing.

Tests of the registry build plugins from it; a plugin that must be broken in one way replaces one
hook. It runs no programs, so it is not a model for a real device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from core.ir import UOp, dtypes
from core.plugin import (
    Allocator,
    Block,
    Compiler,
    DeviceSpec,
    LaunchSize,
    Loader,
    OpenDevice,
    Program,
    Renderer,
    Target,
    hookimpl,
)


class SampleDevice(OpenDevice):
    """A handle that counts how often it was closed."""

    def __init__(self, spec: DeviceSpec, variant: int | str) -> None:
        self.spec, self.variant = spec, variant
        self.closed = 0
        self.target = Target(
            name=spec.name, architecture="sample", dtypes=frozenset({dtypes.float32})
        )

    def synchronize(self) -> None:
        """Nothing is ever running."""

    def close(self) -> None:
        """Count."""
        self.closed += 1


class SampleAllocator(Allocator):
    """Memory in bytearrays."""

    def allocate(self, size_bytes: int) -> Block:
        """A bytearray."""
        return bytearray(size_bytes)

    def free(self, block: Block) -> None:
        """Left to Python."""

    def copy_in(self, block: Block, offset: int, source: memoryview) -> None:
        """Copy."""
        block[offset : offset + len(source)] = source

    def copy_out(self, destination: memoryview, block: Block, offset: int) -> None:
        """Copy."""
        destination[:] = block[offset : offset + len(destination)]

    def view(self, block: Block, offset: int, size_bytes: int) -> Block:
        """The same bytes under another name."""
        return memoryview(block)[offset:offset + size_bytes]

    def host_view(self, block: Block) -> memoryview:
        """The bytes themselves."""
        return memoryview(block)


class SampleCompiler(Compiler):
    """A binary is the text's bytes."""

    key = "sample-1"

    def compile(self, sources: Sequence[str]) -> list[bytes]:
        """Encode."""
        return [source.encode() for source in sources]


class SampleRenderer(Renderer):
    """Prints the program's name."""

    name = "SAMPLE"
    binary_format = "sample"
    compiler = SampleCompiler()
    code_for_op: Any = frozenset()

    def __init__(
        self, name: str = "SAMPLE", priority: int = 0, binary_format: str = "sample"
    ) -> None:
        self.name, self.priority, self.binary_format = name, priority, binary_format

    def render(self, name: str, linear: UOp) -> str:
        """The name alone."""
        del linear
        return name


class SampleProgram(Program):
    """Does nothing."""

    def __call__(
        self,
        buffers: Sequence[Block],
        scalars: Sequence[int | float],
        global_size: LaunchSize = (1, 1, 1),
        local_size: LaunchSize = (1, 1, 1),
        wait: bool = False,
    ) -> float | None:
        """Do nothing in no time."""
        return 0.0 if wait else None


class SampleLoader(Loader):
    """Loads anything."""

    def load(self, name: str, binary: bytes) -> Program:
        """A program that does nothing."""
        del name, binary
        return SampleProgram()


@hookimpl
def core_open_device(spec: DeviceSpec, variant: int | str) -> OpenDevice:
    """Open."""
    return SampleDevice(spec, variant)


@hookimpl
def core_renderers() -> list[Renderer]:
    """One renderer."""
    return [SampleRenderer()]


@hookimpl
def core_allocator() -> Allocator:
    """The allocator."""
    return SampleAllocator()


@hookimpl
def core_loader(binary_format: str) -> Loader | None:
    """The loader of the one format."""
    return SampleLoader() if binary_format == "sample" else None
