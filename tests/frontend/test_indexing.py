"""Indexing, assignment, gather and scatter against numpy."""

import numpy as np
import pytest

from core.foundation.errors import DTypeError, IndexOutOfRangeError, ShapeError
from core.frontend import Tensor

A = np.arange(60, dtype="i4").reshape(3, 4, 5)
K, J = np.array([2, 0, -1]), np.array([[1], [3]])
KEYS = {
    "int": 1,
    "negative int": -1,
    "ints": (0, -2, 3),
    "slice": slice(1, 3),
    "step": (slice(None), slice(None, None, 2)),
    "back": slice(None, None, -1),
    "step back": (Ellipsis, slice(4, 0, -2)),
    "long step": (Ellipsis, slice(None, None, 20)),
    "empty": slice(2, 1),
    "far": slice(-20, 20),
    "none": (None, 1, None, slice(0, 2)),
    "dots": (Ellipsis, 2),
    "dots middle": (0, Ellipsis, slice(1, 4)),
    "nothing": (),
    "list": [2, 0, 0],
    "array": (slice(None), K),
    "array last": (Ellipsis, K),
    "two arrays": (K, J),
    "apart": (K, slice(None), K),
    "array and int": (K, 1),
    "int apart": (0, slice(None), K),
    "array and slice": (slice(0, 2), K, slice(None, None, 2)),
    "none and array": (None, None, K),
    "array none": (K, None),
    "none slice array": (None, slice(None), K),
    "mask": A % 3 == 0,
    "row mask": np.array([True, False, True]),
    "mask axis": (slice(None), np.array([True, False, True, True])),
}


def tensors(key):
    """The key with arrays as tensors."""
    if isinstance(key, tuple):
        return tuple(tensors(item) for item in key)
    return Tensor(key) if isinstance(key, np.ndarray) else key


def equal(tensor, expected):
    np.testing.assert_array_equal(tensor.numpy(), expected)
    assert tensor.shape == expected.shape


@pytest.mark.parametrize("name", KEYS)
def test_reading(name):
    equal(Tensor(A)[tensors(KEYS[name])], A[KEYS[name]])
    equal(Tensor(A[:, ::-1])[KEYS[name]], A[:, ::-1][KEYS[name]])


@pytest.mark.parametrize("name", KEYS)
def test_writing(name):
    key = KEYS[name]
    for value in (7, "same", "row"):
        a, t = A.copy(), Tensor(A)
        part = a[key]
        if value == "row":
            new = np.arange(part.shape[-1] if part.ndim else 1, dtype="i4") * -1
            new = new if part.ndim else new[0]
        else:
            new = -part - 100 if value == "same" else value
        a[key] = new
        t[tensors(key)] = Tensor(new) if isinstance(new, np.ndarray) else new
        equal(t, a)


def test_the_last_of_several_values_stays():
    t = Tensor([[1, 2], [3, 4]])
    t[[0, 0], [1, 1]] = Tensor([7, 0])
    assert t.tolist() == [[1, 0], [3, 4]]


def test_index_tensors_out_of_range_read_zero_and_write_nothing():
    x = Tensor([5, 6, 7])
    assert x[Tensor([3, -4, 1, -1])].tolist() == [0, 0, 6, 7]
    x[Tensor([3, -4, 1])] = 9
    assert x.tolist() == [5, 9, 7]


@pytest.mark.parametrize(
    ("key", "kind", "text"),
    [
        (3, IndexOutOfRangeError, "index 3 leaves axis 0"),
        ((0, -5), IndexOutOfRangeError, "index -5 leaves axis 1"),
        ([0, 3], IndexOutOfRangeError, "index 3"),
        ((0, 0, 0, 0), IndexOutOfRangeError, "4 indices"),
        (1.5, DTypeError, "float"),
        ("a", TypeError, "a"),
        (Tensor([1.0]), DTypeError, "float32"),
        (Tensor([True]), IndexOutOfRangeError, "mask"),
    ],
)
def test_mistakes(key, kind, text):
    with pytest.raises(kind, match=text):
        Tensor(A)[key]


def test_values_that_do_not_fit():
    with pytest.raises(ShapeError, match="does not fit"):
        Tensor(A)[0] = Tensor([1, 2])
    with pytest.raises(ShapeError, match="broadcast"):
        Tensor(A).assign(Tensor([1, 2]))
    with pytest.raises(DTypeError, match="cannot assign float32"):
        Tensor([1]).assign(Tensor([1.5]))


def test_a_tensor_names_a_value():
    x = Tensor([1.0, 2.0])
    before = x * 10
    x.assign(Tensor([5.0, 6.0]))
    assert before.tolist() == [10, 20]
    assert x.tolist() == [5, 6]
    x += 1
    x *= 2
    x -= Tensor([1.0, 1.0])
    x /= 2
    assert x.tolist() == [5.5, 6.5]


def test_views_write_their_root():
    x = Tensor(A)
    view, other = x[1], x[:, 0]
    view[2].assign(Tensor([9] * 5))
    view += 1
    expected = A.copy()
    expected[1, 2] = 9
    expected[1] += 1
    equal(x, expected)
    equal(other, A[:, 0])


def test_in_place_on_parts_and_aliasing():
    a, x = A.copy(), Tensor(A)
    a[1:] = a[:-1].copy()
    x[1:] = x[:-1]
    a[0, 1:3] += 5
    x[0, 1:3] += 5
    a[:, ::2] *= 2
    x[:, ::2] *= 2
    equal(x, a)


def test_copies_do_not_follow():
    s, d = Tensor([1, 2, 3]), Tensor([0, 0, 0])
    d[:] = s[:]
    p, c = s.pad(((0, 0),)), s.clone()
    s += 5
    assert [t.tolist() for t in (s, d, p, c)] == [[6, 7, 8]] + [[1, 2, 3]] * 3


def test_swap_and_cross_assignment():
    a, b = Tensor([1.0, 2.0]), Tensor([10.0, 20.0])
    total, difference = a + b, a - b
    a.assign(total), b.assign(difference)
    assert (a.tolist(), b.tolist()) == ([11, 22], [-9, -18])
    t = Tensor([0])
    for _ in range(300):
        t.assign(t + 1)
    assert t.tolist() == [300]


def take_along(a, index, axis):
    return np.take_along_axis(a, index, axis)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather(axis):
    shape = [2, 3, 4]
    shape[axis] = 6
    index = np.random.default_rng(0).integers(0, A.shape[axis], shape)
    part = A[tuple(slice(None) if a == axis % 3 else slice(n) for a, n in enumerate(shape))]
    equal(Tensor(A).gather(axis, Tensor(index)), take_along(part, index, axis))


@pytest.mark.parametrize("axis", [0, 1])
def test_scatter(axis):
    index = np.array([[0, 2, 2], [1, 1, 0]]) if axis else np.array([[0, 1, 1], [0, 0, 2]])
    source = np.arange(1, 7, dtype="i4").reshape(2, 3)
    base = np.full((3, 4), -1, "i4")
    replaced, added = base.copy(), base.copy()
    for r in range(2):
        for c in range(3):
            place = (r, index[r, c]) if axis else (index[r, c], c)
            replaced[place] = source[r, c]
            added[place] += source[r, c]
    equal(Tensor(base).scatter(axis, Tensor(index), Tensor(source)), replaced)
    equal(Tensor(base).scatter(axis, Tensor(index), Tensor(source), reduce="add"), added)
    equal(Tensor(base).scatter(axis, Tensor(index), 5), np.where(replaced == -1, -1, 5))


def test_one_hot_and_masks():
    assert Tensor([1, 7, -9]).one_hot(4).tolist() == [[0, 1, 0, 0], [0] * 4, [0] * 4]
    assert Tensor(A).masked_fill(Tensor(A) > 5, 0).sum().item() == 15
    assert Tensor([0, 3, 0, 4]).nonzero().tolist() == [[1], [3]]
    assert Tensor([1, 2, 3]).masked_select(Tensor([True, False, True])).tolist() == [1, 3]


def test_a_large_gather_is_no_one_hot_sum():
    a = np.arange(200_000, dtype="i4") * 3
    index = np.random.default_rng(1).integers(0, 200_000, 2000)
    equal(Tensor(a)[Tensor(index)], a[index])


def test_a_gather_by_what_another_gather_goes_through():
    """The inner index is wanted by the outer gather alone, however the inner one is reached."""
    x = np.arange(16, dtype="i2").reshape(4, 4)[::-1] % 5
    index = np.array([[0, 1, 2, 3], [3, 2, 1, 0], [1, 1, 0, 2], [2, 3, 3, 0]])
    rows = np.sort(x != 0, 1)
    expected = rows.copy()
    for i in range(4):
        for j in range(4):
            expected[index[i, j], j] = rows[i, j]
    sorted_rows = Tensor(x).cast("bool").sort(1)[0]
    equal(sorted_rows.scatter(0, Tensor(index), sorted_rows), expected)
