"""What running says: DEBUG=1 a line per compile, DEBUG=2 a line per kernel, and the counters."""

import re

import numpy as np
import pytest

from core import Context, GlobalCounters, Tensor

COMPILED = re.compile(r"^(\w+) +compiled (\w+) to (\d+) bytes in (\d+\.\d) ms$", re.MULTILINE)
RAN = re.compile(r"^(\w+) +(\w+) +(\d+) items +(\d+\.\d) us +(\d+\.\d) GB/s +(\d+\.\d) GF/s$",
                 re.MULTILINE)
COPIED = re.compile(r"^copy +(\d+) bytes +(\d+\.\d) us +(\d+\.\d) GB/s$", re.MULTILINE)


def values(count):
    return Tensor(np.ones(count, np.float32)).realize()


@pytest.fixture
def counters():
    GlobalCounters.reset()
    return GlobalCounters


def test_debug_1_says_what_is_compiled_once(capfd):
    x = values(613)
    with Context(DEBUG=1, CACHE=False):
        (x * 613.25).realize()
        lines = COMPILED.findall(capfd.readouterr().err)
        assert len(lines) == 1
        (x * 613.25).realize()
        assert not capfd.readouterr().err
    device, name, size, milliseconds = lines[0]
    assert device == x.device
    assert "613" in name
    assert int(size) > 0
    assert float(milliseconds) >= 0  # an interpreter has nothing to compile


def test_debug_2_says_what_runs(capfd):
    x = values(617)
    with Context(DEBUG=2):
        assert ((x * 2).contiguous() + 1).sum().item() == 617 * 3
    lines = RAN.findall(capfd.readouterr().err)
    assert len(lines) >= 2
    assert {device for device, *_ in lines} == {x.device}
    assert any("617" in name for _, name, *_ in lines)


def test_debug_2_says_what_is_copied(capfd):
    x = values(619)
    other = "NULL" if x.device == "REFERENCE" else "REFERENCE"
    with Context(DEBUG=2):
        x.to(other).realize()
    assert [int(size) for size, *_ in COPIED.findall(capfd.readouterr().err)] == [619 * 4]


def test_debug_0_says_nothing(capfd):
    with Context(DEBUG=0):
        (values(621) * 621.5).realize()
    assert capfd.readouterr() == ("", "")


def test_counters_count_kernels_operations_and_bytes(counters):
    x, y = values(1000), values(1000)
    counters.reset()
    (x * y + 1).realize()
    assert counters.kernel_count == 1
    assert counters.global_ops == 2 * 1000
    assert counters.global_mem == 3 * 4000


def test_matmul_counts_two_operations_for_each_product(counters):
    x, y = values(64 * 32).reshape(64, 32), values(32 * 16).reshape(32, 16)
    counters.reset()
    (x @ y).realize()
    assert counters.kernel_count == 1
    assert counters.global_ops == 2 * 64 * 32 * 16
    assert counters.global_mem == 4 * (64 * 32 + 32 * 16 + 64 * 16)


def test_time_is_counted_where_it_is_measured(counters):
    x = values(2000)
    counters.reset()
    (x * 5).realize()
    assert counters.time_sum_s == 0
    with Context(DEBUG=2):
        (x * 5).realize()
    assert counters.time_sum_s > 0


def test_a_replay_counts_like_the_first_run(counters):
    x = values(333)
    counters.reset()
    (x - 4).realize()
    first = (counters.kernel_count, counters.global_ops, counters.global_mem)
    (x - 4).realize()
    assert (counters.kernel_count, counters.global_ops, counters.global_mem) == tuple(
        2 * n for n in first)
