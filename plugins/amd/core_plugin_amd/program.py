"""OpenCL programs: text to binary, binary to kernel, and a launch."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyopencl as cl

from core.foundation.errors import CompileError
from core.plugin import Compiler, DeviceError, LaunchSize, Loader, Program
from core_plugin_amd.context import OpenClDevice, in_words
from core_plugin_amd.memory import Piece
from core_plugin_amd.opencl_c import HEADER

_SEPARATOR: Final = b"\n"


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
        """One binary per text: a line about its arguments, then the driver's binary."""
        return [self._compiled(source) for source in sources]

    def _compiled(self, source: str) -> bytes:
        header = source.split("\n", 1)[0].removeprefix(HEADER)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what the driver says about a text that builds
                built = cl.Program(self._device.context, source).build(options=self._options)
        except cl.Error as error:
            raise CompileError(f"OpenCL refuses the program: {error}", graph=source) from error
        (binary,) = built.get_info(cl.program_info.BINARIES)
        return header.encode() + _SEPARATOR + bytes(binary)


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
            built = cl.Program(device.context, [device.handle], [code]).build()
            self._kernel = cl.Kernel(built, about["name"])
        except (ValueError, KeyError, TypeError, cl.Error) as error:
            raise DeviceError(
                f"the binary of {name} is not for this device: {in_words(error)}") from error
        self._scalars = [np.dtype(dtype) for dtype in about["scalars"]]
        self._buffers = about["buffers"]
        self._set: list[Any] = [None] * (2 * self._buffers + len(self._scalars))

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
