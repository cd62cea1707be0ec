"""L4: copies to and from the host and REFERENCE, command lists, and several threads at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import numpy as np
import pytest

from core.foundation.errors import DeviceError, UnsupportedError
from core.foundation.settings import Context
from core.frontend import Tensor, jit
from core.ir import STORED_DTYPES, DType, dtypes
from core.runtime import new_storage, open_device, read_bytes
from core.runtime.copies import pair_copy
from core.testing.conformance.bench import Bench, MismatchError

_OTHER: Final = "REFERENCE"
_COUNTS: Final = (1, 3, 1001, (5 << 20) + 3)
_SLICES: Final = {
    "from-odd": lambda x: x[3:78], "one": lambda x: x[99:100], "to-the-end": lambda x: x[37:],
    "strided": lambda x: x[1::3], "backwards": lambda x: x[::-1], "none": lambda x: x[5:5],
    "rows": lambda x: x.reshape(10, 10)[3:7], "columns": lambda x: x.reshape(10, 10)[:, 3:7],
    "transposed": lambda x: x.reshape(4, 25).transpose(),
}
_REPLAYS: Final = 20
_THREADS: Final = 4

Numbers = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def _on_the_device(bench: Bench) -> Iterator[None]:
    with bench.as_default():
        yield


def _bytes_of(dtype: DType, count: int) -> bytes:
    codes = np.random.default_rng(count).integers(0, 2 if dtype is dtypes.bool else 256,
                                                  count * dtype.itemsize, np.uint8)
    return codes.tobytes()


def _placed(device: str, dtype: DType, data: bytes) -> Tensor:
    return Tensor._of(new_storage(device, dtype, (len(data) // dtype.itemsize,), data))


def _equal(found: Any, right: Any, what: str) -> None:
    if not np.array_equal(found, right, equal_nan=np.asarray(right).dtype.kind == "f"):
        raise MismatchError(f"{what}: {found!r}, expected {right!r}")


@pytest.mark.parametrize("dtype", STORED_DTYPES, ids=lambda d: d.name)
def test_there_and_back(bench: Bench, dtype: DType) -> None:
    """Every bit pattern of each dtype goes from REFERENCE to the device and back."""
    data = _bytes_of(dtype, 777)
    there = _placed(_OTHER, dtype, data).to(bench.name).realize()
    assert there.device == bench.opened.name
    assert read_bytes(there.uop) == data
    assert read_bytes(there.to(_OTHER).realize().uop) == data


@pytest.mark.parametrize("pair", ["within", "to-other", "from-other"])
@pytest.mark.parametrize("path", ["queue", "kernel", "map", "host"])
def test_paths(bench: Bench, path: str, pair: str) -> None:
    """Every path that the device has, forced: odd offsets and lengths, bytes around untouched."""
    own, other = bench.opened, open_device(_OTHER)
    destination, source = {
        "within": (own, own), "to-other": (other, own), "from-other": (own, other)}[pair]
    copy = pair_copy(destination, source)
    if path not in copy.paths:
        return  # a pair without it: nothing to conform to
    draw = np.random.default_rng(0)
    for to, start, size in ((0, 0, 4096), (16, 32, 1000), (4, 8, 77), (3, 5, 1), (1, 0, 1001)):
        data, before = (draw.integers(0, 256, 8192, np.uint8) for _ in range(2))
        read, written = source.allocator.allocate(8192), destination.allocator.allocate(8192)
        source.allocator.copy_in(read, 0, data.data)
        destination.allocator.copy_in(written, 0, before.data)
        try:
            with Context(COPY=path):
                copy(written, to, read, start, size)
        except DeviceError as error:
            if isinstance(error.__cause__, UnsupportedError):
                return  # the other side's memory cannot be mapped
            raise
        found = np.empty_like(before)
        destination.allocator.copy_out(found.data, written, 0)
        before[to:to + size] = data[start:start + size]
        _equal(found, before, f"{size} bytes from {start} to {to}")
        for opened, block in ((source, read), (destination, written)):
            opened.allocator.free(block)


@pytest.mark.parametrize("count", _COUNTS)
def test_lengths(bench: Bench, count: int) -> None:
    """Odd lengths, and more than one block of the host's ring."""
    values = np.random.default_rng(count).integers(0, 256, count, np.uint8)
    x = Tensor(values)
    _equal(x.numpy(), values, "to the host")
    _equal(x.to(_OTHER).numpy(), values, "to REFERENCE")
    _equal(Tensor(values, device=_OTHER).to(bench.name).numpy(), values, "from REFERENCE")
    _equal(x.to(_OTHER).to(bench.name).contiguous().numpy(), values, "there and back")


@pytest.mark.parametrize("name", _SLICES)
def test_slices(bench: Bench, name: str) -> None:
    """Slices at odd offsets, in both directions, and values that are computed first."""
    take: Callable[[Any], Any] = _SLICES[name]
    values = np.random.default_rng(1).integers(0, 100, 100, np.uint8)
    right = take(values)
    _equal(take(Tensor(values)).to(_OTHER).numpy(), right, "to REFERENCE")
    _equal(take(Tensor(values, device=_OTHER)).to(bench.name).numpy(), right, "from REFERENCE")
    _equal((take(Tensor(values)) + 1).to(_OTHER).numpy(), right + 1, "computed, to REFERENCE")
    _equal(take(Tensor(values)).numpy(), right, "to the host")


def test_copies_are_in_order(bench: Bench) -> None:
    """What is launched before a copy is in it, what comes after is not."""
    x = Tensor(np.zeros(50_000, np.float32)).realize()
    with bench.launching():
        for k in range(_REPLAYS):
            old = x.to(_OTHER)
            x.assign(x + 1)
            seen = x.to(_OTHER)
            x.assign(x * 2 - k)
            start = old.numpy()
            _equal(seen.numpy(), start + 1, f"copy {k}")
            _equal(x.numpy(), (start + 1) * 2 - k, f"value {k}")


def test_replay(bench: Bench) -> None:
    """A traced function gives the values of a plain call, in fresh storage each time."""

    def body(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        total = (x @ y).sum(0, keepdim=True).contiguous()
        return (x * total + y).contiguous(), (y - total).max(1)

    function = jit(body)
    draw = np.random.default_rng(0)
    results: list[tuple[Tensor, Numbers]] = []
    for _ in range(6):
        x, y = (draw.integers(-3, 4, (17, 17)).astype(np.float32) for _ in range(2))
        with bench.launching():
            first, second = function(Tensor(x), Tensor(y))
        total = (x @ y).sum(0, keepdims=True)
        results += [(first, x * total + y), (second, (y - total).max(1))]
    for k, (found, right) in enumerate(results):
        _equal(found.numpy(), right, f"result {k}")


def test_replay_of_dependent_kernels(bench: Bench) -> None:
    """A list of kernels each of which reads what the ones before it wrote."""

    def body(x: Tensor) -> Tensor:
        for k in range(12):
            x = (x - x.max(0, keepdim=True) + k).contiguous()
            x = (x + x.sum(1, keepdim=True) % 7).contiguous()
        return x

    def right(x: Numbers) -> Numbers:
        for k in range(12):
            x = x - x.max(0, keepdims=True) + k
            x = x + np.mod(x.sum(1, keepdims=True, dtype=np.int32), 7)
        return x

    function = jit(body)
    for k in range(_REPLAYS):
        values = np.random.default_rng(k).integers(0, 50, (40, 33)).astype(np.int32)
        with bench.launching():
            found = function(Tensor(values))
        _equal(found.numpy(), right(values), f"replay {k}")


def test_replay_with_state(bench: Bench) -> None:
    """A tensor that a traced function assigns to carries over, read before and after."""
    state = Tensor(np.zeros(1001, np.int32)).realize()

    def body(x: Tensor) -> Tensor:
        before = (state * 2).contiguous()
        state.assign(state + x)
        return before + state

    function, total = jit(body), np.zeros(1001, np.int32)
    for k in range(_REPLAYS):
        x = np.arange(1001, dtype=np.int32) + k
        with bench.launching():
            found = function(Tensor(x))
        _equal(found.numpy(), total * 3 + x, f"replay {k}")
        total = total + x
    _equal(state.numpy(), total, "the state")


def test_replay_of_copies(bench: Bench) -> None:
    """A traced function that goes to REFERENCE and comes back."""

    def body(x: Tensor) -> Tensor:
        return ((x * 2).to(_OTHER) + 1).to(bench.name) * x

    function = jit(body)
    for k in range(4):
        x = np.arange(77, dtype=np.int32) - k
        _equal(function(Tensor(x)).numpy(), (x * 2 + 1) * x, f"replay {k}")


def test_threads(bench: Bench) -> None:
    """Several threads compile, launch, allocate and copy at the same time."""

    def work(number: int) -> list[tuple[Numbers, Numbers]]:
        results = []
        for k in range(8):
            x = np.arange(1000 + number + k, dtype=np.int64).astype(np.int32)
            tensor = Tensor(x, device=bench.name)
            results.append(((tensor * (number + 2) + k).numpy(), x * (number + 2) + k))
            results.append(((tensor % (k + 2)).sum().numpy(), (x % (k + 2)).sum()))
        return results

    with bench.launching(), ThreadPoolExecutor(_THREADS) as pool:
        for number, results in enumerate(pool.map(work, range(_THREADS))):
            for found, right in results:
                _equal(found, right, f"thread {number}")


def test_host_arrays(bench: Bench) -> None:
    """Arrays of every dtype, order and byte order go to the device and come back."""
    base = np.arange(60).reshape(3, 4, 5) % 2
    for dtype in (d for d in STORED_DTYPES if d.name in np.sctypeDict):
        values = base.astype(dtype.name)
        for given in (values, values.transpose(), values[:, ::2], values[::-1, :, 1:],
                      values.astype(values.dtype.newbyteorder(">"))):
            _equal(Tensor(given, device=bench.name).numpy(), given, dtype.name)
