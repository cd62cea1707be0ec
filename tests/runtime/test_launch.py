"""What surrounds a launch."""

import threading
import time
from dataclasses import replace

import pytest

from core import Device
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
