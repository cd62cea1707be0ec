"""The open hooks of CUDA."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import core_plugin_cuda
from core.ir import UOp, dtypes
from core.plugin import (
    Allocator,
    CopyQueue,
    DeviceError,
    DeviceSpec,
    Loader,
    OpenDevice,
    Renderer,
    Target,
    hookimpl,
)
from core.render import c_code_for_op
from core_plugin_cuda.cuda_c import CUDA_C, render_cuda
from core_plugin_cuda.driver import Driver
from core_plugin_cuda.memory import CudaAllocator, CudaCopyQueue
from core_plugin_cuda.nvrtc import NvrtcCompiler
from core_plugin_cuda.program import CudaLoader
from core_plugin_cuda.simulated import SimulatedDriver

_FORMATS: Final = ("cubin", "ptx")
_DTYPES: Final = frozenset(CUDA_C.types)


class CudaDevice(OpenDevice):
    """A graphics processor, or the simulator.

    Args:
        driver: Through which it is used.

    Attributes:
        driver: The same.
    """

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.target = _target(driver)

    @property
    def architecture(self) -> str:
        """Compute capability as compilers write it: ``"80"``."""
        major, minor = self.driver.properties.capability
        return f"{major}{minor}"

    def synchronize(self) -> None:
        """Wait for everything launched."""
        self.driver.synchronize()

    def close(self) -> None:
        """Give the context back."""
        self.driver.close()


def _target(driver: Driver) -> Target:
    """What the compiler may use.

    The costs are those of a card of about 10 TFLOP/s and 1 TB/s; only their ratios count.
    """
    card = driver.properties
    major, minor = card.capability
    return Target(
        name="CUDA",
        architecture=f"sm_{major}{minor}" + (" simulator" if driver.simulated else ""),
        dtypes=_DTYPES,
        storage_dtypes=frozenset({dtypes.float16}),
        l2_bytes=card.l2_bytes,
        cores=card.processors,
        # No work-group memory is announced: core takes it for a thread's own scratch, as it is on
        # a processor (see `KernelWriter`).
        global_limit=card.group_limit,
        local_limit=card.item_limit,
        local_total=card.item_total,
        fma=True,
        timestamps=True,
        asynchronous=not driver.simulated,
        thread_safe=False,
        flop_nanoseconds=1e-4,
        dram_byte_nanoseconds=1e-3,
        cache_byte_nanoseconds=2e-4,
        launch_nanoseconds=4000.0,
    )


class CudaRenderer(Renderer):
    """Prints CUDA C.

    Args:
        device: For which it is compiled.
    """

    name = "CUDA"
    priority = 100
    code_for_op = c_code_for_op(CUDA_C, fma=True)

    def __init__(self, device: CudaDevice) -> None:
        # PTX of a newer compiler is refused by an older driver: a processor is given machine code.
        simulated = device.driver.simulated
        self.binary_format = "ptx" if simulated else "cubin"
        kind = "compute" if simulated else "sm"
        self.compiler = NvrtcCompiler(f"{kind}_{device.architecture}")

    def render(self, name: str, linear: UOp) -> str:
        """The text of a kernel."""
        return render_cuda(name, linear.src)


@hookimpl
def core_open_device(spec: DeviceSpec, variant: int | str) -> OpenDevice:
    """Open the processor of an index, or the simulator where that was asked for."""
    if not isinstance(variant, int):
        raise DeviceError(f"{spec.name} has no {variant!r}: a number chooses the device")
    if core_plugin_cuda.wants_simulator():
        if variant:
            raise DeviceError(f"there is no CUDA:{variant}: the simulator is one device")
        return CudaDevice(SimulatedDriver())
    try:
        count, _ = core_plugin_cuda.count_devices()
    except core_plugin_cuda.DriverMissingError as error:
        raise DeviceError(str(error), cure=core_plugin_cuda.cure_of(error)) from error
    if variant >= count:
        raise DeviceError(f"there is no CUDA:{variant}, there are {count}",
                          cure="`nvidia-smi` lists what the driver finds")
    raise DeviceError(core_plugin_cuda.NOT_YET,
                      cure=f"set {core_plugin_cuda.SIMULATOR_VARIABLE}=1 to simulate a device")


@hookimpl
def core_renderers(device: OpenDevice) -> Sequence[Renderer]:
    """CUDA C."""
    return (CudaRenderer(device),) if isinstance(device, CudaDevice) else ()


@hookimpl
def core_allocator(device: OpenDevice) -> Allocator | None:
    """The processor's memory."""
    return CudaAllocator(device.driver) if isinstance(device, CudaDevice) else None


@hookimpl
def core_copy_queue(device: OpenDevice) -> CopyQueue | None:
    """A stream of copies."""
    return CudaCopyQueue(device.driver) if isinstance(device, CudaDevice) else None


@hookimpl
def core_loader(device: OpenDevice, binary_format: str) -> Loader | None:
    """The loader of PTX and cubins."""
    if isinstance(device, CudaDevice) and binary_format in _FORMATS:
        return CudaLoader(device.driver)
    return None
