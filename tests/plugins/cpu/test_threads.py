"""Recorded kernels on threads: every item once, in order where one needs another, from anywhere."""

import os
import threading
import time
import warnings

import numpy as np
import pytest

import core_plugin_cpu
from core.codegen.linearize import linearize
from core.compiler.compile import compile_linears
from core.foundation.settings import Context
from core.ir import AddressSpace, AxisType, Op, UOp, dtypes
from core.plugin import RecordedCall
from core.runtime import worker_programs
from core_plugin_cpu import device as hooks
from core_plugin_cpu.memory import HostBlock


class Opened:
    """A device of its own with some threads, and its recorder."""

    def __init__(self, threads):
        with Context(THREADS=threads):
            self.device = hooks.core_open_device(
                spec=core_plugin_cpu.core_devices()[0], variant=0)
        (self.renderer,) = hooks.core_renderers(device=self.device)
        self.loader = hooks.core_loader(
            device=self.device, binary_format=self.renderer.binary_format)
        self.target, self.extensions = self.device.target, ()
        pause = self.target.pause
        self.support = compile_linears({
            "worker": worker_programs.worker(pause), "replay": worker_programs.replay(pause),
            "stop": worker_programs.stop()}, self)

    def program(self, sink, name="kernel"):
        source = self.renderer.render(name, linearize(sink))
        return self.loader.load(name, self.renderer.compiler.compile([source])[0])

    def record(self, *calls):
        return self.loader.record(calls, self.support)


@pytest.fixture(scope="module", params=[1, 2, 4], ids=lambda n: f"{n} threads")
def opened(request):
    opened = Opened(request.param)
    yield opened
    opened.device.close()


def block_of(array):
    return HostBlock(array.ctypes.data, memoryview(array).cast("B"))


def threaded(items):
    return UOp.range(UOp.const(items, dtypes.int64), 0, AxisType.THREAD)


def increment(items, by=1):
    """out[i] = x[i] + by."""
    out, x = (UOp.param(k, dtypes.int32, (items,)) for k in (0, 1))
    r = threaded(items)
    return UOp.sink(out.index(r).store(x.index(r).load() + by).end(r))


def counted(items):
    """x[i] = x[i] + 1: a second run of an item shows."""
    x = UOp.param(0, dtypes.int32, (items,))
    r = threaded(items)
    return UOp.sink(x.index(r).store(x.index(r).load() + 1).end(r))


def call(program, blocks, items, share, meet=False, scalars=()):
    return RecordedCall(program, tuple(blocks), (0,) * len(blocks), tuple(scalars), items, share,
                        meet)


@pytest.mark.parametrize("items", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("share", [1, 2, 500, 5000])
def test_every_item_runs_once(opened, items, share):
    recording = opened.record(call(opened.program(counted(items)), [0], items, share))
    x = np.zeros(items, np.int32)
    for k in range(1, 6):
        recording.replay([block_of(x)], {})
        np.testing.assert_array_equal(x, k)


def test_calls_wait_where_they_are_told_to(opened):
    """A chain of shared and single calls, each of which reads what the one before wrote."""
    items, length = 64, 300
    shared, single = opened.program(increment(items)), opened.program(increment(items, 2))
    calls = [
        RecordedCall(shared if k % 3 else single, ((k + 1) % 2, k % 2), (0, 0), (),
                     items, 7 if k % 3 else items, True)
        for k in range(length)]
    recording = opened.record(*calls)
    a, b = np.zeros(items, np.int32), np.zeros(items, np.int32)
    for _ in range(20):
        a[:] = 5
        recording.replay([block_of(a), block_of(b)], {})
        np.testing.assert_array_equal(a, 5 + 200 + 2 * 100)


def test_long_lists_are_run_in_pieces(opened):
    program = opened.program(counted(3))
    recording = opened.record(*[call(program, [0], 3, 1, meet=True)] * 1500)
    x = np.zeros(3, np.int32)
    recording.replay([block_of(x)], {})
    np.testing.assert_array_equal(x, 1500)


def test_offsets_and_scalars_reach_their_call(opened):
    out, x = UOp.param(0, dtypes.float64, (2,)), UOp.param(1, dtypes.float64, (2,))
    factor = UOp.variable("f", 0, 9, dtypes.float64, slot=2)
    shift = UOp.variable("s", -9, 9, dtypes.int64, slot=3)
    r = UOp.range(UOp.const(2, dtypes.int64), 0)
    value = x.index(r).load() * factor + shift.cast(dtypes.float64)
    program = opened.program(UOp.sink(out.index(r).store(value).end(r)))
    recording = opened.record(
        RecordedCall(program, (0, 1), (0, 16), (2, 3), 1, 1, False),
        RecordedCall(program, (0, 1), (16, 0), (2, 3), 1, 1, False))
    result, source = np.zeros(4), np.arange(4.0)
    recording.replay([block_of(result), block_of(source)], {2: 2.5, 3: -7})
    np.testing.assert_array_equal(result, [2 * 2.5 - 7, 3 * 2.5 - 7, -7, 2.5 - 7])


def test_each_thread_has_scratch_of_its_own(opened):
    """Every item fills the scratch with its number, then sums it."""
    items, size = 64, 4096
    a = UOp.param(0, dtypes.int64, (items,))
    r = UOp.range(UOp.const(items, dtypes.int64), 0, AxisType.THREAD)
    i, j = (UOp.range(UOp.const(size, dtypes.int64), k) for k in (1, 2))
    scratch = UOp(Op.BUFFER, (UOp.dims((size,)),), _slot(0, dtypes.int64, AddressSpace.LOCAL))
    total = UOp(Op.BUFFER, (UOp.dims((1,)),), _slot(1, dtypes.int64, AddressSpace.REG))
    zero = UOp.const(0, dtypes.int64)
    fill = scratch.after(r).index(i).store(r).end(i)
    start = total.after(r).index(zero).store(zero)
    place = total.after(start, j).index(zero)
    step = place.store(place.load() + scratch.after(fill).index(j).load()).end(j)
    result = total.after(step).index(zero).load()
    program = opened.program(UOp.sink(a.index(r).store(result).end(r)))
    recording = opened.record(call(program, [0], items, 3))
    output = np.zeros(items, np.int64)
    for _ in range(5):
        output[:] = 0
        recording.replay([block_of(output)], {})
        np.testing.assert_array_equal(output, np.arange(items) * size)


def _slot(number, dtype, space):
    model = UOp.new_buffer(None, dtype, (1,)).arg
    return model._replace(slot=number, space=space)


def test_recordings_are_replayed_from_several_threads(opened):
    program = opened.program(increment(5000))
    recording = opened.record(call(program, [0, 1], 5000, 100))
    failures = []

    def work(step):
        source = np.arange(5000, dtype=np.int32) * step
        output = np.zeros(5000, np.int32)
        for _ in range(50):
            output[:] = 0
            recording.replay([block_of(output), block_of(source)], {})
            if not np.array_equal(output, source + 1):
                failures.append(step)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_goes_on(opened):
    program = opened.program(increment(1000))
    recording = opened.record(call(program, [0, 1], 1000, 10))
    source, output = np.arange(1000, dtype=np.int32), np.zeros(1000, np.int32)
    recording.replay([block_of(output), block_of(source)], {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads and fork: the point
        child = os.fork()
    if not child:
        os.setpgrp()
        output[:] = 0
        recording.replay([block_of(output), block_of(source)], {})
        os._exit(0 if np.array_equal(output, source + 1) else 1)
    for _ in range(500):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        time.sleep(0.01)
    else:
        os.kill(child, 9)
        os.waitpid(child, 0)
        pytest.fail("the child hangs")
    assert os.waitstatus_to_exitcode(status) == 0
    output[:] = 0
    recording.replay([block_of(output), block_of(source)], {})
    np.testing.assert_array_equal(output, source + 1)


def test_threads_sleep_when_there_is_nothing_to_do(opened):
    recording = opened.record(call(opened.program(counted(100)), [0], 100, 1))
    x = np.zeros(100, np.int32)
    recording.replay([block_of(x)], {})
    time.sleep(0.1)
    before = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - before < 0.1, "an idle process uses no processor"
    recording.replay([block_of(x)], {})
    np.testing.assert_array_equal(x, 2)


def test_closing_ends_the_threads():
    opened = Opened(3)
    recording = opened.record(call(opened.program(counted(100)), [0], 100, 1))
    x = np.zeros(100, np.int32)
    recording.replay([block_of(x)], {})
    mine = list(opened.device.pool._threads)
    assert len(mine) == 2
    opened.device.close()
    assert not any(thread.is_alive() for thread in mine)
    recording.replay([block_of(x)], {})  # new ones are started
    np.testing.assert_array_equal(x, 2)
    opened.device.close()
