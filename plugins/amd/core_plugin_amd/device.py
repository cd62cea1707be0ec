"""The open hooks of AMD and CL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from core.ir import UOp
from core.plugin import (
    Allocator,
    CopyQueue,
    DeviceError,
    DeviceSpec,
    Loader,
    OpenDevice,
    Renderer,
    hookimpl,
)
from core.render import c_code_for_op
from core_plugin_amd.context import OpenClDevice
from core_plugin_amd.memory import OpenClAllocator, OpenClCopyQueue
from core_plugin_amd.opencl_c import dialect, render_opencl
from core_plugin_amd.program import OpenClCompiler, OpenClLoader

_FORMAT: Final = "opencl"


class OpenClRenderer(Renderer):
    """Prints OpenCL C.

    Args:
        device: Whose dtypes count.
    """

    name = "OPENCL"
    binary_format = _FORMAT

    def __init__(self, device: OpenClDevice) -> None:
        self._dialect = dialect(device.target.dtypes, fma=device.target.fma)
        self.code_for_op = c_code_for_op(self._dialect)
        self.compiler = OpenClCompiler(device)

    def render(self, name: str, linear: UOp) -> str:
        """The text of a kernel."""
        return render_opencl(name, linear.src, self._dialect)


@hookimpl
def core_open_device(spec: DeviceSpec, variant: int | str) -> OpenDevice:
    """Open the device of an index."""
    if not isinstance(variant, int):
        raise DeviceError(f"{spec.name} has no {variant!r}: a number chooses the device")
    return OpenClDevice(spec.name, variant)


@hookimpl
def core_renderers(device: OpenDevice) -> Sequence[Renderer]:
    """OpenCL C."""
    return (OpenClRenderer(device),) if isinstance(device, OpenClDevice) else ()


@hookimpl
def core_allocator(device: OpenDevice) -> Allocator | None:
    """The device's buffers."""
    return OpenClAllocator(device) if isinstance(device, OpenClDevice) else None


@hookimpl
def core_copy_queue(device: OpenDevice) -> CopyQueue | None:
    """A queue of copies."""
    return OpenClCopyQueue(device) if isinstance(device, OpenClDevice) else None


@hookimpl
def core_loader(device: OpenDevice, binary_format: str) -> Loader | None:
    """The loader of OpenCL's binaries."""
    if isinstance(device, OpenClDevice) and binary_format == _FORMAT:
        return OpenClLoader(device)
    return None
