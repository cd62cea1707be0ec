"""The offset allocator against a model: no overlap, alignment, merging, capacity."""

import random

import pytest

from core.foundation.errors import OutOfMemoryError
from core.foundation.offset_allocator import OffsetAllocator


def test_freed_neighbours_merge_and_are_reused():
    arena = OffsetAllocator()
    a, b, c = arena.allocate(64), arena.allocate(100), arena.allocate(64)
    assert (a, b, c) == (0, 64, 192)
    arena.free(a)
    arena.free(b)
    assert arena.allocate(192) == 0
    assert arena.high_water_bytes == 256


def test_the_smallest_hole_is_taken():
    arena = OffsetAllocator()
    big, _, small, _ = (arena.allocate(n) for n in (256, 64, 128, 64))
    arena.free(big)
    arena.free(small)
    assert arena.allocate(128) == small


def test_growing_uses_the_free_end():
    arena = OffsetAllocator(capacity_bytes=256)
    arena.allocate(64)
    last = arena.allocate(64)
    arena.free(last)
    assert arena.allocate(192) == last


def test_full_arena_says_so_and_stays_usable():
    arena = OffsetAllocator(capacity_bytes=128)
    first = arena.allocate(1)
    with pytest.raises(OutOfMemoryError, match="64 of 128 bytes are free"):
        arena.allocate(65)
    arena.free(first)
    assert arena.allocate(128) == 0


def test_freeing_what_is_not_used():
    arena = OffsetAllocator()
    with pytest.raises(ValueError, match="offset 64"):
        arena.free(64)


@pytest.mark.parametrize("seed", range(5))
def test_random_use_never_overlaps(seed):
    draw = random.Random(seed)
    arena, live = OffsetAllocator(), {}
    for _ in range(400):
        if live and draw.random() < 0.45:
            offset = draw.choice(sorted(live))
            arena.free(offset)
            del live[offset]
        else:
            size = draw.randrange(0, 1000)
            offset = arena.allocate(size)
            assert offset % 64 == 0
            assert offset not in live
            for other, other_size in live.items():
                assert offset + size <= other or other + other_size <= offset
            live[offset] = max(size, 1)
    for offset in list(live):
        arena.free(offset)
    assert arena.used_bytes == 0
    assert arena.allocate(arena.high_water_bytes) == 0
