"""REFERENCE: a device that interprets kernels as they leave the scheduler.

Slow and exact: it runs wherever numpy does, and other devices are compared with it. Its "text" is
the text form of the kernel's graph, its "binary" that text in UTF-8.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any, Final

import numpy as np

from core.foundation.errors import CoreError, DeviceError, OutOfMemoryError
from core.ir import ALL_DTYPES, Op, UOp, parse, text
from core.plugin import (
    Allocator,
    Compiler,
    LaunchSize,
    Loader,
    OpenDevice,
    Program,
    Renderer,
    Target,
)
from core.reference.formats import Array
from core.reference.run import run

GRAPH_FORMAT: Final = "graph"
_ALIGNMENT: Final = 64
#: Operands of one kernel: there is no limit, but the scheduler wants a number.
_MAX_BUFFERS: Final = 1 << 10


class ReferenceDevice(OpenDevice):
    """The interpreter."""

    def __init__(self) -> None:
        self.target = Target(
            name="REFERENCE",
            architecture="graph",
            dtypes=frozenset(d for d in ALL_DTYPES if d.bits),
            max_buffers=_MAX_BUFFERS,
            scratch_bytes=1 << 20,
            fork_safe=True,
            stage="kernel",
        )

    def synchronize(self) -> None:
        """Nothing runs in the background."""


class ArrayAllocator(Allocator):
    """Memory as flat numpy arrays of bytes."""

    def allocate(self, size_bytes: int) -> Array:
        """A fresh array, aligned to 64 bytes."""
        try:
            room = np.empty(size_bytes + _ALIGNMENT, np.uint8)
            skipped = -room.ctypes.data % _ALIGNMENT
            return room[skipped:skipped + size_bytes]
        except (MemoryError, ValueError) as error:
            raise OutOfMemoryError(f"numpy has no room for {size_bytes} bytes") from error

    def free(self, block: Array) -> None:
        """The array goes with its last reference."""

    def copy_in(self, block: Array, offset: int, source: memoryview) -> None:
        """Copy bytes into the array."""
        block[offset:offset + source.nbytes] = np.frombuffer(source, np.uint8)

    def copy_out(self, destination: memoryview, block: Array, offset: int) -> None:
        """Copy bytes out of the array."""
        view = np.frombuffer(destination, np.uint8)
        view[:] = block[offset:offset + view.nbytes]

    def view(self, block: Array, offset: int, size_bytes: int) -> Array:
        """A slice."""
        return block[offset:offset + size_bytes]

    def host_view(self, block: Array) -> memoryview:
        """The array's bytes."""
        return block.data

    def wrap(self, memory: memoryview) -> Array:
        """The memory as an array."""
        return np.frombuffer(memory, np.uint8)


class GraphCompiler(Compiler):
    """Nothing to compile, and nothing worth keeping on disk."""

    def compile(self, sources: Sequence[str]) -> list[bytes]:
        """The texts themselves."""
        return [source.encode() for source in sources]


class GraphRenderer(Renderer):
    """Writes a graph in its text form."""

    name = "GRAPH"
    binary_format = GRAPH_FORMAT
    code_for_op = frozenset(Op)

    def __init__(self) -> None:
        self.compiler = GraphCompiler()

    def render(self, name: str, linear: UOp) -> str:
        """The text of the kernel."""
        return text(linear)


class GraphProgram(Program):
    """A kernel that is interpreted."""

    def __init__(self, binary: bytes) -> None:
        self._kernel = parse(binary.decode())

    def __call__(
        self,
        buffers: Sequence[Any],
        scalars: Sequence[int | float],
        global_size: LaunchSize = (1, 1, 1),
        local_size: LaunchSize = (1, 1, 1),
        wait: bool = False,
    ) -> float | None:
        """Interpret it once; returns seconds if asked to wait."""
        start = perf_counter()
        run(self._kernel, buffers, scalars)
        return perf_counter() - start if wait else None


class GraphLoader(Loader):
    """Reads the text form."""

    def load(self, name: str, binary: bytes) -> Program:
        """A program that interprets the kernel.

        Raises:
            DeviceError: The binary is no text of a graph.
        """
        try:
            return GraphProgram(binary)
        except (ValueError, LookupError, CoreError) as error:
            raise DeviceError(f"the binary of {name} is no graph: {str(error)[:200]}") from error
