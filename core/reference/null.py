"""NULL: a device that plans and compiles but executes nothing and holds no bytes.

For measuring compilers, counting kernels, and plans larger than memory. Reading from it gives
zeros. Its target looks like a processor with two cores and 256-bit vectors, so that all of code
generation runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from core.ir import ALL_DTYPES
from core.plugin import (
    Allocator,
    Compiler,
    LaunchSize,
    Loader,
    OpenDevice,
    Program,
    Target,
)
from core.reference.device import GraphRenderer

NULL_FORMAT: Final = "none"


class NullDevice(OpenDevice):
    """Nothing, with the data of a common processor."""

    def __init__(self) -> None:
        self.target = Target(
            name="NULL",
            architecture="none",
            dtypes=frozenset(d for d in ALL_DTYPES if d.bits),
            vector_bytes=32,
            l2_bytes=2 << 20,
            cores=2,
            has_threads=True,
            scratch_bytes=1 << 20,
            fma=True,
            fork_safe=True,
            wide_index=True,
        )

    def synchronize(self) -> None:
        """Nothing ever runs."""


class NullAllocator(Allocator):
    """Blocks are their sizes."""

    def allocate(self, size_bytes: int) -> int:
        """The size: nothing is allocated."""
        return size_bytes

    def free(self, block: int) -> None:
        """Nothing to give back."""

    def copy_in(self, block: int, offset: int, source: memoryview) -> None:
        """The bytes are dropped."""

    def copy_out(self, destination: memoryview, block: int, offset: int) -> None:
        """Zeros."""
        destination[:] = bytes(destination.nbytes)

    def view(self, block: int, offset: int, size_bytes: int) -> int:
        """The size of the part."""
        return size_bytes


class NullCompiler(Compiler):
    """Makes empty binaries."""

    def compile(self, sources: Sequence[str]) -> list[bytes]:
        """An empty binary for each text."""
        return [b""] * len(sources)


class NullRenderer(GraphRenderer):
    """Prints a program as text of the IR; takes every op, as a device that has all would."""

    name = "TEXT"
    binary_format = NULL_FORMAT

    def __init__(self) -> None:
        self.compiler = NullCompiler()


class NullProgram(Program):
    """Does nothing."""

    def __call__(
        self,
        buffers: Sequence[int],
        scalars: Sequence[int | float],
        global_size: LaunchSize = (1, 1, 1),
        local_size: LaunchSize = (1, 1, 1),
        wait: bool = False,
    ) -> float | None:
        """Return at once."""
        return 0.0 if wait else None


class NullLoader(Loader):
    """Loads nothing."""

    def load(self, name: str, binary: bytes) -> Program:
        """A program that does nothing."""
        return NullProgram()
