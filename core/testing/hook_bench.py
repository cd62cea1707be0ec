"""One device of a plugin, driven by its hooks alone: for the tests of the plugin itself."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from core.codegen.linearize import linearize
from core.ir import AddressSpace, AxisType, UOp, dtypes
from core.plugin import Block, OpenDevice, Program


class HookBench:
    """Makes programs and blocks of a device with the best of what its hooks give.

    Attributes:
        device: The device.
        renderer: Its first renderer.
        allocator: Its memory.
        loader: The loader of the renderer's binaries.

    Args:
        hooks: The plugin's module of open hooks.
        device: What its `core_open_device` gave.
    """

    def __init__(self, hooks: ModuleType, device: OpenDevice) -> None:
        self.device = device
        self.renderer = hooks.core_renderers(device=device)[0]
        self.allocator = hooks.core_allocator(device=device)
        self.loader = hooks.core_loader(device=device, binary_format=self.renderer.binary_format)

    def program(self, text: str, name: str) -> Program:
        """The kernel `name` of a program's text, loaded."""
        (binary,) = self.renderer.compiler.compile([text])
        program: Program = self.loader.load(name, binary)
        return program

    def increment(self, count: int, name: str = "increment") -> Program:
        """out[i] = in[i] + step over `count` int32, `step` a scalar argument."""
        a, b = (UOp.param(k, dtypes.int32, (count,)) for k in (0, 1))
        step = UOp.param(2, dtypes.int32, (), space=AddressSpace.ALU)
        r = UOp.range(UOp.const(count, dtypes.int64), 0, AxisType.LOOP)
        sink = UOp.sink(a.index(r).store(b.index(r).load() + step).end(r))
        return self.program(self.renderer.render(name, linearize(sink)), name)

    def block(self, array: np.ndarray[Any, Any]) -> Block:
        """A block that holds an array's bytes."""
        block = self.allocator.allocate(array.nbytes)
        self.allocator.copy_in(block, 0, array.view(np.uint8).data)
        return block

    def read(self, block: Block, count: int, dtype: Any = np.int32) -> np.ndarray[Any, Any]:
        """The first `count` items of a block."""
        found = np.zeros(count, dtype)
        self.allocator.copy_out(found.view(np.uint8).data, block, 0)
        return found
