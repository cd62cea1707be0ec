"""Kernels that fail, emulators that are gone: errors that name the kernel, and life after them."""

import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import core_plugin_qemu
from core.plugin import DeviceError, RecordedCall
from core.testing.hook_bench import HookBench
from core_plugin_qemu import device as hooks

HEAD = "define void @kernel(ptr %args, i64 %lo, i64 %hi, i64 %tid) {"
# Bodies of kernels, in LLVM IR; {W} is the type of an address.
STORE_AT_NULL = f"{HEAD}\n  store i32 1, ptr inttoptr ({{W}} 16 to ptr)\n  ret void\n}}"
TRAP = f"declare void @llvm.trap()\n{HEAD}\n  call void @llvm.trap()\n  ret void\n}}"
ENDLESS = f"""{HEAD}
  br label %again
again:
  %v = load volatile i64, ptr %args
  br label %again
}}"""


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


@pytest.fixture(scope="module")
def bench(opened):
    return HookBench(hooks, opened)


def foreign(bench, source, name):
    """A program of LLVM IR for which {W} is the type of an address."""
    word = f"i{bench.device.architecture.word_bits}"
    return bench.program(source.replace("{W}", word).replace("@kernel", f"@{name}"), name)


@pytest.fixture
def works(bench, opened):
    """Afterwards memory is as it was, and kernels loaded before and later run."""
    source = np.arange(8, dtype=np.int32)
    kept, out = bench.block(source), bench.block(np.zeros(8, np.int32))
    before = bench.increment(8, "loaded_before")
    generation = opened.runner.generation
    yield
    assert opened.runner.generation > generation
    for program in (before, bench.increment(8, "loaded_after")):
        program([out, kept], [3])
        np.testing.assert_array_equal(bench.read(out, 8), source + 3)


@pytest.mark.parametrize(
    ("source", "words"),
    [(STORE_AT_NULL, "reached for memory that is not there .*SIGSEGV"),
     (TRAP, "SIG(TRAP|ILL)|holds what the emulator cannot run")], ids=["null", "trap"])
def test_a_fault_names_the_kernel(bench, works, source, words):
    bad = foreign(bench, source, "bad_kernel")
    with pytest.raises(DeviceError, match=f"kernel bad_kernel .*{words}") as caught:
        bad([], [], wait=True)
    assert "started again and memory is as it was" in str(caught.value)


def test_the_kernel_that_failed_is_found_among_many(bench, opened, works):
    good = bench.increment(8, "good_kernel")
    bad = foreign(bench, STORE_AT_NULL, "bad_kernel")
    a, b = (bench.block(np.zeros(8, np.int32)) for _ in range(2))
    good([a, b], [1])
    bad([], [])
    # Rows behind it are refused at once or when somebody waits.
    with pytest.raises(DeviceError, match="kernel bad_kernel"):  # noqa: PT012
        for _ in range(3):
            good([b, a], [1])
        opened.synchronize()
    opened.synchronize()
    assert set(bench.read(a, 8)) == {1}


def test_the_kernel_that_failed_is_found_in_a_recording(bench, opened, works):
    good = bench.increment(8, "good_kernel")
    bad = foreign(bench, TRAP, "bad_kernel")
    last = bench.increment(8, "last_kernel")
    recording = bench.loader.record(
        [RecordedCall(good, (0, 0), (0, 0), (0,), 1, 1, False),
         RecordedCall(bad, (), (), (), 1, 1, False),
         RecordedCall(last, (0, 0), (0, 0), (0,), 1, 1, False)], {})
    block = bench.block(np.zeros(8, np.int32))
    for round_number in (1, 2):  # the second time the kernels lie at other addresses, perhaps
        with pytest.raises(DeviceError, match="kernel bad_kernel"):  # noqa: PT012
            recording.replay([block], {0: 10})
            opened.synchronize()
        assert set(bench.read(block, 8)) == {10 * round_number}


def test_a_kernel_that_never_ends_is_ended(bench, opened, works, monkeypatch):
    bad = foreign(bench, ENDLESS, "endless_kernel")
    monkeypatch.setattr(opened.runner, "_seconds", 0.2)
    started = time.monotonic()
    with pytest.raises(DeviceError, match=r"endless_kernel .* ran longer than 0.2 s, the limit"):
        bad([bench.block(np.zeros(1, np.int64))], [], wait=True)
    assert time.monotonic() - started < 10


def test_a_long_batch_of_short_kernels_is_no_endless_kernel(bench, opened, monkeypatch):
    """The limit is one kernel's."""
    source = f"""{HEAD}
      br label %again
    again:
      %k = phi i32 [ 0, %0 ], [ %next, %again ]
      %v = load volatile i64, ptr %args
      %next = add i32 %k, 1
      %more = icmp slt i32 %next, 2000000
      br i1 %more, label %again, label %done
    done:
      ret void
    }}"""
    program = foreign(bench, source, "slow_kernel")
    block = bench.block(np.zeros(1, np.int64))
    seconds = max(program([block], [], wait=True) for _ in range(2))
    monkeypatch.setattr(opened.runner, "_seconds", 20 * seconds)
    for _ in range(40):
        program([block], [])
    opened.synchronize()


@pytest.mark.parametrize("busy", [False, True])
def test_an_emulator_that_was_killed(bench, opened, works, busy):
    program = foreign(bench, ENDLESS, "busy_kernel") if busy else bench.increment(1, "idle_kernel")
    blocks = [bench.block(np.zeros(1, np.int64))] * 2
    opened.synchronize()
    if busy:
        program(blocks[:1], [])
        time.sleep(0.05)
    os.kill(opened.runner.emulator.process_id, signal.SIGKILL)
    with pytest.raises(DeviceError, match="emulator of QEMU:.* ended .*SIGKILL"):  # noqa: PT012
        if not busy:
            program(blocks, [1])
        opened.synchronize()


def test_an_interrupt_while_waiting_leaves_it_usable(bench, opened, works):
    bad = foreign(bench, ENDLESS, "endless_kernel")
    block = bench.block(np.zeros(1, np.int64))
    bad([block], [])

    def interrupt(*_):
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        with pytest.raises(KeyboardInterrupt):
            opened.synchronize()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def test_the_emulator_ends_with_the_process_that_started_it(opened):
    code = ("import os, signal, sys, core_plugin_qemu.device as d\n"
            "from core_plugin_qemu.architectures import ARCHITECTURES\n"
            "device = d.EmulatedDevice(ARCHITECTURES[sys.argv[1]])\n"
            "print(device.runner.emulator.process_id, flush=True)\n"
            "if sys.argv[2] == 'killed': os.kill(os.getpid(), signal.SIGKILL)")
    for how in ("ends", "killed"):
        done = subprocess.run(
            [sys.executable, "-c", code, opened.architecture.name, how], capture_output=True,
            text=True, check=False,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))})
        assert done.stderr == ""
        status = f"/proc/{int(done.stdout)}/stat"
        for _ in range(100):
            try:
                with open(status, encoding="ascii") as file:
                    alive = file.read().rpartition(")")[2].split()[0] != "Z"
            except OSError:
                alive = False
            if not alive:
                break
            time.sleep(0.02)
        assert not alive
