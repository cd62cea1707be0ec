"""The open hooks of WEBGPU."""

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
from core_plugin_webgpu.context import WebGpuDevice
from core_plugin_webgpu.memory import WebGpuAllocator
from core_plugin_webgpu.program import WgslCompiler, WgslLoader, mover_of
from core_plugin_webgpu.wgsl import WGSL, render_wgsl

_FORMAT: Final = "wgsl"


class WgslRenderer(Renderer):
    """Prints WGSL."""

    name = "WGSL"
    binary_format = _FORMAT
    code_for_op = c_code_for_op(WGSL)

    def __init__(self, device: WebGpuDevice) -> None:
        self.compiler = WgslCompiler(device)
        self._loop_limit = device.loop_limit

    def render(self, name: str, linear: UOp) -> str:
        """The text of a shader."""
        return render_wgsl(name, linear, self._loop_limit)


@hookimpl
def core_open_device(spec: DeviceSpec, variant: int | str) -> OpenDevice:
    """Open the adapter of an index."""
    if not isinstance(variant, int):
        raise DeviceError(f"{spec.name} has no {variant!r}: a number chooses the adapter")
    return WebGpuDevice(variant)


@hookimpl
def core_renderers(device: OpenDevice) -> Sequence[Renderer]:
    """WGSL."""
    return (WgslRenderer(device),) if isinstance(device, WebGpuDevice) else ()


@hookimpl
def core_allocator(device: OpenDevice) -> Allocator | None:
    """The adapter's memory."""
    return WebGpuAllocator(device) if isinstance(device, WebGpuDevice) else None


@hookimpl
def core_copy_queue(device: OpenDevice) -> CopyQueue | None:
    """Copies by a shader of its own, which reaches every byte."""
    return mover_of(device) if isinstance(device, WebGpuDevice) else None


@hookimpl
def core_loader(device: OpenDevice, binary_format: str) -> Loader | None:
    """The loader of shaders."""
    if isinstance(device, WebGpuDevice) and binary_format == _FORMAT:
        return WgslLoader(device)
    return None
