"""Tensors on emulated processors: copies by every path, failures seen from a program, a network."""

import os
import shutil
import signal

import numpy as np
import pytest

import core_plugin_qemu
from core import Device, Tensor, dtypes, jit
from core.foundation.settings import Context
from core.plugin import DeviceError
from core.runtime.copies import pair_copy
from core.tools.demo import BATCH, Training

VARIANTS = [
    pytest.param(f"QEMU:{name}", marks=pytest.mark.skipif(
        shutil.which(f"qemu-{name}") is None,
        reason=f"qemu-{name} is not installed (apt-get install qemu-user)"))
    for name in core_plugin_qemu.VARIANTS]
PATHS = ("queue", "kernel", "map", "host")


def other_device(name, variant):
    """Another device than the variant: the default one, the interpreter, another variant."""
    if name == "DEFAULT":
        return Device.DEFAULT
    if name != "other QEMU":
        return name
    found = [f"QEMU:{v}" for v in core_plugin_qemu.VARIANTS
             if f"QEMU:{v}" != variant and shutil.which(f"qemu-{v}")]
    if not found:
        pytest.skip("there is one emulator only")
    return found[0]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("other", ["DEFAULT", "REFERENCE", "other QEMU", "itself"])
def test_bytes_arrive_by_every_path(variant, other):
    other = variant if other == "itself" else other_device(other, variant)
    data = np.random.default_rng(0).integers(-99, 99, 5001, np.int32)
    tried = set()
    for source, destination in {(variant, other), (other, variant)}:
        pair = pair_copy(Device[destination].opened, Device[source].opened)
        for path in PATHS:
            x = (Tensor(data, device=source) * 3).realize()
            with Context(COPY=path):
                # The default device may map memory, though never this.
                if (path not in pair.paths or path == "map") and source != destination:
                    with pytest.raises(DeviceError, match=f"the path '{path}'"):
                        x[7:5000].to(destination).realize()
                    continue
                moved = x[7:5000].to(destination).realize()
            tried.add(path)
            np.testing.assert_array_equal((moved + 1).numpy(), data[7:5000] * 3 + 1)
    assert "host" in tried


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("size", [1, 63, 4096, 3 << 20])
def test_copies_within_a_device(variant, size):
    data = np.random.default_rng(0).integers(0, 256, size, np.uint8)
    opened = Device[variant].opened
    first, second = (opened.allocator.allocate(size + 5) for _ in range(2))
    opened.allocator.copy_in(first, 3, data.data)
    for path in pair_copy(opened, opened).paths.values():
        opened.allocator.copy_in(second, 0, np.zeros(size + 5, np.uint8).data)
        path(second, 2, first, 3, size)
        found = np.zeros(size + 5, np.uint8)
        opened.allocator.copy_out(found.data, second, 0)
        np.testing.assert_array_equal(found, [0, 0, *data, 0, 0, 0])
    opened.allocator.free(first)
    opened.allocator.free(second)


@pytest.mark.parametrize("variant", VARIANTS)
def test_tensors_and_traces_survive_a_new_start(variant):
    x = Tensor(np.arange(10, dtype=np.float32), device=variant)
    y = (x * 2).realize()
    step = jit(lambda t: (t + 1) * (t - 1))
    right = [k * 2 * k * 2 - 1 for k in range(10)]
    for _ in range(3):
        assert step(y).tolist() == right
    emulator = Device[variant].opened.device.runner.emulator
    os.kill(emulator.process_id, signal.SIGKILL)
    with pytest.raises(DeviceError, match="the emulator of QEMU:.* ended .*SIGKILL"):
        step(y).tolist()
    assert y.tolist() == list(range(0, 20, 2))
    for _ in range(2):
        assert step(y).tolist() == right


def losses(device, steps):
    """The first losses of the demo's network."""
    before = Device.DEFAULT
    Device.DEFAULT = device
    try:
        training = Training(seed=0, epochs=1)
        batches = (list(range(k * BATCH, (k + 1) * BATCH)) for k in range(steps))
        return [training._step(Tensor(batch, dtype=dtypes.int32)).item() for batch in batches]
    finally:
        Device.DEFAULT = before


@pytest.mark.full
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_demo_learns_as_the_default_device_does(variant):
    np.testing.assert_allclose(losses(variant, 5), losses(Device.DEFAULT, 5), rtol=1e-4)
