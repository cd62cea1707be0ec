"""NVIDIA's runtime compiler: CUDA C to PTX, or to a cubin for one architecture."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from re import findall
from typing import TYPE_CHECKING, Any, Final

from core.foundation.lazy_import import lazy_import
from core.plugin import CompileError, Compiler, DeviceError
from core_plugin_cuda.cuda_c import FLAGS, HEADER

if TYPE_CHECKING:
    nvrtc: Any
else:
    nvrtc = lazy_import("cuda.bindings.nvrtc", "compiling for NVIDIA's processors")

_OPTIONS: Final = ("--minimal", "--std=c++17", *FLAGS)
_SEPARATOR: Final = b"\n"


@dataclass(frozen=True)
class Resources:
    """What a kernel takes on a processor, in the assembler's words.

    Attributes:
        architecture: ``"sm_80"``.
        registers: Of a thread.
        shared_bytes: Of a work group.
        spilled_bytes: Stores of registers to memory.
    """

    architecture: str
    registers: int
    shared_bytes: int
    spilled_bytes: int


@cache
def compiler_version() -> str:
    """The compiler's release.

    Raises:
        DeviceError: It is not installed.
    """
    try:
        status, major, minor = nvrtc.nvrtcVersion()
    except Exception as error:
        raise DeviceError(f"NVIDIA's compiler does not load: {error}",
                          cure="pip install cuda-bindings nvidia-cuda-nvrtc") from error
    _check(status)
    return f"{major}.{minor}"


def _check(status: Any) -> None:
    if int(status):
        raise CompileError(f"NVIDIA's compiler fails: {status.name}")


def _text(size_of: Any, read: Any, program: Any) -> bytes:
    status, size = size_of(program)
    _check(status)
    found = b" " * size
    _check(read(program, found)[0])
    return found


def compile_text(source: str, architecture: str, *options: str) -> tuple[bytes, str]:
    """(PTX for "compute_80", a cubin for "sm_80"; what the compiler said).

    Raises:
        CompileError: The compiler refuses the text, in its words.
    """
    compiler_version()
    status, program = nvrtc.nvrtcCreateProgram(source.encode(), b"kernel.cu", 0, [], [])
    _check(status)
    try:
        flags = [f"--gpu-architecture={architecture}".encode(),
                 *(option.encode() for option in (*_OPTIONS, *options))]
        (status,) = nvrtc.nvrtcCompileProgram(program, len(flags), flags)
        log = _text(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
        said = log.rstrip(b"\0 ").decode(errors="replace")
        if int(status):
            raise CompileError(f"NVIDIA's compiler refuses the program: {said}", graph=source)
        if architecture.startswith("compute"):
            made = _text(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program).rstrip(b"\0")
        else:
            made = _text(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program)
        return made, said
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def resources(source: str, architecture: str) -> Resources:
    """Compile a kernel for a processor and read what it takes.

    Args:
        source: CUDA C with one kernel.
        architecture: ``"sm_80"``, ``"sm_90"``, ``"sm_100"``; no such processor is needed.

    Raises:
        CompileError: The compiler refuses it.
    """
    _, said = compile_text(source, architecture, "--ptxas-options=-v")

    def number(pattern: str) -> int:
        return sum(map(int, findall(pattern, said)))

    return Resources(architecture, number(r"Used (\d+) registers"), number(r"(\d+) bytes smem"),
                     number(r"(\d+) bytes spill stores"))


class NvrtcCompiler(Compiler):
    """Compiles for one architecture, several texts at a time.

    Args:
        architecture: ``"compute_80"`` makes PTX, ``"sm_80"`` a cubin.
    """

    def __init__(self, architecture: str) -> None:
        self._architecture = architecture
        self.key = " ".join(("nvrtc 1", compiler_version(), architecture, *_OPTIONS))

    def compile(self, sources: Sequence[str]) -> list[bytes]:
        """One binary per text: a line about its arguments, then the compiler's."""
        if len(sources) == 1:
            return [self._compiled(sources[0])]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return list(pool.map(self._compiled, sources))

    def _compiled(self, source: str) -> bytes:
        header = source.split("\n", 1)[0].removeprefix(HEADER)
        return header.encode() + _SEPARATOR + compile_text(source, self._architecture)[0]
