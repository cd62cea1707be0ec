"""Convolution and pooling against loops in numpy."""

import itertools

import numpy as np
import pytest

from core.foundation.errors import ShapeError
from core.frontend import Tensor

RANDOM = np.random.default_rng(0)


def reference(x, w, stride=(1, 1), dilation=(1, 1), pads=((0, 0), (0, 0)), groups=1):
    x = np.pad(x, ((0, 0), (0, 0), *pads)).astype("f8")
    outputs, inner, *kernel = w.shape
    sizes = [
        (n - d * (k - 1) - 1) // s + 1
        for n, d, k, s in zip(x.shape[2:], dilation, kernel, stride, strict=True)
    ]
    result = np.zeros((x.shape[0], outputs, *sizes))
    for o, i, j in itertools.product(range(outputs), *map(range, sizes)):
        g = o // (outputs // groups)
        window = x[
            :,
            g * inner : (g + 1) * inner,
            i * stride[0] : i * stride[0] + dilation[0] * (kernel[0] - 1) + 1 : dilation[0],
            j * stride[1] : j * stride[1] + dilation[1] * (kernel[1] - 1) + 1 : dilation[1],
        ]
        result[:, o, i, j] = (window * w[o]).sum((1, 2, 3))
    return result


CASES = [
    ({}, ((1, 1), (1, 1), ((0, 0), (0, 0)), 1)),
    ({"stride": 2, "padding": 1}, ((2, 2), (1, 1), ((1, 1), (1, 1)), 1)),
    (
        {"stride": (2, 1), "dilation": (1, 3), "padding": (1, 2, 0, 3)},
        ((2, 1), (1, 3), ((0, 3), (1, 2)), 1),
    ),
    ({"groups": 2, "padding": (2, 0)}, ((1, 1), (1, 1), ((2, 2), (0, 0)), 2)),
    ({"padding": "same", "dilation": 2}, ((1, 1), (2, 2), ((2, 2), (1, 1)), 1)),
]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_convolution(case):
    options, plain = CASES[case]
    groups = options.get("groups", 1)
    x = RANDOM.normal(size=(2, 4, 9, 8)).astype("f4")
    w = RANDOM.normal(size=(6, 4 // groups, 3, 2)).astype("f4")
    b = RANDOM.normal(size=6).astype("f4")
    expected = reference(x, w, *plain) + b[:, None, None]
    actual = Tensor(x).conv2d(Tensor(w), Tensor(b), **options).numpy()
    np.testing.assert_allclose(actual, expected, 1e-4, 1e-4)


@pytest.mark.parametrize("case", range(len(CASES) - 1))
def test_transposed_convolution_is_the_adjoint(case):
    options, plain = CASES[case]
    stride, dilation, pads, groups = plain
    options = {k: v for k, v in options.items() if k != "padding"}
    x, w = RANDOM.normal(size=(2, 4, 9, 8)), RANDOM.normal(size=(6, 4 // groups, 3, 2))
    y = reference(x, w, stride, dilation, ((0, 0), (0, 0)), groups)
    g = RANDOM.normal(size=y.shape)
    # <conv(x), g> = <x, transposed(g)>, up to the edge that no window reaches
    back = Tensor(g).conv_transpose2d(Tensor(w), **options).numpy()
    rows, columns = back.shape[2:]
    np.testing.assert_allclose((y * g).sum(), (x[:, :, :rows, :columns] * back).sum())


def test_convolution_of_one_and_three_axes():
    x, w = RANDOM.normal(size=(2, 3, 10)), RANDOM.normal(size=(4, 3, 3))
    expected = reference(x[..., None], w[..., None])[..., 0]
    np.testing.assert_allclose(Tensor(x).conv2d(Tensor(w)).numpy(), expected)
    x, w = RANDOM.normal(size=(1, 1, 3, 4, 4)), RANDOM.normal(size=(1, 1, 3, 2, 2))
    expected = sum(reference(x[:, :, k], w[:, :, k]) for k in range(3))
    np.testing.assert_allclose(Tensor(x).conv2d(Tensor(w)).numpy()[:, :, 0], expected)


def test_half_precision_products_accumulate_in_float32():
    x, w = Tensor.ones(1, 300, 3, 3, dtype="float16"), Tensor.ones(1, 300, 3, 3, dtype="float16")
    result = x.conv2d(w) * 10
    assert (result.dtype.name, result.item()) == ("float16", 27008)


def pooled(x, kernel, stride, padding, function, fill):
    x = np.pad(x, ((0, 0), (0, 0), (padding,) * 2, (padding,) * 2), constant_values=fill)
    rows, columns = ((n - kernel) // stride + 1 for n in x.shape[2:])
    return np.stack(
        [
            np.stack(
                [
                    function(
                        x[:, :, i * stride : i * stride + kernel, j * stride : j * stride + kernel],
                        (2, 3),
                    )
                    for j in range(columns)
                ],
                -1,
            )
            for i in range(rows)
        ],
        -2,
    )


@pytest.mark.parametrize(("kernel", "stride", "padding"), [(2, 2, 0), (3, 2, 1), (3, 1, 0)])
def test_pooling(kernel, stride, padding):
    x = RANDOM.normal(size=(2, 3, 7, 8)).astype("f4")
    size = (kernel, kernel)
    largest = Tensor(x).max_pool2d(size, stride, padding=padding).numpy()
    np.testing.assert_array_equal(largest, pooled(x, kernel, stride, padding, np.max, -np.inf))
    mean = Tensor(x).avg_pool2d(size, stride, padding=padding).numpy()
    np.testing.assert_allclose(mean, pooled(x, kernel, stride, padding, np.mean, 0), 1e-5, 1e-6)


def test_pooling_at_edges():
    a = np.arange(1, 9, dtype="f4").reshape(1, 1, 1, 8)
    options = {"stride": (1, 2), "padding": (0, 2), "ceil_mode": True}
    mean = Tensor(a).avg_pool2d((1, 5), **options).numpy().ravel()
    np.testing.assert_allclose(mean, [6 / 5, 3, 5, 26 / 5, 15 / 4])
    mean = Tensor(a).avg_pool2d((1, 5), count_include_pad=False, **options).numpy().ravel()
    np.testing.assert_allclose(mean, [2, 3, 5, 6.5, 7.5])
    b = -np.arange(1, 17, dtype="i4").reshape(1, 1, 4, 4)
    assert Tensor(b).max_pool2d((3, 3), 2, padding=1).tolist() == [[[[-1, -2], [-5, -6]]]]


@pytest.mark.parametrize(
    ("mistake", "text"),
    [
        (lambda x: x.conv2d(Tensor.ones(2, 3, 2, 2)), "4 channels"),
        (lambda x: x.conv2d(Tensor.ones(2, 4, 9, 9)), "shorter than a kernel"),
        (
            lambda x: x.conv2d(Tensor.ones(2, 4, 2, 2), stride=0),
            "stride is an integer of at least 1",
        ),
        (lambda x: x.conv2d(Tensor.ones(2, 4, 2)), "trailing axes"),
        (lambda x: x.max_pool2d((9, 9)), "shorter than the kernel"),
    ],
)
def test_mistakes(mistake, text):
    with pytest.raises(ShapeError, match=text):
        mistake(Tensor.ones(1, 4, 5, 5))


def test_nothing_to_convolve():
    assert Tensor.zeros(0, 2, 5, 5).conv2d(Tensor.ones(3, 2, 3, 3)).numpy().shape == (0, 3, 3, 3)
