"""What launches cost on emulated processors: alone, in a replayed list, and a start after a fault.

    python benchmarks/qemu_launches.py

Each line is the median of seven rounds. Needs core-plugin-qemu and qemu-user.
"""

import shutil
from statistics import median
from time import perf_counter

import numpy as np

from core.plugin import RecordedCall
from core.testing.hook_bench import HookBench
from core_plugin_qemu import device as hooks
from core_plugin_qemu.architectures import ARCHITECTURES

ROUNDS, LAUNCHES, LIST = 7, 300, 100


def seconds(action, count):
    """Median of a round's time for one call."""
    rounds = []
    for _ in range(ROUNDS):
        started = perf_counter()
        for _ in range(count):
            action()
        rounds.append((perf_counter() - started) / count)
    return median(rounds)


def measure(name):
    """One device: microseconds alone and in a list, milliseconds to start again."""
    device = hooks.EmulatedDevice(ARCHITECTURES[name])
    bench = HookBench(hooks, device)
    program = bench.increment(4)
    blocks = [bench.block(np.zeros(4, np.int32)) for _ in range(2)]
    call = RecordedCall(program, (0, 1), (0, 0), (0,), 1, 1, False)
    recording = bench.loader.record([call] * LIST, {})

    def alone():
        program(blocks, [1])
        device.synchronize()

    def listed():
        for _ in range(10):
            recording.replay(blocks, {0: 1})
        device.synchronize()

    def again():
        device.runner.restart()
        alone()

    result = seconds(alone, LAUNCHES) * 1e6, seconds(listed, 5) / LIST / 10 * 1e6, (
        seconds(again, 1) * 1e3)
    device.close()
    return result


def main():
    for name, architecture in ARCHITECTURES.items():
        if shutil.which(architecture.emulator) is None:
            print(f"{name}: {architecture.emulator} is not installed")
            continue
        alone, listed, again = measure(name)
        print(f"{name:8} alone {alone:6.1f} us   in a list of {LIST} {listed:5.2f} us   "
              f"start again {again:5.1f} ms")


if __name__ == "__main__":
    main()
