"""Shaders as programs: compiled, bound to blocks, launched; and bytes moved by a shader."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from time import perf_counter
from typing import Any, Final

import wgpu

from core.plugin import (
    CompileError,
    Compiler,
    CopyQueue,
    DeviceError,
    LaunchSize,
    Loader,
    Program,
)
from core_plugin_webgpu.context import WebGpuDevice, words_of
from core_plugin_webgpu.memory import WebGpuAllocator, WebGpuBlock
from core_plugin_webgpu.wgsl import GROUPS

_REMEMBERED_GROUPS: Final = 1024
# One invocation for each word that is written: the bytes of it that belong to the destination.
_MOVE: Final = """// {"buffers": 2, "scalars": "III", "written": [0], "spread": 32}
struct Scalars { to: u32, start: u32, size: u32 }
@group(0) @binding(0) var<storage, read_write> written: array<u32>;
@group(0) @binding(1) var<storage, read_write> read: array<u32>;
@group(0) @binding(2) var<uniform> scalars: Scalars;
@compute @workgroup_size(32)
fn move_bytes(@builtin(global_invocation_id) invocation: vec3<u32>) {
  let word = scalars.to / 4u + invocation.x + invocation.y * 2097120u;
  let end = scalars.to + scalars.size;
  if (word * 4u >= end) { return; }
  var value = written[word];
  for (var k = 0u; k < 4u; k++) {
    let at = word * 4u + k;
    if (at >= scalars.to && at < end) {
      let other = at - scalars.to + scalars.start;
      let byte = (read[other / 4u] >> (other % 4u * 8u)) & 255u;
      value = (value & ~(255u << (k * 8u))) | (byte << (k * 8u));
    }
  }
  written[word] = value;
}
"""


class WgslCompiler(Compiler):
    """The library's own checks; the driver makes machine code when a program is loaded."""

    def __init__(self, device: WebGpuDevice) -> None:
        self.device = device

    def compile(self, sources: Sequence[str]) -> list[bytes]:
        """The texts, once they are known to be right."""
        self.device.check()
        for source in sources:
            try:
                self.device.gpu.create_shader_module(code=source)
            except Exception as error:
                raise CompileError(f"WGSL is refused: {words_of(error)}", graph=source) from error
        return [source.encode() for source in sources]


class WebGpuProgram(Program):
    """A compute pipeline.

    Args:
        device: Where it runs.
        name: Of the entry point.
        source: The shader, whose first line says how to launch it.
    """

    def __init__(self, device: WebGpuDevice, name: str, source: str) -> None:
        self.device, self.name, self.source = device, name, source
        launch = json.loads(source.split("\n", 1)[0].removeprefix("// "))
        self.buffers: int = launch["buffers"]
        self.spread: int = launch["spread"]
        self.written: frozenset[int] = frozenset(launch["written"])
        self._pack = struct.Struct(launch["scalars"]).pack if launch["scalars"] else None
        self._floats = "f" in launch["scalars"]
        self._wrap = [k for k, code in enumerate(launch["scalars"]) if code == "i"]
        self._groups: dict[tuple[tuple[int, int, int], ...], Any] = {}
        gpu = device.gpu
        entries: list[Any] = [
            {"binding": k, "visibility": wgpu.ShaderStage.COMPUTE, "buffer": {"type": "storage"}}
            for k in range(self.buffers)]
        if self._pack:
            entries.append({"binding": self.buffers, "visibility": wgpu.ShaderStage.COMPUTE,
                            "buffer": {"type": "uniform", "has_dynamic_offset": True}})
        try:
            self._layout = gpu.create_bind_group_layout(entries=entries)
            self._pipeline = gpu.create_compute_pipeline(
                layout=gpu.create_pipeline_layout(bind_group_layouts=[self._layout]),
                compute={"module": gpu.create_shader_module(code=source), "entry_point": name})
        except Exception as error:
            raise DeviceError(f"the shader {name} makes no pipeline on {device.name}: "
                              f"{words_of(error)}", graph=source) from error

    def __call__(
        self,
        buffers: Sequence[WebGpuBlock],
        scalars: Sequence[int | float] = (),
        global_size: LaunchSize = (1, 1, 1),
        local_size: LaunchSize = (1, 1, 1),
        wait: bool = False,
    ) -> float | None:
        """Record a launch; with `wait`, run it and measure."""
        with self.device.lock:
            if wait:
                self.device.synchronize()
            start = perf_counter()
            if any(block.offset % self.device.offset_alignment for block in buffers):
                self._launch_on_copies(buffers, scalars, global_size)
            else:
                self._launch(buffers, scalars, global_size)
            if not wait:
                return None
            self.device.synchronize()
            return perf_counter() - start

    def _launch(self, buffers: Sequence[WebGpuBlock], scalars: Sequence[int | float],
                size: LaunchSize) -> None:
        key = tuple([(b.number, b.offset, b.size_bytes) for b in buffers])
        group = self._groups.get(key)
        if group is None:
            group = self._group(buffers)
            if len(self._groups) >= _REMEMBERED_GROUPS:
                self._groups.clear()
            self._groups[key] = group
        if self.spread:
            groups = -(-size[0] // self.spread)
            size = (min(groups, GROUPS), -(-groups // GROUPS), 1)
        offsets = ()
        if self._pack is not None:
            offsets = (self.device.scalar_offset(self._packed(scalars)),)
        self.device.launch(self._pipeline, group, offsets, size)

    def _packed(self, scalars: Sequence[int | float]) -> bytes:
        values = list(scalars)
        for k in self._wrap:
            values[k] = (int(values[k]) + (1 << 31)) % (1 << 32) - (1 << 31)
        return self._pack(*values)  # type: ignore[misc]

    def _group(self, buffers: Sequence[WebGpuBlock]) -> Any:
        if len(buffers) != self.buffers:
            raise DeviceError(f"{self.name} takes {self.buffers} buffers, not {len(buffers)}")
        entries: list[Any] = [
            {"binding": k, "resource": {
                "buffer": b.buffer, "offset": b.offset, "size": -(-b.size_bytes // 4) * 4}}
            for k, b in enumerate(buffers)]
        if self._pack is not None:
            entries.append({"binding": self.buffers, "resource": {
                "buffer": self.device.scalar_buffer, "offset": 0, "size": 256}})
        try:
            return self.device.gpu.create_bind_group(layout=self._layout, entries=entries)
        except Exception as error:
            raise self.device.failed(error, f"bind the buffers of {self.name}") from error

    def _launch_on_copies(self, buffers: Sequence[WebGpuBlock], scalars: Sequence[int | float],
                          size: LaunchSize) -> None:
        """Launch where a buffer begins at a byte that no binding may begin at."""
        mover, bound, temporary = mover_of(self.device), list(buffers), []
        for k, block in enumerate(buffers):
            if block.offset % self.device.offset_alignment:
                bound[k] = mover.memory.allocate(block.size_bytes)
                temporary.append((k, block))
                mover.move(bound[k], 0, block, 0, block.size_bytes)
        self._launch(bound, scalars, size)
        for k, block in temporary:
            if k in self.written:
                mover.move(block, 0, bound[k], 0, block.size_bytes)
            mover.memory.free(bound[k])


class Mover(CopyQueue):
    """Copies within an adapter, to and from any byte, in order with its launches."""

    def __init__(self, device: WebGpuDevice) -> None:
        self.device = device
        self.memory = WebGpuAllocator(device)
        self._program = WebGpuProgram(device, "move_bytes", _MOVE)

    def move(self, to: WebGpuBlock, to_offset: int, start: WebGpuBlock, start_offset: int,
             size: int) -> None:
        """Copy bytes."""
        first, second = to.offset + to_offset, start.offset + start_offset
        words = (first + size - 1) // 4 - first // 4 + 1
        self._program([_whole(to), _whole(start)], (first, second, size), (words, 1, 1))

    def submit(self, destination: WebGpuBlock, destination_offset: int, source: WebGpuBlock,
               source_offset: int, size_bytes: int) -> int:
        """Record a copy among the launches."""
        if size_bytes:
            self.move(destination, destination_offset, source, source_offset, size_bytes)
        return 0

    def wait(self, event: int) -> None:
        """Wait for everything."""
        self.device.synchronize()


def _whole(block: WebGpuBlock) -> WebGpuBlock:
    return WebGpuBlock(block.buffer, 0, block.buffer.size, block.number)


def mover_of(device: WebGpuDevice) -> Mover:
    """The mover of a device."""
    if device.mover is None:
        device.mover = Mover(device)
    found: Mover = device.mover
    return found


class WgslLoader(Loader):
    """Loads texts of shaders."""

    def __init__(self, device: WebGpuDevice) -> None:
        self.device = device

    def load(self, name: str, binary: bytes) -> Program:
        """The pipeline of the entry point `name`."""
        self.device.check()
        if not binary.startswith(b"// {"):
            raise DeviceError(f"this is no shader that core rendered for {self.device.name}")
        return WebGpuProgram(self.device, name, binary.decode())
