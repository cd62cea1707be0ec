"""An emulated processor of each kind for the tests of its plugin, and programs for it."""

import shutil

import numpy as np
import pytest

import core_plugin_qemu
from core.codegen.linearize import linearize
from core.ir import AddressSpace, AxisType, UOp, dtypes
from core_plugin_qemu import device as hooks


def needs(variant):
    return pytest.mark.skipif(shutil.which(f"qemu-{variant}") is None,
                              reason=f"qemu-{variant} is not installed (apt-get install qemu-user)")


@pytest.fixture(
    scope="module", params=[pytest.param(v, marks=needs(v)) for v in core_plugin_qemu.VARIANTS])
def opened(request):
    (spec,) = core_plugin_qemu.core_devices()
    device = hooks.core_open_device(spec=spec, variant=request.param)
    yield device
    device.close()


class Workbench:
    """What tests do with a device."""

    def __init__(self, device):
        self.device = device
        (self.renderer,) = hooks.core_renderers(device=device)
        self.allocator = hooks.core_allocator(device=device)
        self.loader = hooks.core_loader(device=device, binary_format=self.renderer.binary_format)

    def program(self, source, name="kernel"):
        """A program of LLVM IR, under a name of its own; {W} is the type of an address."""
        text = source.replace("{W}", f"i{self.device.architecture.word_bits}")
        (binary,) = self.renderer.compiler.compile([text.replace("@kernel", f"@{name}")])
        return self.loader.load(name, binary)

    def increment(self, count, name="increment"):
        """out[i] = in[i] + step, `step` a scalar."""
        a, b = (UOp.param(k, dtypes.int32, (count,)) for k in (0, 1))
        step = UOp.param(2, dtypes.int32, (), space=AddressSpace.ALU)
        r = UOp.range(UOp.const(count, dtypes.int64), 0, AxisType.LOOP)
        sink = UOp.sink(a.index(r).store(b.index(r).load() + step).end(r))
        return self.program(self.renderer.render(name, linearize(sink)), name)

    def block(self, array):
        """A block that holds an array."""
        block = self.allocator.allocate(array.nbytes)
        self.allocator.copy_in(block, 0, memoryview(array).cast("B"))
        return block

    def read(self, block, dtype=np.int32):
        """A block's content."""
        found = bytearray(block.size)
        self.allocator.copy_out(memoryview(found), block, 0)
        return np.frombuffer(found, dtype)


@pytest.fixture(scope="module")
def bench(opened):
    return Workbench(opened)
