"""The four paths of a copy: each moves the same bytes, one is chosen for each pair of devices."""

from dataclasses import replace

import numpy as np
import pytest

from core import Context, Device, GlobalCounters, Tensor
from core.foundation.errors import DeviceError, OutOfMemoryError, UnsupportedError
from core.plugin import Allocator, CopyQueue
from core.runtime import copies, copy_kernels, open_device
from core.runtime.copies import PairCopy, pair_copy

OTHER = "REFERENCE"
BLOCK = 4096


class HiddenAllocator(Allocator):
    """The interpreter's memory, of which the host sees nothing."""

    def __init__(self, real):
        self.real, self.sizes, self.failing_at = real, [], None

    def allocate(self, size_bytes):
        return self.real.allocate(size_bytes)

    def free(self, block):
        self.real.free(block)

    def copy_in(self, block, offset, source):
        self.sizes.append(source.nbytes)
        self.real.copy_in(block, offset, source)

    def copy_out(self, destination, block, offset):
        if offset == self.failing_at:
            raise OutOfMemoryError("no pinned memory left")
        self.real.copy_out(destination, block, offset)

    def view(self, block, offset, size_bytes):
        return self.real.view(block, offset, size_bytes)


class MappingAllocator(HiddenAllocator):
    """Reaches arrays; other memory not."""

    mapped = 0

    def map(self, block, owner):
        if not isinstance(block, np.ndarray):
            raise UnsupportedError(f"the memory of {owner.target.name} is out of reach")
        self.mapped += 1
        return block


class ArrayQueue(CopyQueue):
    """Hardware that copies arrays."""

    def __init__(self):
        self.submitted = self.waited = 0

    def submit(self, destination, destination_offset, source, source_offset, size_bytes):
        destination[destination_offset:destination_offset + size_bytes] = (
            source[source_offset:source_offset + size_bytes])
        self.submitted += 1
        return self.submitted

    def wait(self, event):
        self.waited = event


def apart(opened):
    """The same device with a handle of its own: to core it is another one."""
    return replace(opened, device=type(opened.device)())


def hidden():
    opened = open_device(OTHER)
    return replace(apart(opened), allocator=HiddenAllocator(opened.allocator))


def mapping(**parts):
    opened = open_device(OTHER)
    return replace(apart(opened), allocator=MappingAllocator(opened.allocator), **parts)


def move(copy, destination, source, to=0, start=0, size=1000, room=64):
    """Copy random bytes and compare all of the destination's block."""
    data = np.random.default_rng(size).integers(0, 256, start + size + room, np.uint8)
    before = np.random.default_rng(size + 1).integers(0, 256, to + size + room, np.uint8)
    read, written = source.allocator.allocate(len(data)), destination.allocator.allocate(
        len(before))
    source.allocator.copy_in(read, 0, memoryview(data))
    destination.allocator.copy_in(written, 0, memoryview(before))
    copy(written, to, read, start, size)
    found = np.empty_like(before)
    destination.allocator.copy_out(memoryview(found), written, 0)
    before[to:to + size] = data[start:start + size]
    assert np.array_equal(found, before)


PIECES = [(0, 0, 1000), (16, 32, 4096), (4, 8, 77), (3, 5, 1), (1, 0, 1001), (0, 0, 0),
          (64, 128, 65_537)]


@pytest.mark.parametrize(("to", "start", "size"), PIECES)
@pytest.mark.parametrize("name", ["kernel", "host"])
def test_within_the_device(name, to, start, size):
    opened = open_device(Device.DEFAULT)
    with Context(COPY=name):
        move(pair_copy(opened, opened), opened, opened, to, start, size)


@pytest.mark.parametrize(("to", "start", "size"), PIECES)
@pytest.mark.parametrize("reaches", ["destination", "source"])
def test_mapped_memory(reaches, to, start, size):
    opened, reaching = open_device(OTHER), mapping()
    pair = (reaching, opened) if reaches == "destination" else (opened, reaching)
    with Context(COPY="map"):
        move(pair_copy(*pair), *pair, to, start, size)
    assert reaching.allocator.mapped == (1 if size else 0)


@pytest.mark.parametrize(("to", "start", "size"), PIECES)
def test_a_queue_within_its_device_is_not_waited_for(to, start, size):
    opened = replace(open_device(OTHER), copy_queue=ArrayQueue())
    move(pair_copy(opened, opened), opened, opened, to, start, size)
    assert (opened.copy_queue.submitted, opened.copy_queue.waited) == (1 if size else 0, 0)


def test_a_queue_that_reaches_another_device_is_waited_for():
    destination = mapping(copy_queue=ArrayQueue())
    source = open_device(OTHER)
    move(pair_copy(destination, source), destination, source)
    assert (destination.copy_queue.waited, destination.allocator.mapped) == (1, 1)


@pytest.mark.parametrize("size", [1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, 9 * BLOCK + 5])
def test_a_ring_of_blocks_where_the_host_sees_neither_side(monkeypatch, size):
    monkeypatch.setattr(copies, "_BLOCK_BYTES", BLOCK)
    destination, source = hidden(), hidden()
    move(pair_copy(destination, source), destination, source, 3, 7, size)
    assert max(destination.allocator.sizes[1:]) <= BLOCK
    assert sum(destination.allocator.sizes[1:]) == size


def test_the_ring_reads_ahead(monkeypatch):
    """While a block is written the next ones are read."""
    monkeypatch.setattr(copies, "_BLOCK_BYTES", BLOCK)
    source = hidden()
    block = source.allocator.allocate(6 * BLOCK)
    found = copies._read_ahead(source, block, 0, 6 * BLOCK)
    source.allocator.failing_at = 4 * BLOCK
    assert [at for at, _ in (next(found) for _ in range(4))] == [0, BLOCK, 2 * BLOCK, 3 * BLOCK]
    with pytest.raises(OutOfMemoryError, match="pinned"):
        next(found)


def test_a_failure_in_the_ring_reaches_the_caller_and_the_next_copy_works(monkeypatch):
    monkeypatch.setattr(copies, "_BLOCK_BYTES", BLOCK)
    destination, source = hidden(), hidden()
    copy = pair_copy(destination, source)
    source.allocator.failing_at = 5 * BLOCK
    with pytest.raises(OutOfMemoryError, match="pinned"):
        move(copy, destination, source, size=9 * BLOCK)
    source.allocator.failing_at = None
    move(copy, destination, source, size=9 * BLOCK)


def chosen(pair, *, size=100):
    """Name of the path that a pair takes."""
    copy = PairCopy(*pair)
    move(copy, *pair, size=size)
    return next(name for name, path in copy.paths.items() if path is copy._chosen)


def test_the_first_path_that_a_pair_has_is_taken():
    plain = open_device(OTHER)
    queue = replace(plain, copy_queue=ArrayQueue())
    assert chosen((plain, plain)) == "kernel"
    assert chosen((queue, queue)) == "queue"
    assert chosen((mapping(), plain)) == chosen((plain, mapping())) == "map"
    assert chosen((mapping(copy_queue=ArrayQueue()), plain)) == "queue"
    assert chosen((hidden(), plain)) == chosen((plain, hidden())) == "host"


class Elsewhere(HiddenAllocator):
    """Memory that is no array: nobody maps it."""

    def allocate(self, size_bytes):
        return bytearray(size_bytes)

    def copy_in(self, block, offset, source):
        block[offset:offset + source.nbytes] = source.cast("B")

    def copy_out(self, destination, block, offset):
        destination.cast("B")[:] = block[offset:offset + destination.nbytes]


def test_a_map_that_refuses_the_owner_leaves_the_host():
    elsewhere = replace(apart(open_device(OTHER)), allocator=Elsewhere(None))
    pair = mapping(copy_queue=ArrayQueue()), elsewhere
    assert chosen(pair) == "host"
    with Context(COPY="map"), pytest.raises(DeviceError, match="out of reach") as error:
        move(PairCopy(*pair), *pair)
    assert "host" in error.value.cure
    move(PairCopy(*pair), *pair)


def test_a_path_that_a_pair_lacks_is_refused_in_words():
    x = Tensor(np.arange(5)).realize()
    with Context(COPY="queue"), pytest.raises(DeviceError, match="'queue'") as error:
        x.to("NULL").realize()
    assert "CORE_COPY" in error.value.cure
    assert "host" in error.value.cure
    assert x.tolist() == list(range(5))


def test_three_programs_whatever_is_copied(monkeypatch):
    opened = apart(open_device(Device.DEFAULT)) if Device.DEFAULT == OTHER else open_device(
        Device.DEFAULT)
    compiled = []
    real = copy_kernels.CopyKernels._compiled
    monkeypatch.setattr(copy_kernels.CopyKernels, "_compiled", lambda self, element: (
        compiled.append(element), real(self, element))[1])
    kernels = copy_kernels.CopyKernels(opened)
    for size in (1, 2, 15, 16, 77, 1024, 4096, 100_000):
        for offset in (0, 1, 4, 16, 20):
            move(kernels.copy, opened, opened, offset, 0, size)
    assert sorted(compiled) == [1, 4, 16]


@pytest.mark.parametrize(("to", "start", "size"), [
    (0, 0, 5 << 30), (16, 48, (1 << 31) + 17), (4, 12, (3 << 30) + 3), (1, 7, (1 << 31) + 1)])
def test_a_plan_covers_every_byte_once(to, start, size):
    at = 0
    for part in copy_kernels.parts_of(to, start, size):
        assert (part.to * part.element, part.start * part.element) == (to + at, start + at)
        assert 0 < part.length * part.element <= copy_kernels.LAUNCH_BYTES
        at += part.length * part.element
    assert at == size


def test_more_than_two_gigabytes_by_plan():
    """NULL holds no bytes, but launches what a real device would."""
    opened = open_device("NULL")
    launched = []
    kernels = copy_kernels.CopyKernels(opened)
    kernels.copy(0, 0, 0, 0, 16)
    (launch,) = kernels._launches.values()
    launch.program = lambda buffers, scalars, *rest: launched.append(tuple(scalars))
    kernels.copy(0, 0, 0, 16, 5 << 30)
    assert [s[0] for s in launched] == [1 << 26] * 5
    assert [s[1] for s in launched] == [k << 26 for k in range(5)]
    assert [s[2] for s in launched] == [(k << 26) + 1 for k in range(5)]


def test_a_copy_counts_once():
    x = Tensor(np.arange(100, dtype=np.float32)).realize()
    before = GlobalCounters.kernel_count
    x.to("NULL").realize()
    assert GlobalCounters.kernel_count == before + 1
