"""Every function against array-api-strict, which is numpy held to the standard's text."""

import inspect

import numpy as np
import pytest

import core.array_api as xp
from core import Tensor

strict = pytest.importorskip(
    "array_api_strict", reason="array-api-strict is not installed: pip install array-api-strict")

SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float32", "float64"]
NUMBERS = [*FLOATS, *SIGNED, *UNSIGNED]
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, -1.5, 2.5, 3.7,
                    -7.25, 100.3])
# Functions whose results are rounded more than once, or whose zeros may have either sign.
LOOSE = {"sum", "prod", "mean", "var", "std", "cumulative_sum", "cumulative_prod", "matmul",
         "vecdot", "tensordot", "max", "min", "maximum", "minimum", "sort", "unique_all",
         "unique_counts", "unique_inverse", "unique_values", "floor_divide", "remainder", "clip"}
DEFAULTS = {"int64": "int32", "uint64": "uint32", "float64": "float32"}


@pytest.fixture(autouse=True)
def version():
    strict.set_array_api_strict_flags(api_version="2024.12")
    with np.errstate(all="ignore"):
        yield
    strict.reset_array_api_strict_flags()


def draw(dtype, shape, seed=0, finite=False):
    rng = np.random.default_rng([seed, len(shape), len(dtype)])
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype in FLOATS:
        values = SPECIAL[np.isfinite(SPECIAL)] if finite else SPECIAL
        return rng.choice(values, shape).astype(dtype)
    return rng.integers(0 if dtype in UNSIGNED else -9, 10, shape).astype(dtype)


def both(name, *arguments, **options):
    """The same call in both libraries; arrays are given as numpy's."""
    results = []
    for library in (strict, xp):
        args, kwargs = (
            [convert(library, a) for a in arguments],
            {k: convert(library, v) for k, v in options.items()})
        results.append(getattr(library, name)(*args, **kwargs))
    compare(name, *results)


def convert(library, value):
    if isinstance(value, np.ndarray):
        return library.asarray(value)
    return [convert(library, v) for v in value] if isinstance(value, list) else value


def compare(name, expected, found):
    if isinstance(expected, (tuple, list)):
        assert len(expected) == len(found)
        for one, other in zip(expected, found, strict=True):
            compare(name, one, other)
        return
    assert isinstance(found, Tensor)
    expected, found = np.asarray(expected._array), found.numpy()
    assert found.shape == expected.shape
    assert str(found.dtype) in {str(expected.dtype), DEFAULTS.get(str(expected.dtype))}
    if found.dtype.kind != "f":
        assert np.array_equal(found, expected)
        return
    tolerance = (64 if name in LOOSE else 8) * np.finfo(found.dtype).eps
    assert np.allclose(found.astype(float), expected.astype(float), tolerance, tolerance,
                       equal_nan=True)
    if name not in LOOSE:
        there = ~np.isnan(expected)
        assert np.array_equal(np.signbit(found)[there], np.signbit(expected)[there])


ONE = ["abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "exp",
       "expm1", "floor", "isfinite", "isinf", "isnan", "log", "log10", "log1p", "log2", "negative",
       "positive", "reciprocal", "round", "sign", "signbit", "sin", "sinh", "sqrt", "square",
       "tan", "tanh", "trunc"]
WHOLE = {"abs", "ceil", "floor", "isfinite", "isinf", "isnan", "negative", "positive", "round",
         "sign", "square", "trunc"}


@pytest.mark.parametrize("name", ONE)
def test_functions_of_one_array(name):
    for dtype in FLOATS:
        both(name, SPECIAL.astype(dtype))
        both(name, draw(dtype, ()))
    if name in WHOLE:
        for dtype in ("int8", "uint8", "int64"):
            both(name, draw(dtype, (7,)))


ARITHMETIC = ["add", "subtract", "multiply", "floor_divide", "remainder", "pow", "maximum",
              "minimum", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]
FLOAT_ONLY = ["divide", "atan2", "hypot", "copysign", "nextafter", "logaddexp"]


@pytest.mark.parametrize("name", [*ARITHMETIC, *FLOAT_ONLY])
def test_functions_of_two_arrays(name):
    for dtype in FLOATS:
        both(name, *(a.astype(dtype) for a in np.meshgrid(SPECIAL, SPECIAL)))
        both(name, draw(dtype, (3, 4)), 2.0)
        both(name, 1.5, draw(dtype, (4,)))
    both(name, draw("float32", (3, 1)), draw("float64", (4,)))
    if name in ARITHMETIC:
        for first, second in (("int8", "int8"), ("int8", "uint8"), ("uint16", "int32"),
                              ("uint32", "uint64"), ("int64", "int32")):
            divisor = abs(draw(second, (4,), 1)) % 4 + 1
            both(name, draw(first, (3, 4)), divisor.astype(second))
        both(name, draw("int16", (5,)), 3)


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift",
                                  "bitwise_right_shift", "bitwise_invert", "logical_and",
                                  "logical_or", "logical_xor", "logical_not"])
def test_bits_and_truth(name):
    dtypes = ["bool"] if "logical" in name else [*SIGNED, *UNSIGNED]
    if name.startswith("bitwise") and "shift" not in name:
        dtypes = [*dtypes, "bool"]
    for dtype in dtypes:
        first, second = draw(dtype, (3, 4)), draw(dtype, (4,), 1)
        if "shift" in name:
            second = (abs(second) % 7).astype(dtype)
        both(name, *((first,) if name in {"bitwise_invert", "logical_not"} else (first, second)))


@pytest.mark.filterwarnings("ignore:Degrees of freedom", "ignore:Mean of empty")
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "mean", "var", "std", "all", "any",
                                  "count_nonzero"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 0, 3)])
def test_reductions(name, shape):
    dtypes = FLOATS if name in {"mean", "var", "std"} else ["float32", "int8", "uint16", "int64"]
    if name in {"all", "any", "count_nonzero"}:
        dtypes = ["bool", "float32", "int16"]
    axes = [None, (), *range(-len(shape), len(shape)), *([(0, 1)] if len(shape) > 1 else [])]
    for dtype in dtypes:
        x = draw(dtype, shape, finite=name not in {"max", "min"})
        for axis in axes:
            if name in {"max", "min"} and 0 in shape:
                continue
            both(name, x, axis=axis)
            both(name, x, axis=axis, keepdims=True)
    if name in {"var", "std"} and shape == (2, 3):
        both(name, draw("float64", shape, finite=True), axis=1, correction=1)


@pytest.mark.parametrize("name", ["cumulative_sum", "cumulative_prod"])
def test_running_totals(name):
    for dtype in ("float64", "int8", "uint32"):
        both(name, draw(dtype, (5,), finite=True))
        for axis in (0, -1):
            both(name, draw(dtype, (2, 3), finite=True), axis=axis)
            both(name, draw(dtype, (2, 3), finite=True), axis=axis, include_initial=True)


@pytest.mark.parametrize("name", ["argmax", "argmin", "sort", "argsort"])
@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 1, 3)])
def test_orders(name, shape):
    for dtype in ("float32", "int8", "uint64"):
        x = draw(dtype, shape, finite=True)
        for axis in range(-len(shape), len(shape)):
            both(name, x, axis=axis)
            if name in {"sort", "argsort"}:
                both(name, x, axis=axis, descending=True)
            else:
                both(name, x, axis=axis, keepdims=True)
    if name.startswith("argm"):
        both(name, draw("float32", shape))


@pytest.mark.parametrize("name", ["unique_all", "unique_counts", "unique_inverse",
                                  "unique_values", "nonzero"])
@pytest.mark.parametrize("shape", [(), (9,), (3, 4), (0,), (2, 0)])
def test_data_dependent_shapes(name, shape):
    for dtype in ("float32", "int8", "uint64", "bool"):
        if name != "nonzero" or shape:
            both(name, draw(dtype, shape))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint32", "int64"])
def test_searching_and_choosing(dtype):
    x = np.sort(draw(dtype, (7,), finite=True))
    for side in ("left", "right"):
        both("searchsorted", x, draw(dtype, (2, 3), 1, finite=True), side=side)
    z, rng = draw(dtype, (3, 4)), np.random.default_rng(3)
    both("take", z, rng.integers(0, 3, 5), axis=0)
    both("take", z, rng.integers(0, 4, 5), axis=-1)
    both("take_along_axis", z, rng.integers(0, 4, (3, 2)))
    both("take_along_axis", z, rng.integers(-3, 3, (1, 4)), axis=0)
    both("where", draw("bool", (3, 4)), z, draw(dtype, (4,)))
    both("where", draw("bool", (3, 1)), z, 1)
    both("clip", z, 1, 5)
    both("clip", z, max=3)
    both("clip", z, draw(dtype, (4,), 2), None)
    both("diff", z)
    both("diff", z, axis=0, n=2)
    both("diff", z, prepend=draw(dtype, (3, 1)), append=draw(dtype, (3, 2)))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint32"])
def test_products(dtype):
    m, n = draw(dtype, (3, 4), finite=True), draw(dtype, (4, 2), finite=True)
    both("matmul", m, n)
    both("matmul", m, n[:, 0])
    both("matmul", m[0], n)
    both("matmul", np.stack([m, m]), n)
    for axes in (0, 1, ((1,), (0,))):
        both("tensordot", m, n, axes=axes)
    both("tensordot", m, m)
    both("vecdot", m, m[0])
    both("vecdot", m, m, axis=-2)
    both("matrix_transpose", np.stack([m, m]))


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool"])
def test_other_shapes_of_the_same_elements(dtype):
    m, q = draw(dtype, (3, 4)), draw(dtype, (2, 3, 1))
    for k in (-1, 0, 2):
        both("tril", m, k=k)
        both("triu", np.stack([m, m]), k=k)
    both("broadcast_to", q, (4, 2, 3, 5))
    both("broadcast_arrays", q, m)
    for axis in (-4, -1, 0, 3):
        both("expand_dims", q, axis=axis)
    for axis in (None, 0, -1, (0, 1)):
        both("flip", q, axis=axis)
    both("moveaxis", q, 0, 2)
    both("moveaxis", q, (0, 1), (-1, 0))
    both("permute_dims", q, (2, 0, 1))
    both("reshape", q, (3, -1))
    both("squeeze", q, 2)
    both("squeeze", q, (-1,))
    for axis in (0, 1, -1):
        both("concat", [m, m, m], axis=axis)
        both("stack", [q, q], axis=axis)
        both("unstack", m, axis=axis)
    both("concat", [m, q], axis=None)


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool"])
def test_repetitions(dtype):
    m = draw(dtype, (3, 4))
    both("repeat", m, 2)
    both("repeat", m, 3, axis=1)
    both("repeat", m, 0)
    both("repeat", m, np.array([0, 2, 1]), axis=0)
    both("tile", m, (2,))
    both("tile", m, (2, 1, 3))
    both("roll", m, 1)
    both("roll", m, (1, -2), axis=(0, 1))
    both("roll", m, -5, axis=1)


def test_creation():
    for arguments in ((5,), (1, 7, 2), (5, 0, -2), (0, 1, 0.25), (0.0,), (3, 3), (5, 1),
                      (-2.5, 3, 0.5)):
        both("arange", *arguments)
    for arguments in ((0, 1, 5), (0, 1, 0), (2, -3, 4), (0.0, 10.0, 1)):
        both("linspace", *arguments)
        both("linspace", *arguments, endpoint=False)
    for arguments in ((3,), (2, 4), (0,), (3, 2)):
        for k in (-5, -1, 0, 1, 7):
            both("eye", *arguments, k=k)
    for shape in ((2, 3), 3, (), (0, 2)):
        for name in ("zeros", "ones"):
            both(name, shape)
        for value in (3, True, 1.5):
            both("full", shape, value)
    x = draw("int16", (2, 3))
    for name in ("zeros_like", "ones_like"):
        both(name, x)
    both("full_like", x, 7)
    grid = [draw("float32", (k,)) for k in (2, 3, 4)]
    for count in (1, 2, 3):
        for indexing in ("xy", "ij"):
            both("meshgrid", *grid[:count], indexing=indexing)


#: Where array-api-strict has another default to say "not given", or follows a later version.
OTHER_SIGNATURES = {"astype", "expand_dims", "from_dlpack"}


def test_signatures_are_the_standards():
    compared = 0
    for name in strict.__all__:
        theirs, ours = getattr(strict, name), getattr(xp, name, None)
        if not inspect.isfunction(theirs) or ours is None or name in OTHER_SIGNATURES:
            continue
        expected, found = (
            [(p.name, p.kind, p.default) for p in inspect.signature(f).parameters.values()]
            for f in (theirs, ours))
        assert found == expected, name
        compared += 1
    assert compared > 120


def test_dtypes_are_promoted_as_the_standard_says():
    for first in [*NUMBERS, "bool"]:
        for second in [*NUMBERS, "bool"]:
            try:
                expected = strict.result_type(getattr(strict, first), getattr(strict, second))
            except TypeError:
                continue  # kinds that the standard does not mix
            found = xp.result_type(getattr(xp, first), getattr(xp, second))
            assert found.name == str(expected).rpartition(".")[2]
