"""The CPU plugin by its hooks: opening, memory, threads, forks and running programs."""

import gc
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import core_plugin_cpu
from core.codegen.linearize import linearize
from core.foundation.settings import Context
from core.ir import AddressSpace, AxisType, UOp, dtypes
from core.plugin import DeviceError, OutOfMemoryError, UnsupportedError, offers
from core.plugin.registry import registry
from core.testing.source_rules import late_imports
from core_plugin_cpu import device as hooks
from core_plugin_cpu.host import data_caches, usable_cores
from core_plugin_cpu.memory import HostAllocator, HostBlock


@pytest.fixture(scope="module")
def opened():
    with Context(THREADS=2):
        device = hooks.core_open_device(spec=core_plugin_cpu.core_devices()[0], variant=0)
    yield device
    device.close()


def built(device, sink, name="kernel"):
    (renderer,) = hooks.core_renderers(device=device)
    source = renderer.render(name, linearize(sink))
    loader = hooks.core_loader(device=device, binary_format=renderer.binary_format)
    return loader.load(name, renderer.compiler.compile([source])[0])


def block_of(array):
    return HostBlock(array.ctypes.data, memoryview(array).cast("B"))


def increment(count, kind=AxisType.THREAD):
    """out[i] = in[i] + step, `step` a scalar."""
    a, b = (UOp.param(k, dtypes.int32, (count,)) for k in (0, 1))
    step = UOp.param(2, dtypes.int32, (), space=AddressSpace.ALU)
    r = UOp.range(UOp.const(count, dtypes.int64), 0, kind)
    return UOp.sink(a.index(r).store(b.index(r).load() + step).end(r))


def test_the_stub_describes_the_device_without_loading_it():
    (spec,) = core_plugin_cpu.core_devices()
    assert (spec.name, spec.priority, spec.probe) == ("CPU", 100, "")
    heavy = ("llvmlite", "numpy", "importlib.metadata", "platform", "core.ir.uop")
    code = f"import sys, core_plugin_cpu; print(*(m for m in {heavy} if m in sys.modules))"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))})
    assert found.stdout.split() == []


def test_checks_find_processor_and_compiler():
    rows = core_plugin_cpu.core_checks(name="CPU")
    assert [row.subject for row in rows] == ["processor", "llvmlite"]
    assert all(row.passed for row in rows)
    assert core_plugin_cpu.core_checks(name="CUDA") == ()


def test_there_is_one_host(opened):
    with pytest.raises(DeviceError, match="CPU:1"):
        hooks.core_open_device(spec=core_plugin_cpu.core_devices()[0], variant=1)
    assert hooks.core_loader(device=opened, binary_format="ptx") is None


def test_target_says_what_the_host_has(opened, tmp_path):
    target = opened.target
    assert target.cores == 2
    assert target.has_threads
    assert target.lanes(4) in (4, 8, 16)
    assert target.l1_bytes < target.l2_bytes
    with Context(THREADS=3):
        assert usable_cores() == 3
    with Context(THREADS=0):
        assert usable_cores() >= 1
    for k, (level, kind, size) in enumerate([(1, "Data", "48K"), (1, "Instruction", "32K"),
                                             (2, "Unified", "2M")]):
        entry = tmp_path / f"index{k}"
        entry.mkdir()
        for name, text in (("level", level), ("type", kind), ("size", size)):
            (entry / name).write_text(f"{text}\n")
    assert data_caches(tmp_path) == {1: 48 << 10, 2: 2 << 20}
    assert data_caches(tmp_path / "missing") == {}


@pytest.mark.parametrize("items", [1, 2, 3, 1000])
def test_a_program_runs_every_item_once(opened, items):
    program = built(opened, increment(items))
    source, output = np.arange(items, dtype=np.int32), np.zeros(items, np.int32)
    for step in (1, -7):
        seconds = program(
            [block_of(output), block_of(source)], [step], (items, 1, 1), wait=step == 1)
        assert (seconds is not None) == (step == 1)
        np.testing.assert_array_equal(output, source + step)


def test_blocks_are_aligned_and_of_their_size():
    allocator = HostAllocator()
    sizes = (1, 64, 100, 1 << 16, (1 << 20) + 4)
    blocks = [allocator.allocate(size) for size in sizes]
    assert all(block.address % 64 == 0 for block in blocks)
    assert tuple(block.size for block in blocks) == sizes


def test_bytes_go_in_and_out():
    allocator = HostAllocator()
    block = allocator.allocate(100)
    allocator.copy_in(block, 10, memoryview(np.arange(5, dtype=np.float32)))
    out = np.zeros(3, np.float32)
    allocator.copy_out(memoryview(out), allocator.view(block, 4, 96), 10)
    np.testing.assert_array_equal(out, [1, 2, 3])
    assert offers(allocator, "host_view")
    view = allocator.host_view(block)
    assert (view.format, view.ndim, view.readonly) == ("B", 1, False)
    view[14:18] = np.float32(9).tobytes()
    allocator.copy_out(memoryview(out), block, 14)
    assert out[0] == 9


@pytest.mark.parametrize("size", [100, 1 << 18])
def test_a_view_keeps_its_memory(size):
    allocator = HostAllocator()
    block = allocator.allocate(size)
    view = allocator.host_view(block)
    view[:] = b"\x07" * len(view)
    allocator.free(block)
    del block
    gc.collect()
    other = allocator.allocate(size)
    allocator.host_view(other)[:] = b"\x01" * other.size
    assert set(view[:size]) == {7}


def test_no_room_says_so():
    allocator = HostAllocator()
    allocator.free(allocator.allocate(1 << 16))
    with pytest.raises(OutOfMemoryError, match="no room for 4611686018427387904 bytes"):
        allocator.allocate(1 << 62)
    with pytest.raises(UnsupportedError):
        allocator.map(object(), hooks.HostDevice())


def test_there_are_no_late_imports():
    folder = Path(core_plugin_cpu.__file__).parent
    assert [fault for file in folder.glob("*.py") for fault in late_imports(file)] == []


def test_the_registry_opens_it():
    if "CPU" not in registry.names():
        pytest.skip("the plugin is not installed")
    assert registry.open("CPU").target.name == "CPU"
