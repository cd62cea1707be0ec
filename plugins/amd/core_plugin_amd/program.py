"""OpenCL programs: text to binary, binary to kernel, and a launch."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyopencl as cl

from core.foundation.errors import CompileError
from core.plugin import (
    Compiler,
    DeviceError,
    LaunchSize,
    Loader,
    Program,
    RecordedCall,
    Recording,
    UnsupportedError,
)
from core_plugin_amd.context import OpenClDevice, in_words
from core_plugin_amd.memory import Piece
from core_plugin_amd.opencl_c import HEADER

_SEPARATOR: Final = b"\n"
_BUILT_TOGETHER: Final = 8


class OpenClCompiler(Compiler):
    """The compiler of the device's driver.

    Args:
        device: The device.
    """

    def __init__(self, device: OpenClDevice) -> None:
        self._device = device
        handle = device.handle
        self._options = ["-cl-std=CL1.2"]
        if handle.single_fp_config & cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT:
            self._options.append("-cl-fp32-correctly-rounded-divide-sqrt")
        self.key = " ".join(("opencl 1", handle.platform.version, handle.name,
                             handle.driver_version, *self._options))

    def compile(self, sources: Sequence[str]) -> list[bytes]:
        """One binary per text: a line about its arguments, then the driver's binary.

        Several texts are built as one program (8 in a third of the time, PoCL 3.1), whose binary
        each of them gets. One that does not build is then built alone, for its own message.
        """
        binaries: list[bytes] = []
        for first in range(0, len(sources), _BUILT_TOGETHER):
            part = sources[first:first + _BUILT_TOGETHER]
            try:
                codes = [self._built("\n".join(part))] * len(part)
            except cl.Error:
                codes = [self._alone(source) for source in part]
            binaries += [_header(source).encode() + _SEPARATOR + code
                         for source, code in zip(part, codes, strict=True)]
        return binaries

    def _alone(self, source: str) -> bytes:
        try:
            return self._built(source)
        except cl.Error as error:
            raise CompileError(f"OpenCL refuses the program: {error}", graph=source) from error

    def _built(self, source: str) -> bytes:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what the driver says about a text that builds
            built = cl.Program(self._device.context, source).build(options=self._options)
        (binary,) = built.get_info(cl.program_info.BINARIES)
        return bytes(binary)


def _header(source: str) -> str:
    return source.split("\n", 1)[0].removeprefix(HEADER)


class OpenClProgram(Program):
    """A kernel, kept with its arguments.

    Args:
        device: The device.
        name: The kernel's.
        binary: What the compiler gave.

    Raises:
        DeviceError: The binary is not for this device.
    """

    def __init__(self, device: OpenClDevice, name: str, binary: bytes) -> None:
        self._device = device
        header, _, code = binary.partition(_SEPARATOR)
        try:
            about = json.loads(header)
            self._built, self._name = device.built(code), about["name"]
            self._kernel = self.fresh_kernel()
        except (ValueError, KeyError, TypeError, cl.Error) as error:
            raise DeviceError(
                f"the binary of {name} is not for this device: {in_words(error)}") from error
        self._scalars = [np.dtype(dtype) for dtype in about["scalars"]]
        self._buffers = about["buffers"]
        self._set: list[Any] = [None] * (2 * self._buffers + len(self._scalars))

    def fresh_kernel(self) -> Any:
        """A kernel of OpenCL's, with arguments of its own."""
        return cl.Kernel(self._built, self._name)

    def scalar_dtypes(self) -> list[np.dtype[Any]]:
        """What its scalar arguments are, in order."""
        return self._scalars

    def __call__(
        self,
        buffers: Sequence[Piece],
        scalars: Sequence[int | float],
        global_size: LaunchSize = (1, 1, 1),
        local_size: LaunchSize = (1, 1, 1),
        wait: bool = False,
    ) -> float | None:
        """Enqueue the kernel; returns the seconds that its event measured if asked to wait."""
        position = 0
        for piece in buffers:
            self._argument(position, piece.buffer)
            self._argument(position + 1, np.int64(piece.offset))
            position += 2
        for dtype, value in zip(self._scalars, scalars, strict=True):
            self._argument(position, dtype.type(value))
            position += 1
        sizes = tuple(g * n for g, n in zip(global_size, local_size, strict=True))
        event = self._device.checked(lambda: cl.enqueue_nd_range_kernel(
            self._device.queue, self._kernel, sizes, local_size))
        if not wait:
            return None
        self._device.checked(event.wait)
        return float(event.profile.end - event.profile.start) * 1e-9

    def _argument(self, position: int, value: Any) -> None:
        """Set an argument where it is another one than before."""
        known = self._set[position]
        if known is value or (isinstance(value, np.generic) and known == value
                              and type(known) is type(value)):
            return
        self._device.checked(lambda: self._kernel.set_arg(position, value))
        self._set[position] = value


class OpenClRecording(Recording):
    """Launches with a kernel each, whose arguments are set again only where they change.

    The queue runs them in order, so that none has to wait for another in words.

    Args:
        device: The device.
        calls: The launches, in order.
    """

    def __init__(self, device: OpenClDevice, calls: Sequence[RecordedCall]) -> None:
        self._device = device
        self._launches: list[tuple[Any, tuple[int, ...], tuple[int, ...]]] = []
        self._users: dict[int, list[tuple[Any, int, int]]] = {}  # of a block: kernel, position
        self._numbers: dict[int, list[tuple[Any, int, Any]]] = {}
        self._blocks: dict[int, Piece] = {}
        for call in calls:
            program = call.program
            if not isinstance(program, OpenClProgram):
                raise UnsupportedError("only programs of this device are recorded")
            kernel = program.fresh_kernel()
            sizes = tuple(g * n for g, n in zip(call.global_size, call.local_size, strict=True))
            self._launches.append((kernel, sizes, call.local_size))
            for position, (block, offset) in enumerate(
                    zip(call.blocks, call.offsets, strict=True)):
                self._users.setdefault(block, []).append((kernel, 2 * position, offset))
            scalars = zip(call.scalars, program.scalar_dtypes(), strict=True)
            for position, (key, dtype) in enumerate(scalars, 2 * len(call.blocks)):
                self._numbers.setdefault(key, []).append((kernel, position, dtype.type))

    def replay(self, blocks: Sequence[Piece], scalars: Mapping[int, int | float]) -> None:
        """Enqueue every launch."""
        self._device.checked(lambda: self._enqueue(blocks, scalars))

    def _enqueue(self, blocks: Sequence[Piece], scalars: Mapping[int, int | float]) -> None:
        known = self._blocks
        for number, users in self._users.items():
            piece, before = blocks[number], known.get(number)
            if before is None or (
                    before.buffer is not piece.buffer or before.offset != piece.offset):
                for kernel, position, offset in users:
                    kernel.set_arg(position, piece.buffer)
                    kernel.set_arg(position + 1, np.int64(piece.offset + offset))
                known[number] = piece
        for key, numbers in self._numbers.items():
            value = scalars[key]
            for kernel, position, make in numbers:
                kernel.set_arg(position, make(value))
        queue, enqueue = self._device.queue, cl.enqueue_nd_range_kernel
        for kernel, sizes, items in self._launches:
            enqueue(queue, kernel, sizes, items)


class OpenClLoader(Loader):
    """Loads binaries of one device.

    Args:
        device: The device.
    """

    def __init__(self, device: OpenClDevice) -> None:
        self._device = device

    def load(self, name: str, binary: bytes) -> Program:
        """The kernel of a binary."""
        return OpenClProgram(self._device, name, binary)

    def record(self, calls: Sequence[RecordedCall], support: Mapping[str, bytes]) -> Recording:
        """The launches with their arguments bound."""
        return OpenClRecording(self._device, calls)
