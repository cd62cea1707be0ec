"""Storage: freed with its last UOp, recycled by size, and what happens when there is no room."""

import gc
import re

import numpy as np
import pytest

from core import Device, GlobalCounters, Tensor
from core.foundation.errors import OutOfMemoryError
from core.runtime import buffer_count, open_device
from core.runtime.memory import BlockCache, block_cache, rounded


def cache():
    return block_cache(open_device(Device.DEFAULT))


def filled(count, value=1.0):
    return Tensor(np.full(count, value, np.float32))


def test_sizes_are_multiples_of_64_bytes():
    assert [rounded(n) for n in (0, 1, 64, 65, 1000)] == [64, 64, 64, 128, 1024]


def test_storage_goes_with_the_last_tensor_without_the_collector():
    gc.collect()
    gc.disable()
    try:
        filled(10).realize()
        before, used = buffer_count(), cache().used_bytes
        x = filled(1000)
        y = (x * 2).realize()
        z = y + 1  # holds y's storage
        assert buffer_count() == before + 2
        del x
        assert buffer_count() == before + 1
        del y
        assert buffer_count() == before + 1
        del z
        assert buffer_count() == before
        assert cache().used_bytes == used
    finally:
        gc.enable()


def test_intermediate_values_leave_nothing():
    x = filled(512)
    before = buffer_count()
    y = ((x + 1).contiguous() * 2).sum()
    assert y.item() == 2048.0
    del y
    assert buffer_count() == before


def test_a_freed_block_serves_the_next_request_of_its_size():
    shape = 12_345
    x = filled(shape)
    buffer_count()
    blocks = len(cache().free_blocks.get(rounded(4 * shape), ()))
    del x
    buffer_count()  # drains
    assert len(cache().free_blocks[rounded(4 * shape)]) == blocks + 1
    y = filled(shape, 2.0)
    assert len(cache().free_blocks[rounded(4 * shape)]) == blocks
    assert y.tolist()[-1] == 2.0


def test_trim_gives_free_blocks_back():
    x = filled(54_321)
    del x
    buffer_count()
    assert cache().cached_bytes > 0
    cache().trim()
    assert cache().cached_bytes == 0
    assert not any(cache().free_blocks.values())


def test_counters_follow_what_is_alive():
    buffer_count()
    before = GlobalCounters.mem_used
    x = filled(1 << 20)
    assert GlobalCounters.mem_used == before + (4 << 20)
    assert GlobalCounters.mem_peak >= before + (4 << 20)
    del x
    buffer_count()
    assert GlobalCounters.mem_used == before
    GlobalCounters.reset()
    assert GlobalCounters.mem_used == GlobalCounters.mem_peak == before


class Allocator:
    """Has room for some bytes."""

    def __init__(self, room):
        self.room = room

    def allocate(self, size_bytes):
        if size_bytes > self.room:
            raise MemoryError(f"room for {self.room}")
        self.room -= size_bytes
        return size_bytes

    def free(self, block):
        self.room += block


class Opened:
    name = "SMALL"

    def __init__(self, room):
        self.allocator = Allocator(room)


def test_cached_blocks_are_given_back_before_memory_runs_out():
    small = BlockCache(Opened(1024))
    block = small.allocate(1024)
    small.free(block, 1024)
    assert small.allocator.room == 0
    assert small.allocate(512) == 512  # another size: the cached block had to go
    assert small.allocator.room == 512


def test_no_room_says_what_was_wanted_what_is_in_use_and_what_the_device_says():
    small = BlockCache(Opened(1024))
    block = small.allocate(640)
    with pytest.raises(OutOfMemoryError) as caught:
        small.allocate(640)
    message = str(caught.value)
    assert "no room for 640 bytes" in message
    assert "640 bytes are in use" in message
    assert "room for 384" in message
    assert "cure: " in message
    small.free(block, 640)
    assert small.allocate(1000) == 1024


def huge():
    """A value of 256 TB that is not computed yet."""
    return filled(1 << 10).reshape(1, 1 << 10).expand(1 << 36, 1 << 10) + 1


@pytest.mark.parametrize("make", [
    lambda: Tensor.ones(1 << 46).contiguous().realize(),
    lambda: huge().realize(),
    lambda: huge().contiguous().sum().item(),
], ids=["constant", "result", "intermediate"])
def test_after_running_out_of_memory_everything_works(make):
    x = filled(100, 3.0)
    before, used = buffer_count(), cache().used_bytes
    with pytest.raises(MemoryError) as caught:
        make()
    assert re.search(r"no room for \d+ bytes: \d+ bytes are in use", str(caught.value))
    del caught
    gc.collect()
    assert (buffer_count(), cache().used_bytes) == (before, used)
    assert (x * 2).sum().item() == 600.0


def test_values_of_no_elements_take_no_storage():
    buffer_count()
    used = cache().used_bytes
    x = Tensor(np.zeros((0, 5), np.float32)) * 2
    assert x.realize().tolist() == []
    assert x.sum(0).tolist() == [0.0] * 5
    buffer_count()
    assert cache().used_bytes == used


@pytest.mark.parametrize("make", [
    lambda: Tensor.arange(1000), lambda: Tensor.eye(30),
    lambda: Tensor.full((300,), 7).contiguous(),
], ids=["arange", "eye", "full"])
def test_values_that_depend_on_no_data_go_with_their_tensors(make):
    """Their nodes stand in the program that computed them, which is kept for the next time."""
    make().realize()
    before = buffer_count()
    x = make().realize()
    again = make().realize()
    assert again.uop is x.uop, "computed once while somebody has it"
    assert buffer_count() == before + 1
    del x, again
    assert buffer_count() == before
