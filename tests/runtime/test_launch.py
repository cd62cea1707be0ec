"""What surrounds a launch."""

import threading
import time
from dataclasses import replace

import numpy as np
import pluggy
import pytest

from core import Device, Tensor, jit
from core.plugin import opening
from core.plugin.registry import Registry, registry
from core.runtime import open_device
from core.runtime.copy_kernels import CopyKernels


@pytest.mark.parametrize("thread_safe", [True, False])
def test_devices_that_take_one_launch_at_a_time(thread_safe):
    opened = open_device(Device.DEFAULT)
    kernels = CopyKernels(
        replace(opened, target=replace(opened.target, thread_safe=thread_safe)))
    block = opened.allocator.allocate(64)
    kernels.copy(block, 0, block, 0, 64)
    (launch,) = kernels._launches.values()
    at_once, most, together = 0, 0, threading.Barrier(3)

    def run(blocks, values, wait):
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        time.sleep(0.02)
        at_once -= 1

    launch.run = run

    def work():
        together.wait()
        kernels.copy(block, 0, block, 0, 64)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most == 1) == (not thread_safe)


def spied(monkeypatch):
    """Names of what the registry and the hook system are asked from now on."""
    asked = []

    def spy(owner, name):
        original = getattr(owner, name)

        def called(*arguments, **options):
            asked.append(name)
            return original(*arguments, **options)

        monkeypatch.setattr(owner, name, called)

    for name, value in vars(Registry).items():
        if callable(value):
            spy(Registry, name)
    spy(pluggy.HookCaller, "__call__")
    spy(opening, "open_device")
    return asked


def test_the_registry_is_not_read_while_launching(monkeypatch):
    body = jit(lambda x: (x * 2 + 1).sum())
    x = Tensor(np.arange(8, dtype=np.float32)).realize()
    for _ in range(3):
        body(x).realize()
        (x + 1).realize()
    asked = spied(monkeypatch)
    for _ in range(1000):
        body(x).realize()
    for _ in range(100):
        (x + 1).realize()
    assert asked == []
    registry.open(Device.DEFAULT)
    assert "open" in asked  # the spy sees
