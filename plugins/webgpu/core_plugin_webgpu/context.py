"""One adapter: its device and queue, and the launches that wait to be submitted.

Launches are recorded into one compute pass of one command encoder, where they run in order. The
pass is submitted when the host wants bytes, writes bytes, waits, or when it has grown long.
Scalars of launches stand in one uniform buffer, each launch at an offset of its own; the host
writes them all just before the submission.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from typing import Any, Final

import wgpu

from core.foundation.user_frame import warn
from core.ir import dtypes
from core.plugin import DeviceError, OpenDevice, Target

_LARGEST_BATCH: Final = 256
_SCALAR_SLOT: Final = 256  # at most the required alignment of a uniform buffer's offset
_VECTOR_BYTES: Final = 16
# What an adapter must have is asked for in full: without it the specification's defaults apply.
_LIMITS: Final = (
    "max-storage-buffers-per-shader-stage", "max-storage-buffer-binding-size", "max-buffer-size",
    "max-bindings-per-bind-group", "max-compute-workgroup-size-x", "max-compute-workgroup-size-y",
    "max-compute-workgroup-size-z", "max-compute-invocations-per-workgroup",
    "max-compute-workgroup-storage-size", "max-compute-workgroups-per-dimension",
    "min-storage-buffer-offset-alignment", "min-uniform-buffer-offset-alignment")
# Mesa's software rasteriser ends the loops of an invocation after 65,535 iterations in all,
# silently (measured with Mesa 22.3).
_SOFTWARE_LOOPS: Final = 60_000


def adapters() -> list[Any]:
    """The adapters of this machine that can compute, hardware and Vulkan first."""
    if sys.platform.startswith("linux"):
        os.environ.setdefault("XDG_RUNTIME_DIR", "/tmp")  # Mesa prints errors without one
    found = [a for a in wgpu.gpu.enumerate_adapters_sync()
             if a.info["backend_type"] != "OpenGL"]
    return sorted(found, key=lambda a: a.info["adapter_type"] == "CPU")


def words_of(error: BaseException) -> str:
    """What an error of the library says, without its repetitions."""
    lines = [line.strip() for line in str(error).strip().splitlines()]
    return "\n".join(dict.fromkeys(line for line in lines if line)) or type(error).__name__


class WebGpuDevice(OpenDevice):
    """An adapter of this machine.

    Args:
        variant: Its number among `adapters`.

    Attributes:
        gpu: The library's device.
        largest_binding: Bytes of the largest buffer that a kernel can take.
        offset_alignment: What a binding's first byte is a multiple of.
        software: Whether a processor stands in for the graphics card.
        loop_limit: Iterations of all loops of an invocation that the driver allows; None: any.
        lock: Held while anything is recorded or submitted.
    """

    def __init__(self, variant: int) -> None:
        found = adapters()
        if not 0 <= variant < len(found):
            raise DeviceError(
                f"there is no WEBGPU:{variant}: {len(found)} adapters were found",
                cure="`core doctor WEBGPU` looks for drivers" if not found
                else f"use an index below {len(found)}")
        adapter = found[variant]
        self.lock = threading.RLock()
        self.lost = ""
        self.mover: Any = None
        features = {"timestamp-query"} & set(adapter.features)
        try:
            self.gpu = adapter.request_device_sync(
                required_features=sorted(features),
                required_limits={k: adapter.limits[k] for k in _LIMITS if k in adapter.limits})
        except Exception as error:
            raise DeviceError(
                f"the adapter {adapter.info['device']} gives no device: {words_of(error)}"
            ) from error
        self.limits = self.gpu.limits
        self.name = str(adapter.info["device"])
        self.software = adapter.info["adapter_type"] == "CPU"
        self.largest_binding = min(self.limits["max-storage-buffer-binding-size"],
                                   self.limits["max-buffer-size"])
        self.offset_alignment = self.limits["min-storage-buffer-offset-alignment"]
        self.has_timestamps = "timestamp-query" in features
        self.loop_limit = _SOFTWARE_LOOPS if self.software else None
        self.target = self._target(adapter.info)
        self._encoder: Any = None
        self._pass: Any = None
        self._launched = 0
        self._scalars = bytearray(_LARGEST_BATCH * _SCALAR_SLOT)
        self._scalar_bytes = 0
        self.scalar_buffer = self.gpu.create_buffer(
            size=len(self._scalars), usage=wgpu.BufferUsage.UNIFORM | wgpu.BufferUsage.COPY_DST)
        self._fence = self.gpu.create_buffer(
            size=16, usage=wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC
            | wgpu.BufferUsage.COPY_DST)

    def _target(self, info: Any) -> Target:
        limits = self.limits
        buffers = limits["max-storage-buffers-per-shader-stage"]
        wanted = os.environ.get("CORE_WEBGPU_MAX_BUFFERS", "")
        if wanted:
            if not wanted.isdecimal() or not 1 <= int(wanted) <= buffers:
                raise DeviceError(
                    f"CORE_WEBGPU_MAX_BUFFERS is {wanted!r}, not a number from 1 to {buffers}")
            buffers = int(wanted)
        return Target(
            name="WEBGPU",
            architecture=f"{info['vendor']} {info['device']} {info['description']}".strip(),
            dtypes=frozenset({dtypes.bool, dtypes.int32, dtypes.uint32, dtypes.float32}),
            cores=os.cpu_count() or 1 if self.software else 32,
            vector_bytes=_VECTOR_BYTES,
            has_local=True,
            local_is_fast=not self.software,
            scratch_bytes=limits["max-compute-workgroup-storage-size"],
            global_limit=(limits["max-compute-workgroups-per-dimension"],) * 3,
            local_limit=tuple(limits[f"max-compute-workgroup-size-{axis}"] for axis in "xyz"),
            local_total=limits["max-compute-invocations-per-workgroup"],
            max_buffers=buffers,
            asynchronous=True,
            timestamps=self.has_timestamps,
            thread_safe=False,
        )

    # -- recording --------------------------------------------------------------------------

    def check(self) -> None:
        """Refuse a device that is gone.

        Raises:
            DeviceError: It is lost.
        """
        if self.lost:
            raise DeviceError(f"the WebGPU device {self.name} is lost: {self.lost}",
                              cure="start a new process; what was in its memory is gone")

    def failed(self, error: BaseException, what: str) -> DeviceError:
        """An error of the library in the user's words; remembers a device that is gone."""
        said = words_of(error)
        if "is lost" in said:
            self.lost = said
        return DeviceError(f"the WebGPU device {self.name} cannot {what}: {said}")

    def scalar_offset(self, packed: bytes) -> int:
        """Where the scalars of a launch stand in the uniform buffer."""
        if self._scalar_bytes + _SCALAR_SLOT > len(self._scalars):
            self.flush()
        at = self._scalar_bytes
        self._scalars[at:at + len(packed)] = packed
        self._scalar_bytes += _SCALAR_SLOT
        return at

    def launch(self, pipeline: Any, group: Any, offsets: Sequence[int],
               size: tuple[int, int, int]) -> None:
        """Record one dispatch behind those recorded before."""
        if self._pass is None:
            self.check()
            self._encoder = self.gpu.create_command_encoder()
            self._pass = self._encoder.begin_compute_pass()
        recorded = self._pass
        recorded.set_pipeline(pipeline)
        recorded.set_bind_group(0, group, offsets)
        recorded.dispatch_workgroups(*size)
        self._launched += 1
        if self._launched >= _LARGEST_BATCH:
            self.flush()

    def flush(self) -> None:
        """Submit what is recorded.

        Raises:
            DeviceError: The driver refuses a launch, or the device is lost.
        """
        with self.lock:
            recorded, encoder, used = self._pass, self._encoder, self._scalar_bytes
            self._pass = self._encoder = None
            self._launched = self._scalar_bytes = 0
            if recorded is None:
                return
            try:
                recorded.end()
                if used:
                    self.gpu.queue.write_buffer(
                        self.scalar_buffer, 0, memoryview(self._scalars)[:used])
                self.gpu.queue.submit([encoder.finish()])
            except Exception as error:
                raise self.failed(error, "run what was launched") from error

    def copied(self, source: Any, start: int, to: Any, to_start: int, size: int) -> None:
        """Record a copy between two buffers, all in multiples of 4 bytes, behind the launches."""
        with self.lock:
            self.flush()
            self.check()
            encoder = self.gpu.create_command_encoder()
            encoder.copy_buffer_to_buffer(source, start, to, to_start, size)
            self.gpu.queue.submit([encoder.finish()])

    def read(self, buffer: Any, start: int, size: int) -> memoryview:
        """Bytes of a buffer once everything launched has run; start and size are multiples of 4."""
        with self.lock:
            self.flush()
            self.check()
            try:
                return memoryview(self.gpu.queue.read_buffer(buffer, start, size)).cast("B")
            except Exception as error:
                raise self.failed(error, "read its memory") from error

    def write(self, buffer: Any, start: int, data: memoryview) -> None:
        """Bytes into a buffer, behind the launches; start and size are multiples of 4."""
        with self.lock:
            self.flush()
            self.check()
            try:
                self.gpu.queue.write_buffer(buffer, start, data)
                self.gpu.queue.submit([])
            except Exception as error:
                raise self.failed(error, "write its memory") from error

    def synchronize(self) -> None:
        """Wait by reading four bytes: the library's own way of waiting fails in 0.32."""
        self.read(self._fence, 0, 4)

    def close(self) -> None:
        """Give the device back."""
        if not self.lost:
            try:
                self.flush()
            except DeviceError as error:
                warn(f"closing WEBGPU: {error}")
            self.lost = "it was closed"
            self.gpu.destroy()
