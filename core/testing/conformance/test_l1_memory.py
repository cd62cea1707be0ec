"""L1: the device's memory, byte for byte: odd lengths and offsets, views, limits, recycling."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import pytest

from core.foundation.errors import OutOfMemoryError, UnsupportedError
from core.frontend import Tensor
from core.ir import dtypes
from core.plugin import offers
from core.plugin.registry import registry
from core.runtime.memory import BlockCache
from core.testing.conformance.bench import Bench

_SIZES: Final = (1, 2, 63, 64, 65, 4095, 4096, 65537, (1 << 20) + 3)
_PIECES: Final = ((0, 1), (1, 1), (3, 17), (63, 2), (64, 64), (127, 129), (4000, 96), (1, 4095))
_SIZE: Final = 4096
_TOO_LARGE: Final = 1 << 60

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


def _random(count: int, seed: int = 0) -> Bytes:
    return np.random.default_rng(seed).integers(0, 256, count, np.uint8)


@contextmanager
def _block(bench: Bench, content: Bytes) -> Iterator[Any]:
    """A block that holds some bytes."""
    block = bench.opened.allocator.allocate(content.size)
    bench.opened.allocator.copy_in(block, 0, content.data)
    yield block
    bench.opened.device.synchronize()
    bench.opened.allocator.free(block)


def _read(bench: Bench, block: Any, count: int, offset: int = 0) -> Bytes:
    """Bytes of a block; those around the destination have to stay as they are."""
    room = np.full(count + 2, 0xA5, np.uint8)
    bench.opened.allocator.copy_out(room[1:-1].data, block, offset)
    assert room[0] == room[-1] == 0xA5, "copy_out writes outside of its destination"
    return room[1:-1]


@pytest.mark.parametrize("size", _SIZES)
def test_whole_block(bench: Bench, size: int) -> None:
    """What goes in comes out, and the source may change at once."""
    content = _random(size, size)
    block = bench.opened.allocator.allocate(size)
    source = content.copy()
    bench.opened.allocator.copy_in(block, 0, source.data)
    source[:] = 0
    np.testing.assert_array_equal(_read(bench, block, size), content)
    bench.opened.allocator.free(block)


@pytest.mark.parametrize(("offset", "count"), _PIECES)
def test_piece(bench: Bench, offset: int, count: int) -> None:
    """A piece goes in and comes out at its offset, and nothing around it changes."""
    content = _random(_SIZE)
    with _block(bench, content) as block:
        np.testing.assert_array_equal(
            _read(bench, block, count, offset), content[offset:offset + count])
        piece = _random(count, 7)
        bench.opened.allocator.copy_in(block, offset, memoryview(piece.tobytes()))
        content[offset:offset + count] = piece
        np.testing.assert_array_equal(_read(bench, block, _SIZE), content)


@pytest.mark.parametrize("offset", [0, 1, _SIZE])
def test_no_bytes(bench: Bench, offset: int) -> None:
    """Copying nothing does nothing, at the end of a block too."""
    content = _random(_SIZE)
    with _block(bench, content) as block:
        bench.opened.allocator.copy_in(block, offset, memoryview(b""))
        bench.opened.allocator.copy_out(memoryview(bytearray()), block, offset)
        np.testing.assert_array_equal(_read(bench, block, _SIZE), content)


def test_blocks_do_not_overlap(bench: Bench) -> None:
    """Each of many blocks keeps its own bytes, while others come and go."""
    allocator = bench.opened.allocator
    contents = [_random(1 + 97 * k, k) for k in range(64)]
    blocks = [allocator.allocate(content.size) for content in contents]
    for block, content in zip(blocks, contents, strict=True):
        allocator.copy_in(block, 0, content.data)
    for k in range(0, 64, 2):
        allocator.free(blocks[k])
        blocks[k] = allocator.allocate(contents[k].size)
        allocator.copy_in(blocks[k], 0, contents[k].data)
    for block, content in zip(blocks, contents, strict=True):
        np.testing.assert_array_equal(_read(bench, block, content.size), content)
        allocator.free(block)


def test_freed_memory_is_given_back(bench: Bench) -> None:
    """Sixteen GiB go through, a few MiB at a time."""
    for _ in range(1024):
        bench.opened.allocator.free(bench.opened.allocator.allocate(16 << 20))


@pytest.mark.parametrize(("offset", "count"), _PIECES)
def test_view(bench: Bench, offset: int, count: int) -> None:
    """A view is the bytes themselves, and may be viewed again."""
    allocator = bench.opened.allocator
    content = _random(_SIZE)
    with _block(bench, content) as block:
        view = allocator.view(block, offset, count)
        np.testing.assert_array_equal(_read(bench, view, count), content[offset:offset + count])
        last = allocator.view(view, count - 1, 1)
        allocator.copy_in(last, 0, memoryview(b"\x5a"))
        content[offset + count - 1] = 0x5A
        np.testing.assert_array_equal(_read(bench, block, _SIZE), content)


def test_host_view(bench: Bench) -> None:
    """The host sees the block's bytes, aligned, and what it writes is there."""
    allocator = bench.opened.allocator
    if not offers(allocator, "host_view"):
        with pytest.raises(UnsupportedError):
            allocator.host_view(allocator.allocate(64))
        return
    for size in _SIZES:
        content = _random(size)
        with _block(bench, content) as block:
            view = allocator.host_view(block)
            assert (view.format, view.ndim, view.readonly) == ("B", 1, False)
            assert len(view) >= size
            seen = np.frombuffer(view, np.uint8)
            assert seen.ctypes.data % 64 == 0, f"a block of {size} bytes is not aligned to 64"
            np.testing.assert_array_equal(seen[:size], content)
            seen[size - 1] ^= 0xFF
            assert _read(bench, block, 1, size - 1)[0] == content[-1] ^ 0xFF


def test_wrap(bench: Bench) -> None:
    """Memory of the host is a block: the bytes themselves, read-only and unaligned ones too."""
    allocator = bench.opened.allocator
    if not offers(allocator, "wrap"):
        with pytest.raises(UnsupportedError):
            allocator.wrap(memoryview(bytearray(64)))
        return
    for size in _SIZES:
        content = _random(size + 8)
        memory = content.data[8:]
        for given in (memory, memory.toreadonly()):
            block = allocator.wrap(given)
            np.testing.assert_array_equal(_read(bench, block, size), content[8:])
        content[8:] ^= 0xFF
        np.testing.assert_array_equal(_read(bench, block, size), content[8:])


def test_map_of_other_memory(bench: Bench) -> None:
    """A block of another device is mapped, or refused with `UnsupportedError`."""
    other = registry.open("REFERENCE")
    block = other.allocator.allocate(64)
    content = _random(64)
    other.allocator.copy_in(block, 0, content.data)
    try:
        mapped = bench.opened.allocator.map(block, other.device)
    except UnsupportedError:
        return
    np.testing.assert_array_equal(_read(bench, mapped, 64), content)


def test_more_than_there_is(bench: Bench) -> None:
    """Too large a block raises `OutOfMemoryError` in words, and the next one is there."""
    with pytest.raises(OutOfMemoryError) as caught:
        bench.opened.allocator.allocate(_TOO_LARGE)
    assert str(caught.value).strip()
    with bench.as_default(), pytest.raises(OutOfMemoryError, match=str(_TOO_LARGE)):
        (Tensor([1.0]).expand(_TOO_LARGE // 4) * 2).contiguous().realize()
    content = _random(1000)
    with _block(bench, content) as block:
        np.testing.assert_array_equal(_read(bench, block, 1000), content)


def test_recycling(bench: Bench) -> None:
    """core's cache hands a freed block out again, with room for its size, and can be emptied."""
    cache = BlockCache(bench.opened)
    block = cache.allocate(1000)
    cache.free(block, 1000)
    again = cache.allocate(990)
    assert again is block
    bench.opened.allocator.copy_in(again, 0, _random(1024).data)
    np.testing.assert_array_equal(_read(bench, again, 1024), _random(1024))
    cache.free(again, 990)
    assert cache.cached_bytes == 1024
    cache.trim()
    assert cache.cached_bytes == 0


def test_tensors_of_no_elements(bench: Bench) -> None:
    """They hold nothing and can be written, computed with and read."""
    with bench.as_default():
        x = Tensor(np.zeros((3, 0, 2), np.float32))
        assert (x + 1).numpy().shape == (3, 0, 2)
        assert x.sum(1).tolist() == [[0.0, 0.0]] * 3


@pytest.mark.parametrize("count", [1, 3, 63, 65, 1001])
def test_storage_of_tensors(bench: Bench, count: int) -> None:
    """Bytes of a tensor of odd length come back."""
    content = _random(count)
    leaf = bench.place(content, dtypes.uint8)
    np.testing.assert_array_equal(bench.read(leaf), content)
