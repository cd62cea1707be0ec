"""L3: programs of reductions, products, gathers, gates and vectors, in awkward sizes.

Most operands are small whole numbers, whose sums do not depend on their order: results are then
compared bit for bit, however the device splits its loops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import permutations
from typing import Any, Final

import numpy as np
import pytest

from core.foundation.errors import OutOfMemoryError
from core.frontend import Tensor
from core.ir import DType, dtypes
from core.runtime import new_storage
from core.testing.conformance.bench import Bench, MismatchError

_SHAPES: Final = (
    (1,), (7,), (33,), (1000,), (4097,), (70001,), (2, 1025), (1025, 2), (64, 64), (1, 300),
    (300, 1), (3, 5, 7), (17, 1, 33), (2, 3, 4, 5))
_SIZES: Final = (1, 3, 8, 17, 33, 130)
_ALL_SIZES: Final = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 65, 129, 1000)
_PRODUCTS: Final = (
    (1, 1, 1), (1, 9, 1), (3, 5, 7), (16, 16, 16), (17, 33, 65), (64, 64, 64), (1, 128, 100),
    (100, 128, 1), (33, 200, 31), (130, 70, 140))
_NUMBERS: Final = (
    dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.int32, dtypes.int64, dtypes.float16,
    dtypes.bfloat16, dtypes.float32, dtypes.float64)
_FLOATS: Final = tuple(d for d in _NUMBERS if d.is_float)


@pytest.fixture(autouse=True)
def _on_the_device(bench: Bench) -> Iterator[None]:
    with bench.as_default():
        yield


def whole(*shape: int, dtype: DType = dtypes.float32, seed: int = 0, limit: int = 4) -> Tensor:
    """A tensor of small whole numbers, in storage."""
    draw = np.random.default_rng(seed)
    low = 0 if dtype.kind == "unsigned" else 1 - limit
    values = draw.integers(low, limit, shape).astype(np.int32)
    return _stored(values, dtype)


def real(*shape: int, dtype: DType = dtypes.float32, seed: int = 0) -> Tensor:
    """A tensor of normally distributed numbers, in storage."""
    return _stored(np.random.default_rng(seed).normal(size=shape).astype(np.float32), dtype)


def _stored(values: np.ndarray[Any, Any], dtype: DType) -> Tensor:
    tensor = Tensor(values)
    return tensor if tensor.dtype is dtype else tensor.cast(dtype).realize()


@pytest.mark.parametrize("shape", _SHAPES, ids=lambda s: "x".join(map(str, s)))
def test_reductions(bench: Bench, shape: tuple[int, ...]) -> None:
    """Sums, maxima and products over each axis, all of them, and every pair."""
    x = whole(*shape)
    signs = np.where(np.arange(np.prod(shape)).reshape(shape) % 3, 1, -1).astype(np.float32)
    axes: list[Any] = [None, *range(len(shape))]
    axes += [(a, b) for a in range(len(shape)) for b in range(a)]
    results = [getattr(x, name)(axis) for axis in axes for name in ("sum", "max", "min")]
    bench.check_tensors([*results, *(Tensor(signs).prod(axis) for axis in axes)])


@pytest.mark.parametrize("dtype", [*_NUMBERS, dtypes.bool], ids=lambda d: d.name)
def test_reductions_of_dtype(bench: Bench, dtype: DType) -> None:
    """Rows and columns in each dtype: what they are accumulated in, and how they are rounded."""
    x = whole(33, 70, dtype=dtype)
    bench.check_tensors([x.sum(0), x.sum(1), x.max(0), x.max(1), x.sum(), x.any(0), x.all(1)])


def test_several_reductions_in_one(bench: Bench) -> None:
    """Reductions of reductions, and several of one operand, in one expression."""
    x, y = whole(9, 40), whole(40, 9, seed=1)
    centred = x - x.max(1, keepdim=True)
    bench.check_tensors([
        centred.sum(1), (centred * x.sum(0)).max(), x.sum(1) - y.sum(0), (x + y.sum()).max(0),
        x.sum(1).max() + y.max(1).sum()])


@pytest.mark.parametrize("size", _PRODUCTS, ids=lambda s: "x".join(map(str, s)))
def test_matmul(bench: Bench, size: tuple[int, int, int]) -> None:
    """Products of matrices, plain and of transposed operands, with something after them."""
    m, k, n = size
    a, b, c = whole(m, k), whole(k, n, seed=1), whole(n, seed=2)
    bench.check_tensors([a @ b, (b.transpose() @ a.transpose()) * 2, (a @ b + c).relu()],
                        sequential=True)


@pytest.mark.parametrize("dtype", _NUMBERS, ids=lambda d: d.name)
def test_matmul_of_dtype(bench: Bench, dtype: DType) -> None:
    """Operands are widened first, sums are exact, the result is rounded once."""
    a, b = whole(35, 67, dtype=dtype), whole(67, 37, dtype=dtype, seed=1)
    bench.check_tensors([a @ b, a[0] @ b, whole(2, 9, 20, dtype=dtype) @ whole(20, 5, dtype=dtype)],
                        sequential=True)


def test_matmul_of_reals(bench: Bench) -> None:
    """Sums of float32 products are as close as their length allows."""
    a, b = real(96, 300), real(300, 80, seed=1)
    bench.check_tensors([a @ b], bound=300 * 2.0**-24)


def _indices(*shape: int, limit: int, seed: int = 5, dtype: Any = np.int32) -> Tensor:
    return Tensor(np.random.default_rng(seed).integers(0, limit, shape).astype(dtype))


def _gathers() -> list[Tensor]:
    x = whole(13, 7, 5, limit=100)
    rows = _indices(11, limit=13)
    return [
        x[rows], x[:, _indices(3, 4, limit=7)], x[rows, _indices(11, limit=7)], x[-1 - rows],
        x[_indices(4, 1, limit=13), :, _indices(3, limit=5)], x[rows] + x[0],
        x.gather(1, _indices(13, 3, 5, limit=7)), (x * 2)[rows].sum(0),
        x[_indices(6, limit=13, dtype=np.int64)], x[_indices(6, limit=13, dtype=np.uint8)]]


def _scatters() -> list[Tensor]:
    x = whole(9, 6, limit=100)
    index = _indices(9, 6, limit=9)
    return [x.scatter(0, index, whole(9, 6, seed=3)),
            x.scatter_reduce(0, index, whole(9, 6, seed=3), "sum"),
            x.scatter_reduce(0, index, whole(9, 6, seed=3), "amax"),
            _indices(20, limit=7).one_hot(7)]


def _gates() -> list[Tensor]:
    x, row = whole(6, 11), whole(11, seed=1)
    return [
        x.pad(((1, 2), (3, 0))), x.pad(((0, 1), (5, 5)), value=7) * 2,
        x.pad(((2, 2), (2, 2))).sum(0),
        x[1:5, ::3], x[::-2, 10:2:-3], Tensor.cat(x, x[:2] * 3, row.reshape(1, 11)),
        Tensor.stack(row, row * 2, dim=1), x.tril(), x.triu(2), x.roll(3, 1),
        Tensor.cat(row[:3], row[5:], row).max(), (x > 0).where(x, -x[::-1])]


def _windows() -> list[Tensor]:
    x, w = whole(2, 3, 9, 10), whole(4, 3, 3, 2, seed=1)
    return [
        x.conv2d(w), x.conv2d(w, padding=1, stride=2), x.conv2d(w, padding=(2, 0), dilation=2),
        x.conv2d(whole(6, 1, 3, 3), groups=3), x.max_pool2d(), x.max_pool2d(3, 2, padding=1),
        x.avg_pool2d(2, 2), x.conv_transpose2d(whole(3, 2, 3, 3), stride=2)]


def _movements() -> list[Tensor]:
    x = whole(3, 4, 5, limit=100)
    return [*(x.permute(p) + 0 for p in permutations(range(3))), x.flip((0, 2)) * 2,
            x.reshape(4, 15).permute((1, 0)).reshape(5, 12) + 1, x[:, 1:3].reshape(6, 5) - 1,
            x.reshape(1, 3, 4, 5).expand(2, 3, 4, 5) + whole(2, 1, 1, 5),
            x.permute((2, 0, 1)).reshape(60).flip(0)[::7] * 3, x.repeat(2, 1, 3) + 0]


def _orders() -> list[Tensor]:
    x = _stored(np.random.default_rng(3).permutation(120).reshape(5, 24), dtypes.int32)
    return [x.argmax(1), x.argmin(0), x.sort(1)[0], x.argsort(1), x.topk(3)[0], x.cumsum(1),
            x.cumsum(0), x.cummax(1)[0], x.reshape(120).cumsum(0)]


def _batches() -> list[Tensor]:
    a, b = whole(3, 5, 8), whole(3, 8, 6, seed=1)
    return [a @ b, Tensor.einsum("bij,bjk->ik", a, b), Tensor.einsum("bij,bij->b", a, a),
            (a @ b).sum((0, 1)), Tensor.einsum("bij->jb", a)]


_PROGRAMS: Final[dict[str, Callable[[], list[Tensor]]]] = {
    "gathers": _gathers, "scatters": _scatters, "gates": _gates, "windows": _windows,
    "movements": _movements, "orders": _orders, "batches": _batches,
}


@pytest.mark.parametrize("name", _PROGRAMS)
def test_program(bench: Bench, name: str) -> None:
    """Programs of one kind, each with kernels of its own."""
    bench.check_tensors(_PROGRAMS[name](), sequential=True)


def _softmaxes() -> list[Tensor]:
    x = real(7, 200)
    return [x.softmax(1), x.softmax(0), x.log_softmax(1), x.logsumexp(1),
            (x @ x.transpose()).softmax()]


def _norms() -> list[Tensor]:
    x = real(12, 65)
    return [x.layernorm(), x.mean(0), x.var(1), x.std(0),
            x / x.square().sum(1, keepdim=True).sqrt()]


def _attentions() -> list[Tensor]:
    q, k, v = (real(2, 3, 20, 16, seed=s) for s in range(3))
    return [q.scaled_dot_product_attention(k, v),
            q.scaled_dot_product_attention(k, v, is_causal=True)]


_INEXACT: Final = {"softmax": _softmaxes, "norms": _norms, "attention": _attentions}


@pytest.mark.parametrize("name", _INEXACT)
def test_inexact_program(bench: Bench, name: str) -> None:
    """Programs whose last bits are free."""
    bench.check_tensors(_INEXACT[name](), bound=2e-5, sequential=True)


@pytest.mark.parametrize("dtype", [dtypes.bool, *_NUMBERS], ids=lambda d: d.name)
def test_vectors(bench: Bench, dtype: DType) -> None:
    """Elementwise kernels of every length about that of a vector, and of parts of vectors."""
    results = []
    for size in _ALL_SIZES if dtype in (dtypes.float32, dtypes.uint8) else _SIZES:
        x, y = whole(size, dtype=dtype, seed=size), whole(size, dtype=dtype, seed=size + 1)
        results.append((x == y).where(x, x.maximum(y)) if dtype is dtypes.bool else x * y + x)
    x = whole(3, 37, dtype=dtype)
    results += [x[:, 1:].maximum(x[:, :-1]), x.transpose().maximum(x[0, 0])]
    bench.check_tensors(results)


@pytest.mark.parametrize("dtype", _FLOATS, ids=lambda d: d.name)
def test_arithmetic_is_left_alone(bench: Bench, dtype: DType) -> None:
    """No sum of a product is fused, nothing is reassociated, no x - x is 0 whatever x is."""
    x, y, z = (real(501, dtype=dtype, seed=s) for s in range(3))
    hard = _stored(np.array([np.inf, -np.inf, np.nan, -0.0, 0.0, 1.5, 3e4], np.float32), dtype)
    bench.check_tensors([
        x * y + z, z - x * y, x * y - y * z, (x + y) - x, (x * y) / y, x / 3, x * 3 + x * 5,
        (x + 1e3) - 1e3, hard - hard, hard * 0, hard / hard, hard + 0, 0 - hard, hard * 1 - 0,
        hard.maximum(0), hard.minimum(-hard), (hard > 0).where(hard, 1 / hard)])


@pytest.mark.parametrize("dtype", _NUMBERS, ids=lambda d: d.name)
def test_quotients_and_remainders(bench: Bench, dtype: DType) -> None:
    """// and % are Python's, exactly; division of integers by zero gives 0."""
    draw = np.random.default_rng(5)
    low = 0 if dtype.kind == "unsigned" else -90
    x, y = (_stored(draw.integers(low, 90, 200).astype(np.int32), dtype) for _ in range(2))
    results = [x % y, x // y, x % 7, x // 3, x.fmod(y)]
    if dtype.is_float:
        results += [(x * 0.7) % (y * 0.3), (x * 1e3) // y]
    bench.check_tensors(results)


def test_many_operands(bench: Bench) -> None:
    """More operands than a kernel may take."""
    parts = [whole(5, 3, seed=k) for k in range(70)]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    bench.check_tensors([total, Tensor.cat(*parts)])


def test_scalars_and_constants(bench: Bench) -> None:
    """Values of rank 0, constants alone, and one element spread over many."""
    x = Tensor(3.0).contiguous().realize()
    bench.check_tensors([
        x + 1, x.expand(5, 7) * 2, Tensor.full((3, 5), 7).contiguous(),
        x.reshape(1, 1) + whole(2, 3),
        Tensor.arange(100).contiguous(), Tensor.arange(5, 50, 7) * 2, Tensor.eye(4).contiguous()])


def test_random_numbers(bench: Bench) -> None:
    """The generator gives the same bits on all devices."""
    results = []
    for name in ("REFERENCE", bench.name):
        Tensor.manual_seed(7)
        results.append([Tensor.rand(1001, device=name).numpy(),
                        Tensor.randint(77, low=-5, high=9, device=name).numpy()])
    for found, right in zip(results[1], results[0], strict=True):
        np.testing.assert_array_equal(found, right)


def test_gradients(bench: Bench) -> None:
    """Backward passes: products, maxima, gathers, windows."""
    x, w = whole(4, 2, 6, 6), whole(3, 2, 3, 3, seed=1)
    loss = (x.conv2d(w, padding=1).relu().max_pool2d() * whole(4, 3, 3, 3, seed=2)).sum()
    table, index = whole(9, 5, seed=3), _indices(7, limit=9)
    other = (table[index] @ whole(5, 4, seed=4)).square().sum()
    bench.check_tensors([*loss.gradient(x, w), *other.gradient(table)])


_FAR: Final = 1 << 33


def _far_values() -> tuple[Tensor, np.ndarray[Any, Any]]:
    return whole(5, dtype=dtypes.int32, limit=100), np.array(
        [0, 1, _FAR - 1, _FAR, 2 * _FAR + 12345, 3 * _FAR - 1, 4 * _FAR + 7, 5 * _FAR - 1])


def test_indices_of_64_bits(bench: Bench) -> None:
    """A value of 2^35 elements that is never stored, read at a few places."""
    x, places = _far_values()
    spread = x.reshape(5, 1).expand(5, _FAR).reshape(5 * _FAR)
    window = spread[3 * _FAR - 5:3 * _FAR + 5] * 2
    counted = Tensor.arange(10, dtype=dtypes.int64) * _FAR + 3
    values, wanted = x.numpy(), places // _FAR
    with bench.launching():
        found = [(spread[Tensor(places)] + 0).numpy(), window.numpy(), counted.numpy()]
    right = [values[wanted], np.repeat(values[2:4] * 2, 5), np.arange(10) * _FAR + 3]
    _check(found, right)


def test_storage_over_two_gib(bench: Bench) -> None:
    """Elements beyond 2^31 bytes are read and written where they are."""
    size, step = (1 << 31) + 4096, 1 << 27
    try:
        block = bench.opened.allocator.allocate(size)
        bench.opened.allocator.free(block)
        x = Tensor._of(new_storage(bench.name, dtypes.uint8, (size,)))
        bench.storage(x)
    except OutOfMemoryError as error:
        pytest.skip(f"the device has no room for it: {error}")
    places = np.arange(5, size, step)
    right = (np.arange(places.size) + 1).astype(np.uint8)
    _fill(bench, x, places, right)
    with bench.launching():
        found = [(x[5::step] + 1).numpy(), (x[Tensor(places)] + 0).numpy(),
                 x[int(places[-1])].numpy()]
    _check(found, [right + 1, right, right[-1]])


def _fill(
    bench: Bench, x: Tensor, places: Sequence[int] | np.ndarray[Any, Any],
    values: np.ndarray[Any, Any],
) -> None:
    """Write single bytes of a tensor's storage from the host."""
    block = bench.storage(x)
    for place, value in zip(places, values, strict=True):
        bench.opened.allocator.copy_in(block, int(place), memoryview(bytes([int(value)])))


def _check(found: Sequence[Any], right: Sequence[Any]) -> None:
    for k, (a, b) in enumerate(zip(found, right, strict=True)):
        if not np.array_equal(a, b):
            raise MismatchError(f"value {k} is {a!r}, expected {b!r}")
