"""Realising: threads, forks, interrupts and failures leave right values behind."""

import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from itertools import count

import numpy as np
import pytest

import core
from core import Device, Tensor
from core.foundation.errors import DeviceError
from core.runtime import open_device, realize
from core.runtime.executor import BoundSchedule
from core.runtime.launch import Launch
from core.runtime.memory import block_cache


def in_threads(count, work):
    """Run `work(k)` in threads at once; raises what one of them raised."""
    errors, barrier = [], threading.Barrier(count)

    def run(k):
        try:
            barrier.wait()
            work(k)
        except BaseException as error:  # noqa: BLE001 - handed to the test
            errors.append(error)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(count)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # they take turns in the middle of everything
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    if errors:
        raise errors[0]


def test_values_are_computed_once_and_kept():
    x = (Tensor([1.0, 2.0]) * 3).uop
    (first,), (second,) = realize([x]), realize([x])
    assert first is second
    one, other = realize([x, x])
    assert one is other is first


def test_threads_compute_at_once():
    """Each its own programs, and all of them one and the same."""
    shared = Tensor(np.arange(1000, dtype=np.float32))

    def work(k):
        for turn in range(20):
            x = Tensor(np.full(100 + k, turn, np.float32))
            assert ((x + k) * 2).sum().item() == 2.0 * (100 + k) * (turn + k)
            assert (shared * turn).sum().item() == 499_500.0 * turn

    in_threads(6, work)


def test_threads_replay_one_jitted_function():
    @core.jit
    def step(x):
        return (x * 2 + 1).contiguous().cumsum(0), x.sum()

    step(Tensor(np.zeros(64, np.float32)))

    def work(k):
        data = np.full(64, k, np.float32)
        for _ in range(50):
            values, total = step(Tensor(data))
            assert np.array_equal(values.numpy(), np.cumsum(data * 2 + 1))
            assert total.item() == 64.0 * k

    in_threads(6, work)


def test_threads_allocate_and_free_at_once():
    def work(k):
        kept = []
        for turn in range(200):
            kept.append(Tensor(np.full(64 * (1 + turn % 3), k, np.float32)))
            if turn % 5 == 4:
                assert all(t.tolist()[-1] == k for t in kept)
                kept.clear()

    in_threads(6, work)


def in_child(work):
    """Exit status of `work` in a forked child."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads
        child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if work() else 2
        finally:
            os._exit(status)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "hangs"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_child_computes_and_its_parent_goes_on():
    if not open_device(Device.DEFAULT).target.fork_safe:
        pytest.skip("the device does not survive a fork")
    x = Tensor(np.ones(1 << 20, np.float32)).realize()
    assert (x + 1).sum().item() == 2 << 20  # starts the workers

    def work():
        return (x + 1).sum().item() == 2 << 20 and (x * 7.5).sum().item() == 7.5 * (1 << 20)

    assert [in_child(work) for _ in range(3)] == [0, 0, 0]
    assert work()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_child_forked_while_threads_compute_is_free():
    """No lock that a thread of the parent holds is held in the child, where nobody would let go."""
    if not open_device(Device.DEFAULT).target.fork_safe:
        pytest.skip("the device does not survive a fork")
    stop = threading.Event()

    def keep_busy(k):
        for turn in count():
            if stop.is_set():
                return
            (Tensor(np.full(50, k, np.float32)) * (turn + k / 8) + 1).sum().item()

    threads = [threading.Thread(target=keep_busy, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    try:
        results = [in_child(lambda k=k: (Tensor([1.0, 2.0]) * 3 + k).sum().item() == 9 + 2 * k)
                   for k in range(4)]
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert results == [0] * 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_device_that_does_not_survive_a_fork_refuses(monkeypatch):
    opened = open_device("NULL")
    monkeypatch.setattr(type(opened.target), "fork_safe", False, raising=False)
    object.__setattr__(opened.target, "fork_safe", False)
    try:
        def work():
            try:
                (Tensor([1.0], device="NULL") + 1).realize()
            except DeviceError as error:
                return "forked" in str(error)
            return False

        assert in_child(work) == 0
    finally:
        object.__setattr__(opened.target, "fork_safe", True)


def interrupt_at(monkeypatch, where, owner):
    """Raise KeyboardInterrupt at the first call of a function; then it works again."""
    original = getattr(owner, where)
    fired = []

    def interrupted(*arguments, **options):
        if not fired:
            fired.append(True)
            raise KeyboardInterrupt
        return original(*arguments, **options)

    monkeypatch.setattr(owner, where, interrupted)


@pytest.mark.parametrize(("owner", "name", "factor"), [
    ("core.compiler.pipeline", "run_passes", 1.125),
    ("core.compiler.pipeline", "decompose", 1.25),
    ("core.compiler.compile", "_run_compiler", 1.375),
    ("core.runtime.launch", "load_program", 1.5),
    ("core.runtime.realize", "compile_linear", 1.625),
    ("core.runtime.realize", "remember", 1.75),
    ("core.runtime.memory.BlockCache", "_fresh", 1.875),
])
def test_an_interrupt_anywhere_leaves_everything_usable(monkeypatch, owner, name, factor):
    if name == "decompose" and open_device(Device.DEFAULT).target.stage == "kernel":
        pytest.skip("kernels of an interpreter are not decomposed")
    count = 1000 + int(factor * 64)
    x = Tensor(np.ones(count, np.float32)).realize()
    block_cache(open_device(Device.DEFAULT)).trim()
    path, _, last = owner.rpartition(".")
    found = (getattr(sys.modules[path], last) if path in sys.modules and last[0].isupper()
             else sys.modules[owner])
    y = x * factor
    with monkeypatch.context() as patch:
        patch.setenv("CORE_CACHE", "0")
        interrupt_at(patch, name, found)
        with core.Context(CACHE=False), pytest.raises(KeyboardInterrupt):
            y.numpy()
    assert y.sum().item() == count * factor
    assert np.array_equal(y.numpy(), np.full(count, factor, np.float32))


# In a process of its own: what is raised while Python calls back for a dead object it only prints.
SIGNALS = """
import signal, threading
import numpy as np
from core import Tensor

x = Tensor(np.ones(300_000, np.float32)).realize()
assert (x * 2).sum().item() == 600_000
# Whoever runs the tests in the background lets them ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)
main, stop = threading.main_thread().ident, threading.Event()

def send():
    while not stop.wait(0.004):
        signal.pthread_kill(main, signal.SIGINT)

sender = threading.Thread(target=send, daemon=True)
interrupted = 0
sender.start()
for turn in range(60):
    try:
        (x * (turn + 0.5)).sum().item()
    except KeyboardInterrupt:
        interrupted += 1
while not stop.is_set():
    try:
        stop.set()
        sender.join()
    except KeyboardInterrupt:
        pass
signal.signal(signal.SIGINT, signal.SIG_IGN)
for turn in range(60):
    assert (x * (turn + 0.5)).sum().item() == 300_000 * (turn + 0.5)
print(interrupted)
"""


def test_signals_at_any_moment_leave_everything_usable(tmp_path):
    """Of compiling and of running."""
    found = subprocess.run(
        [sys.executable, "-c", SIGNALS], capture_output=True, text=True, check=False, timeout=100,
        env={**os.environ, "CORE_CACHE_DIR": str(tmp_path),
             "PYTHONPATH": os.pathsep.join(filter(None, sys.path))})
    assert found.returncode == 0, found.stderr[-2000:]
    assert int(found.stdout) > 5


def test_a_failing_launch_leaves_everything_usable(monkeypatch):
    x = Tensor(np.ones(128, np.float32)).realize()
    y = x * 9.5
    with monkeypatch.context() as patch:
        def fail(self, *arguments, **options):
            raise RuntimeError("the device is ill")

        patch.setattr(BoundSchedule, "run", fail)
        patch.setattr(Launch, "run", fail)
        with pytest.raises(RuntimeError, match="is ill"):
            y.numpy()
    assert y.tolist() == [9.5] * 128
