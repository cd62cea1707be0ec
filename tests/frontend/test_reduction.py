"""Reductions, scans, products of matrices and losses against numpy."""

import numpy as np
import pytest

from core.foundation.errors import ShapeError
from core.frontend import Tensor
from core.ir import dtypes

RANDOM = np.random.default_rng(0)
A = RANDOM.normal(size=(3, 4, 5)).astype("f4")
EMPTY = np.zeros((2, 0, 3), "f4")
AXES = [None, 0, -1, (0, 2), ()]


def close(tensor, expected, tolerance=1e-5):
    actual, expected = tensor.numpy(), np.asarray(expected)
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, tolerance, tolerance)


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("name", ["sum", "prod", "mean", "max", "min"])
def test_reductions(name, axis, keepdim):
    close(getattr(Tensor(A), name)(axis, keepdim), getattr(A, name)(axis=axis, keepdims=keepdim))


@pytest.mark.parametrize("correction", [0, 1])
@pytest.mark.parametrize("axis", [None, 1, (0, 2)])
def test_variance(axis, correction):
    close(Tensor(A).var(axis, correction=correction), A.var(axis, ddof=correction))
    std, mean = Tensor(A).std_mean(axis, correction=correction)
    close(std, A.std(axis, ddof=correction))
    close(mean, A.mean(axis))


def test_variance_of_one_is_nan():
    assert np.isnan(Tensor([4.0]).var().item())
    assert Tensor([4.0]).var(correction=0).item() == 0


@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes_propagate_nan_and_hold_extreme_integers(name):
    a = np.array([[2, np.nan, -1], [3, 1, 0]], "f4")
    np.testing.assert_array_equal(getattr(Tensor(a), name)(1).numpy(), getattr(a, name)(1))
    for dtype in ("i1", "u1", "i4", "u8", "bool"):
        info = [0, 1] if dtype == "bool" else [np.iinfo(dtype).min, 5, np.iinfo(dtype).max]
        b = np.array(info, dtype)
        assert getattr(Tensor(b), name)().numpy() == getattr(b, name)()


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_arguments_of_extremes(name):
    ties = np.array([[5, 9, 9, 1, 1], [0, 0, 0, 0, 0]], "i4")
    nans = np.array([[1, np.nan, 7, np.nan], [3, 3, -1, -1]], "f4")
    for a in (ties, nans, A):
        for axis in (None, 0, -1):
            np.testing.assert_array_equal(
                getattr(Tensor(a), name)(axis).numpy(), getattr(a, name)(axis)
            )
    assert getattr(Tensor(3.0), name)().item() == 0
    with pytest.raises(ShapeError, match="no elements"):
        getattr(Tensor(EMPTY), name)(1)


def test_reductions_of_nothing():
    z = Tensor(EMPTY)
    np.testing.assert_array_equal(z.sum(1).numpy(), np.zeros((2, 3)))
    np.testing.assert_array_equal(z.prod(1).numpy(), np.ones((2, 3)))
    assert np.isnan(z.mean(1).numpy()).all()
    assert z.mean(1).shape == (2, 3)
    assert np.isnan(z.var(1).numpy()).all()
    assert z.any(1).tolist() == [[False] * 3] * 2
    assert z.all(1).tolist() == [[True] * 3] * 2
    assert z.max(2).shape == (2, 0)
    assert z.softmax(-1).shape == z.cumsum(1).shape == (2, 0, 3)
    with pytest.raises(ShapeError, match="no elements"):
        z.max(1)


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("bool", "int32"),
        ("int8", "int32"),
        ("uint8", "uint32"),
        ("int64", "int64"),
        ("float16", "float16"),
        ("bfloat16", "bfloat16"),
    ],
)
def test_sums_do_not_overflow(dtype, expected):
    total = Tensor.ones(3000, dtype=dtype).sum()
    assert total.dtype.name == expected
    assert total.float().item() == (3008 if dtype == "bfloat16" else 3000)
    assert Tensor(np.full(5000, 20, "f2")).mean().item() == 20


def test_any_and_all():
    a = np.array([[0, 1], [0, 0], [2, 3]])
    np.testing.assert_array_equal(Tensor(a).any(1).numpy(), a.any(1))
    np.testing.assert_array_equal(Tensor(a).all(1).numpy(), a.all(1))


@pytest.mark.parametrize("extent", [1, 5, 32, 33, 64, 65, 100, 2049])
def test_scans_of_every_length(extent):
    a = RANDOM.integers(-9, 9, (2, extent)).astype("i4")
    np.testing.assert_array_equal(Tensor(a).cumsum(1).numpy(), a.cumsum(1))
    np.testing.assert_array_equal(Tensor(a.T).cummax(0).numpy(), np.maximum.accumulate(a.T, 0))
    np.testing.assert_array_equal(Tensor(a.T).cummin(0).numpy(), np.minimum.accumulate(a.T, 0))


def test_scans_of_floats():
    x = np.array([2, 5, np.nan, 7, 1], "f4")
    np.testing.assert_array_equal(Tensor(x).cummax().numpy(), [2, 5, np.nan, np.nan, np.nan])
    close(Tensor(A).cumprod(2), A.cumprod(2))
    inf = np.array([-np.inf, -np.inf, 0.7, 1.2], "f4")
    close(Tensor(inf).logcumsumexp(0), np.logaddexp.accumulate(inf))


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax(axis):
    close(Tensor(A).softmax(axis), softmax(A, axis))
    close(Tensor(A).log_softmax(axis), np.log(softmax(A, axis)))
    close(Tensor(A * 1e4).softmax(axis), softmax(A * 1e4, axis))
    assert Tensor(2.0).softmax(0).item() == 1


def test_logsumexp_of_masked_rows():
    rows = np.array([[-np.inf] * 3, [0, -np.inf, -np.inf], [np.inf, 0, 1]], "f4")
    assert Tensor(rows).logsumexp(1).tolist() == [-np.inf, 0, np.inf]
    close(Tensor(A).logsumexp((0, 1)), np.log(np.exp(A).sum((0, 1))))


SHAPES = [
    ((3, 4), (4, 5)),
    ((4,), (4,)),
    ((2, 3, 4), (4, 5)),
    ((4,), (2, 4, 5)),
    ((2, 1, 3, 4), (5, 4, 2)),
    ((2, 3, 4), (4,)),
    ((0, 4), (4, 5)),
    ((3, 0), (0, 5)),
]


@pytest.mark.parametrize("shapes", SHAPES)
def test_matmul(shapes):
    a, b = (RANDOM.normal(size=s).astype("f4") for s in shapes)
    close(Tensor(a) @ Tensor(b), a @ b)
    close(Tensor(a[..., ::-1]) @ Tensor(b), a[..., ::-1] @ b)


@pytest.mark.parametrize(
    ("dtype", "result"),
    [("float16", "float16"), ("int8", "int32"), ("bfloat16", "bfloat16"), ("int64", "int64")],
)
def test_matmul_accumulates_wide_and_rounds_once(dtype, result):
    a, b = RANDOM.integers(-100, 100, (4, 300)), RANDOM.integers(-100, 100, (300, 3))
    product = Tensor(a).cast(dtype) @ Tensor(b).cast(dtype)
    assert product.dtype.name == result
    expected = Tensor((a @ b).astype("f4")).cast(result)
    np.testing.assert_array_equal(product.float().numpy(), expected.float().numpy())


EINSUMS = [
    ("ij,jk->ik", (3, 4), (4, 5)),
    ("ij->ji", (3, 4)),
    ("ii->i", (4, 4)),
    ("ii", (4, 4)),
    ("iij,j->ij", (3, 3, 2), (2,)),
    ("bij,bjk", (2, 3, 4), (2, 4, 5)),
    ("i,j,k->kji", (2,), (3,), (4,)),
    ("...ij,...jk->...ik", (2, 3, 4), (4, 5)),
    ("ij,kj,lj->ikl", (2, 3), (4, 3), (5, 3)),
    ("ij->", (3, 4)),
    ("iji->j", (3, 2, 3)),
]


@pytest.mark.parametrize("case", EINSUMS, ids=lambda c: c[0])
def test_einsum(case):
    formula, *shapes = case
    operands = [RANDOM.normal(size=s).astype("f4") for s in shapes]
    close(Tensor.einsum(formula, *map(Tensor, operands)), np.einsum(formula, *operands))


def test_linear_and_mistakes():
    x, w, b = (RANDOM.normal(size=s).astype("f4") for s in ((3, 4), (4, 5), (5,)))
    close(Tensor(x).linear(Tensor(w), Tensor(b)), x @ w + b)
    with pytest.raises(ShapeError, match=r"inner extents 4 and 3"):
        Tensor(x) @ Tensor(x)
    with pytest.raises(ShapeError, match="needs axes"):
        Tensor(x) @ Tensor(2.0)
    with pytest.raises(ShapeError, match="einsum"):
        Tensor.einsum("ij,jk->iz", Tensor(x), Tensor(w))


LOGITS = RANDOM.normal(size=(4, 3)).astype("f4")
CLASSES = np.array([0, 2, 1, 2])
LOG_P = np.log(softmax(LOGITS, 1))


def test_class_losses():
    rows = -LOG_P[np.arange(4), CLASSES]
    logits, classes = Tensor(LOGITS), Tensor(CLASSES)
    close(logits.cross_entropy(classes), rows.mean())
    close(logits.cross_entropy(classes, reduction="none"), rows)
    close(logits.cross_entropy(Tensor(np.eye(3, dtype="f4")[CLASSES])), rows.mean())
    close(logits.sparse_categorical_crossentropy(classes, reduction="sum"), rows.sum())
    smooth = 0.8 * rows - 0.2 * LOG_P.mean(1)
    close(logits.cross_entropy(classes, label_smoothing=0.2), smooth.mean())
    ignored = np.where(CLASSES == 2, -1, CLASSES)
    kept = rows[CLASSES != 2].mean()
    close(logits.sparse_categorical_crossentropy(Tensor(ignored)), kept)
    close(logits.log_softmax(1).nll_loss(classes), rows.mean())
    weight = np.array([1, 2, 3], "f4")
    weighted = (rows * weight[CLASSES]).sum() / weight[CLASSES].sum()
    close(logits.log_softmax(1).nll_loss(classes, weight=Tensor(weight)), weighted)
    with pytest.raises(ShapeError, match="class indices"):
        logits.cross_entropy(Tensor([1, 2]))


def test_binary_losses():
    x, y = np.array([-200.0, -1.0, 0.5, 200.0], "f4"), np.array([0, 1, 0, 1], "f4")
    expected = np.logaddexp(0, x) - x * y
    close(Tensor(x).binary_crossentropy_logits(Tensor(y), reduction="none"), expected)
    p = 1 / (1 + np.exp(-x[1:3]))
    close(Tensor(p).binary_crossentropy(Tensor(y[1:3])), expected[1:3].mean())


def test_normalization():
    close(
        Tensor(A).layernorm(),
        (A - A.mean(-1, keepdims=True)) / np.sqrt(A.var(-1, keepdims=True) + 1e-5),
        1e-4,
    )
    mean, invstd = A.mean((0, 2)), 1 / A.std((0, 2))
    w, b = np.arange(4, dtype="f4"), np.ones(4, "f4")
    shaped = [v[:, None] for v in (mean, invstd, w, b)]
    expected = (A - shaped[0]) * shaped[1] * shaped[2] + shaped[3]
    close(Tensor(A).batchnorm(*map(Tensor, (w, b, mean, invstd))), expected, 1e-4)


def test_attention():
    q, k, v = (RANDOM.normal(size=(2, 5, 4)).astype("f4") for _ in range(3))
    scores = q @ k.swapaxes(-1, -2) / 2
    close(Tensor(q).scaled_dot_product_attention(Tensor(k), Tensor(v)), softmax(scores, -1) @ v)
    causal = np.where(np.tril(np.ones((5, 5), bool)), scores, -np.inf)
    close(
        Tensor(q).scaled_dot_product_attention(Tensor(k), Tensor(v), is_causal=True),
        softmax(causal, -1) @ v,
    )
    mask = np.ones((5, 5), bool)
    mask[1] = False
    out = Tensor(q).scaled_dot_product_attention(Tensor(k), Tensor(v), attn_mask=Tensor(mask))
    np.testing.assert_array_equal(out.numpy()[:, 1], 0)
    assert out.dtype is dtypes.float32
