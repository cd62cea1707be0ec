"""Bytes in and out of an adapter's memory, and copies within it, at any byte."""

import numpy as np
import pytest

pytest.importorskip("wgpu", reason="the library wgpu is not installed")
pytest.importorskip("core_plugin_webgpu", reason="core-plugin-webgpu is not installed")

import core_plugin_webgpu
from core.plugin import DeviceError, OutOfMemoryError
from core.runtime.device import open_device
from core_plugin_webgpu.context import WebGpuDevice
from core_plugin_webgpu.memory import WebGpuAllocator


@pytest.fixture(scope="session")
def opened():
    """The first adapter; without a driver the tests here are skipped."""
    found = core_plugin_webgpu.probe()
    if not found.count:
        pytest.skip(found.reason)
    return open_device("WEBGPU")


def read(memory, block, offset, size):
    into = bytearray(size)
    memory.copy_out(memoryview(into), block, offset)
    return bytes(into)


@pytest.fixture
def device(opened):
    return opened.device


@pytest.fixture
def memory(device):
    return WebGpuAllocator(device)


@pytest.mark.parametrize("offset", [0, 1, 3, 4, 7])
@pytest.mark.parametrize("size", [1, 2, 4, 5, 33])
def test_bytes_go_to_any_place_and_leave_their_neighbours(memory, offset, size):
    block = memory.allocate(64)
    before = bytes(range(64))
    memory.copy_in(block, 0, memoryview(before))
    data = bytes(200 + k for k in range(size))
    memory.copy_in(block, offset, memoryview(data))
    assert read(memory, block, 0, 64) == before[:offset] + data + before[offset + size:]
    assert read(memory, block, offset, size) == data
    memory.free(block)


def test_a_view_is_a_part_of_its_block(memory):
    block = memory.allocate(100)
    memory.copy_in(block, 0, memoryview(bytes(range(100))))
    part = memory.view(memory.view(block, 7, 50), 6, 20)
    assert read(memory, part, 1, 3) == bytes([14, 15, 16])
    memory.copy_in(part, 0, memoryview(b"\xff"))
    assert read(memory, block, 12, 3) == bytes([12, 255, 14])
    memory.free(block)


@pytest.mark.parametrize(("to", "start", "size"), [
    (0, 0, 64), (1, 2, 9), (3, 0, 1), (5, 4, 27), (8, 16, 24), (2, 3, 100)])
def test_copies_within_the_adapter_reach_any_byte(opened, memory, to, start, size):
    source, destination = memory.allocate(128), memory.allocate(128)
    random = np.random.default_rng(1).integers(0, 256, (2, 128)).astype(np.uint8)
    memory.copy_in(source, 0, memoryview(random[0]))
    memory.copy_in(destination, 0, memoryview(random[1]))
    opened.copy_queue.submit(destination, to, source, start, size)
    random[1, to:to + size] = random[0, start:start + size]
    assert read(memory, destination, 0, 128) == random[1].tobytes()
    memory.free(source)
    memory.free(destination)


def test_what_a_kernel_cannot_take_is_not_allocated(memory, device):
    with pytest.raises(OutOfMemoryError, match="more than a kernel"):
        memory.allocate(device.largest_binding + 64)
    block = memory.allocate(64)  # usable as before
    assert len(read(memory, block, 0, 64)) == 64
    memory.free(block)


def test_bytes_are_counted(device):
    memory = WebGpuAllocator(device, limit=1000)
    block = memory.allocate(900)
    with pytest.raises(OutOfMemoryError, match="1000 bytes, 912 of them in use"):
        memory.allocate(100)
    memory.free(block)
    memory.free(memory.allocate(1000 - 8))


def test_a_device_that_is_lost_says_so():
    device = WebGpuDevice(0)
    memory = WebGpuAllocator(device)
    block = memory.allocate(64)
    device.gpu.destroy()
    with pytest.raises(DeviceError, match="lost"):
        read(memory, block, 0, 4)
    with pytest.raises(DeviceError, match=r"is lost: .*|cannot"):
        memory.allocate(64)
