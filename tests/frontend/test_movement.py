"""Movement, creation and conversion against numpy."""

import numpy as np
import pytest

from core.foundation.errors import DTypeError, IndexOutOfRangeError, ShapeError
from core.frontend import Tensor
from core.ir import dtypes

A = np.arange(24, dtype="f4").reshape(2, 3, 4)


def equal(tensor, expected):
    actual, expected = tensor.numpy(), np.asarray(expected)
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(actual, expected)


MOVES = {
    "reshape": (lambda t: t.reshape(4, -1), lambda a: a.reshape(4, 6)),
    "permute": (lambda t: t.permute(2, 0, 1), lambda a: a.transpose(2, 0, 1)),
    "transpose": (lambda t: t.transpose(0, -1), lambda a: a.swapaxes(0, 2)),
    "T": (lambda t: t.T, lambda a: a.T),
    "flip": (lambda t: t.flip((0, 2)), lambda a: a[::-1, :, ::-1]),
    "expand": (lambda t: t[:, :1].expand(-1, 5, 4), lambda a: np.repeat(a[:, :1], 5, 1)),
    "shrink": (lambda t: t.shrink((None, (1, 3), (0, 2))), lambda a: a[:, 1:3, :2]),
    "pad": (
        lambda t: t.pad(((0, 0), (1, 2), (0, 1)), value=7),
        lambda a: np.pad(a, ((0, 0), (1, 2), (0, 1)), constant_values=7),
    ),
    "pad flat": (
        lambda t: t.pad((1, 0, -1, 2)),
        lambda a: np.pad(a[:, 1:], ((0, 0), (0, 2), (1, 0))),
    ),
    "pad nothing": (lambda t: t.pad(((0, 0),) * 3), lambda a: a),
    "reflect": (
        lambda t: t.pad((3, 2, 1, 2), mode="reflect"),
        lambda a: np.pad(a, ((0, 0), (1, 2), (3, 2)), mode="reflect"),
    ),
    "replicate": (
        lambda t: t.pad((3, 2), mode="replicate"),
        lambda a: np.pad(a, ((0, 0), (0, 0), (3, 2)), mode="edge"),
    ),
    "circular": (
        lambda t: t.pad((3, 2), mode="circular"),
        lambda a: np.pad(a, ((0, 0), (0, 0), (3, 2)), mode="wrap"),
    ),
    "squeeze": (lambda t: t[:1, :, :1].squeeze(), lambda a: a[0, :, 0]),
    "squeeze axis": (lambda t: t[:1, :, :1].squeeze(0), lambda a: a[0, :, :1]),
    "unsqueeze": (lambda t: t.unsqueeze(-2), lambda a: a[:, :, None, :]),
    "flatten": (lambda t: t.flatten(1), lambda a: a.reshape(2, 12)),
    "unflatten": (lambda t: t.unflatten(2, (2, -1)), lambda a: a.reshape(2, 3, 2, 2)),
    "repeat": (lambda t: t.repeat(2, 1, 1, 3), lambda a: np.tile(a, (2, 1, 1, 3))),
    "repeat_interleave": (lambda t: t.repeat_interleave(3, 1), lambda a: np.repeat(a, 3, 1)),
    "cat": (lambda t: t.cat(t + 1, dim=1), lambda a: np.concatenate([a, a + 1], 1)),
    "cat unequal": (
        lambda t: Tensor.cat([t, t[:1] * 2, t[:0], t[1:]], dim=0),
        lambda a: np.concatenate([a, a[:1] * 2, a[1:]], 0),
    ),
    "stack": (lambda t: Tensor.stack([t, -t], dim=1), lambda a: np.stack([a, -a], 1)),
    "stack last": (lambda t: t.stack(t, t, dim=-1), lambda a: np.stack([a] * 3, -1)),
    "split": (lambda t: t.split([1, 3], 2)[1], lambda a: a[:, :, 1:]),
    "split size": (lambda t: t.split(2, 1)[1], lambda a: a[:, 2:]),
    "chunk": (lambda t: t.chunk(2, 2)[1], lambda a: a[:, :, 2:]),
    "roll": (lambda t: t.roll((1, -2), (1, 2)), lambda a: np.roll(a, (1, -2), (1, 2))),
    "roll flat": (lambda t: t.roll(5), lambda a: np.roll(a, 5)),
    "tril": (lambda t: t.tril(-1), lambda a: np.tril(a, -1)),
    "triu": (lambda t: t.triu(1), lambda a: np.triu(a, 1)),
    "diagonal": (lambda t: t[0].diagonal(), lambda a: np.diagonal(a[0])),
}


@pytest.mark.parametrize("name", MOVES)
def test_movement(name):
    ours, theirs = MOVES[name]
    equal(ours(Tensor(A)), theirs(A))
    integers = A.astype("i8")
    equal(ours(Tensor(integers)), theirs(integers))


ZERO_SIZES = ["permute", "T", "flip", "pad", "cat", "stack", "roll", "unsqueeze", "tril"]


@pytest.mark.parametrize("name", ZERO_SIZES)
def test_movement_of_nothing(name):
    ours, theirs = MOVES[name]
    empty = np.zeros((2, 0, 4), "f4")
    equal(ours(Tensor(empty)), theirs(empty))


CREATION = {
    "zeros": (lambda: Tensor.zeros(2, 3), np.zeros((2, 3), "f4")),
    "ones": (lambda: Tensor.ones((2, 3), dtype="int64"), np.ones((2, 3), "i8")),
    "full": (lambda: Tensor.full((2,), 7), np.full(2, 7, "i4")),
    "full bool": (lambda: Tensor.full((2,), True), np.full(2, True)),
    "full float": (lambda: Tensor.full((0, 2), 1.5), np.full((0, 2), 1.5, "f4")),
    "arange": (lambda: Tensor.arange(5), np.arange(5, dtype="i4")),
    "arange down": (lambda: Tensor.arange(10, -3, -4), np.arange(10, -3, -4, dtype="i4")),
    "arange float": (lambda: Tensor.arange(0.5, 3.0, 0.25), np.arange(0.5, 3.0, 0.25, "f4")),
    "arange int8": (
        lambda: Tensor.arange(-100, 100, dtype="int8"),
        np.arange(-100, 100).astype("i1"),
    ),
    "arange nothing": (lambda: Tensor.arange(3, 1), np.arange(3, 1, dtype="i4")),
    "linspace": (lambda: Tensor.linspace(5, -5, 11), np.linspace(5, -5, 11, dtype="f4")),
    "linspace one": (lambda: Tensor.linspace(3, 9, 1), np.array([3], "f4")),
    "linspace none": (lambda: Tensor.linspace(3, 9, 0), np.zeros(0, "f4")),
    "eye": (lambda: Tensor.eye(2, 3), np.eye(2, 3, dtype="f4")),
    "zeros_like": (lambda: Tensor([1, 2]).zeros_like(), np.zeros(2, "i4")),
    "ones_like": (lambda: Tensor([1, 2]).ones_like(dtype="float64"), np.ones(2)),
}


@pytest.mark.parametrize("name", CREATION)
def test_creation(name):
    made, expected = CREATION[name]
    equal(made(), expected)


@pytest.mark.parametrize(
    "data",
    [
        3,
        2.5,
        True,
        [1, 2],
        [[1.5], [2]],
        [],
        [[], []],
        (1, True),
        range(4),
        [True, False],
    ],
)
def test_python_data_comes_back(data):
    expected = list(data) if isinstance(data, (range, tuple)) else data
    assert Tensor(data).tolist() == expected


def test_dtypes_of_python_data():
    assert Tensor([True]).dtype is dtypes.bool
    assert Tensor([1, True]).dtype is dtypes.int32
    assert Tensor([1, 2.0]).dtype is dtypes.float32
    assert Tensor([]).dtype is dtypes.float32
    assert Tensor(b"\x01\xff").tolist() == [1, 255]
    assert Tensor([1.5, 300], dtype="bfloat16").tolist() == [1.5, 300.0]


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=">i4").reshape(2, 3),
        np.arange(6.0)[::-2],
        np.arange(6, dtype="u2").reshape(2, 3).T,
        np.float16(1.5),
        np.array(3),
        np.zeros((0, 2), "f8"),
        np.array([True, False]),
        np.broadcast_to(np.float32(2), (3, 2)),
    ],
)
def test_numpy_arrays_of_any_layout(array):
    native = np.asarray(array)
    equal(Tensor(array), native.astype(native.dtype.newbyteorder("=")))


def test_numpy_is_copied_both_ways():
    a = np.array([1, 2, 3], "f4")
    t = Tensor(a)
    a[0] = 99
    b = t.numpy()
    b[1] = -7
    assert t.tolist() == [1, 2, 3]


def test_lists_of_tensors_and_arrays():
    assert Tensor([Tensor([1, 2]), Tensor([3, 4])]).tolist() == [[1, 2], [3, 4]]
    assert Tensor([np.float32(1.5), np.float32(2)]).tolist() == [1.5, 2]


MISTAKES = {
    "ragged": (lambda: Tensor([[1, 2], [3]]), ShapeError, "ragged"),
    "ragged depth": (lambda: Tensor([1, [2]]), ShapeError, "ragged"),
    "objects": (lambda: Tensor(np.array([object()])), DTypeError, "objects"),
    "complex": (lambda: Tensor(np.array([1j])), DTypeError, "complex"),
    "string": (lambda: Tensor("abc"), DTypeError, "made of str"),
    "string inside": (lambda: Tensor([1, "a"]), DTypeError, "'a'"),
    "negative size": (lambda: Tensor.zeros(-1, 2), ShapeError, "negative: -1"),
    "huge size": (lambda: Tensor.zeros(2**40, 2**40), ShapeError, "addressed"),
    "size 1.5": (lambda: Tensor.zeros(1.5), TypeError, "1.5"),
    "reshape": (lambda: Tensor(A).reshape(5, 5), ShapeError, r"\(2, 3, 4\).*24"),
    "reshape -1": (lambda: Tensor(A).reshape(5, -1), ShapeError, "no multiple of 5"),
    "two -1": (lambda: Tensor(A).reshape(-1, -1), ShapeError, "one size may be -1"),
    "permute": (lambda: Tensor(A).permute(0, 0, 1), ShapeError, "each axis"),
    "axis": (lambda: Tensor(A).sum(3), IndexOutOfRangeError, "axis 3"),
    "axis of scalar": (lambda: Tensor(3).sum(1), IndexOutOfRangeError, "axis 1"),
    "expand": (lambda: Tensor(A).expand(2, 5, 4), ShapeError, "broadcast"),
    "cat": (lambda: Tensor(A).cat(Tensor(A[:, :2]), dim=0), ShapeError, "do not fit"),
    "stack": (lambda: Tensor(A).stack(Tensor(A[:1])), ShapeError, "equal shapes"),
    "split": (lambda: Tensor(A).split([1, 1], 2), ShapeError, "add up to 4"),
    "pad": (lambda: Tensor(A).pad((1, 1, 1)), ShapeError, "padding"),
    "reflect": (lambda: Tensor(A).pad((4, 0), mode="reflect"), ShapeError, "too large"),
    "item": (lambda: Tensor(A).item(), ShapeError, "exactly one"),
    "truth": (lambda: bool(Tensor(A)), ShapeError, "ambiguous"),
    "len": (lambda: len(Tensor(1)), TypeError, "no length"),
    "iter": (lambda: iter(Tensor(1)), TypeError, "scalar"),
    "bfloat16": (lambda: Tensor([1.0]).bfloat16().numpy(), TypeError, r"\.float\(\)"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_raise_at_the_call(name):
    mistake, kind, text = MISTAKES[name]
    with pytest.raises(kind, match=text):
        mistake()


def test_reading_protocols():
    t = Tensor(A)
    assert len(t) == 2
    assert [row.shape for row in t] == [(3, 4)] * 2
    assert Tensor([[5]]).item() == 5
    assert bool(Tensor([1]))
    assert float(Tensor(2.5)) == 2.5
    assert [10, 20, 30][Tensor(1)] == 20
    np.testing.assert_array_equal(np.asarray(t), A)
    assert (t.numel(), t.ndim, t.nbytes(), t.element_size()) == (24, 3, 96, 4)


def test_repr_shows_values_and_never_raises():
    assert repr(Tensor([1, 2]))[:14] == "Tensor([1, 2],"
    assert "dtype=float32" in repr(Tensor(1.5))
    assert "1.5" in repr(Tensor([1.5]).bfloat16())
    impossible = Tensor([1.0])
    impossible.uop = impossible.uop.src[0]
    assert "not computed" in repr(impossible)
