"""Elementwise operations against numpy: values, dtypes, broadcasting, special floats."""

import math
import operator
from fractions import Fraction

import numpy as np
import pytest

from core.foundation.errors import DeviceError, DTypeError, ShapeError
from core.frontend import Tensor
from core.ir import dtypes

SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3e38, 1e-40, np.inf, -np.inf, np.nan], "f4")
PAIRS = np.meshgrid(SPECIAL, SPECIAL)
INTEGERS = np.array([-(2**31), -7, -2, -1, 0, 1, 2, 3, 7, 2**31 - 1], "i4")
INTEGER_PAIRS = np.meshgrid(INTEGERS, INTEGERS)


def equal(tensor, expected):
    actual, expected = tensor.numpy(), np.asarray(expected)
    assert actual.dtype == expected.dtype
    np.testing.assert_array_equal(actual, expected)
    if actual.dtype.kind == "f":
        signs = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(actual)[signs], np.signbit(expected)[signs])


ARITHMETIC = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


@pytest.mark.parametrize("name", ARITHMETIC)
def test_float_operators_are_ieee(name):
    a, b = PAIRS
    with np.errstate(all="ignore"):
        equal(ARITHMETIC[name](Tensor(a), Tensor(b)), ARITHMETIC[name](a, b))


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_maximum_and_minimum_propagate_nan(name):
    a, b = PAIRS
    actual = getattr(Tensor(a), name)(Tensor(b)).numpy()
    np.testing.assert_array_equal(actual, getattr(np, name)(a, b))
    zeros = getattr(Tensor([0.0, -0.0]), name)(Tensor([-0.0, 0.0])).numpy()
    assert np.signbit(zeros).tolist() == [name == "minimum"] * 2


@pytest.mark.parametrize("operation", [operator.floordiv, operator.mod])
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2"])
def test_float_division_with_remainder_is_pythons(operation, dtype):
    random = np.random.default_rng(0)
    a = np.concatenate(
        [
            random.normal(0, 100, 200),
            [2.1, 3.4, -2.1, 7.5, 0.0, -0.0, 5, -5, 1, -1],
            [6e4, 1e-3, np.inf, np.nan, 1, -1],
        ]
    ).astype(dtype)
    b = np.concatenate(
        [
            random.normal(0, 3, 200),
            [0.1, 0.1, 0.1, 2, 3, 3, 0, -0.0, np.inf, np.inf],
            [3e-4, 7, 2, 1, np.nan, -np.inf],
        ]
    ).astype(dtype)
    with np.errstate(all="ignore"):
        if dtype == "f2":
            expected = operation(a.astype("f4"), b.astype("f4")).astype("f2")
        else:
            expected = operation(a, b)
        equal(operation(Tensor(a), Tensor(b)), expected)


def test_remainder_is_exact_over_the_whole_range():
    random = np.random.default_rng(1)
    a = np.ldexp(random.normal(size=300), random.integers(-120, 120, 300)).astype("f4")
    b = np.ldexp(random.normal(size=300), random.integers(-120, 120, 300)).astype("f4")
    equal(Tensor(a).fmod(Tensor(b)), np.fmod(a, b))
    a, b = (np.ldexp(random.normal(size=100), random.integers(-900, 900, 100)) for _ in range(2))
    equal(Tensor(a).fmod(Tensor(b)), np.fmod(a, b))


@pytest.mark.parametrize("operation", [operator.floordiv, operator.mod])
def test_integer_division_never_traps(operation):
    a, b = INTEGER_PAIRS
    with np.errstate(all="ignore"):
        equal(operation(Tensor(a), Tensor(b)), operation(a, b))


@pytest.mark.parametrize(
    "operation",
    [
        operator.add,
        operator.sub,
        operator.mul,
        operator.and_,
        operator.or_,
        operator.xor,
    ],
)
@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
def test_integers_wrap(operation, dtype):
    info = np.iinfo(dtype)
    values = np.array([info.min, info.min + 1, 0, 1, info.max - 1, info.max], dtype)
    a, b = np.meshgrid(values, values)
    with np.errstate(all="ignore"):
        equal(operation(Tensor(a), Tensor(b)), operation(a, b))


@pytest.mark.parametrize("dtype", ["i4", "u4", "i1", "u8"])
def test_shifts_follow_numpy(dtype):
    bits = np.dtype(dtype).itemsize * 8
    a = np.array([1, 5, np.iinfo(dtype).max, np.iinfo(dtype).min], dtype)
    for count in (0, 1, bits - 1, bits, bits + 3):
        b = np.full(4, count, dtype)
        equal(Tensor(a) << Tensor(b), a << b)
        equal(Tensor(a) >> Tensor(b), a >> b)


REFLECTED = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.floordiv,
    operator.mod,
    operator.pow,
]


@pytest.mark.parametrize("operation", REFLECTED)
def test_reflected_operators(operation):
    a = np.array([1.0, 2.0, 4.0], "f4")
    np.testing.assert_allclose(operation(2.0, Tensor(a)).numpy(), operation(np.float32(2), a))
    np.testing.assert_allclose(operation(a, Tensor(a)).numpy(), operation(a, a))


ROOT_OF_HALF = Fraction(math.isqrt(2 * 10**80), 2 * 10**40)


def exact_gelu(x):
    """x Φ(x), the rounding of x / sqrt 2 corrected to first order."""
    z = x * math.sqrt(0.5)
    rest = float(Fraction(x) * ROOT_OF_HALF - Fraction(z))
    slope = 2 / math.sqrt(math.pi) * math.exp(-z * z)
    return 0.5 * x * (math.erfc(-z) + slope * rest)


FUNCTIONS = {
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "expm1": np.expm1,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "sqrt": np.sqrt,
    "tanh": np.tanh,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "erf": np.vectorize(math.erf),
    "erfc": np.vectorize(math.erfc),
    "softplus": lambda x: np.logaddexp(0, x),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": np.vectorize(exact_gelu),
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "relu": lambda x: np.maximum(x, 0),
    "logsigmoid": lambda x: -np.logaddexp(0, -x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_functions_are_within_their_bound(name, dtype):
    random = np.random.default_rng(2)
    x = np.concatenate([random.normal(0, s, 200) for s in (1e-3, 0.3, 1, 5, 20)]).astype(dtype)
    if name in ("sqrt", "log", "log2", "log10", "rsqrt"):
        x = abs(x) + np.asarray(1e-5, dtype)
    if name == "log1p":
        x = np.maximum(x, -0.999).astype(dtype)
    with np.errstate(all="ignore"):
        expected = FUNCTIONS[name](x.astype("f8")).astype("f8")
    actual = getattr(Tensor(x), name)().numpy().astype("f8")
    bound = (6 if dtype == "float32" else 20) * np.finfo(dtype).eps
    np.testing.assert_allclose(actual, expected, rtol=bound, atol=np.finfo(dtype).tiny)


@pytest.mark.parametrize("name", ["exp", "tanh", "gelu", "sigmoid", "softplus", "erf"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_functions_of_half_precision_round_once(name, dtype):
    x = Tensor(np.linspace(-4, 4, 301, dtype="f4")).cast(dtype)
    wide = getattr(x.float(), name)().cast(dtype).float().numpy()
    result = getattr(x, name)()
    assert result.dtype.name == dtype
    np.testing.assert_array_equal(result.float().numpy(), wide)


@pytest.mark.parametrize("name", ["floor", "ceil", "trunc", "round", "sign"])
def test_rounding_keeps_the_sign_of_zero_and_nan(name):
    x = np.array(
        [0.5, 1.5, 2.5, -0.5, -1.5, 8388609.0, 0.49999997, -0.0, 1e30, np.inf, np.nan, -3.7, 3.7],
        "f4",
    )
    function = getattr(np, name)
    np.testing.assert_array_equal(getattr(Tensor(x), name)().numpy(), function(x))
    assert getattr(Tensor(INTEGERS), name)().dtype is dtypes.int32


def test_predicates():
    for name in ("isnan", "isinf", "isfinite"):
        equal(getattr(Tensor(SPECIAL), name)(), getattr(np, name)(SPECIAL))
    equal(Tensor(SPECIAL).abs(), np.abs(SPECIAL))
    equal(Tensor(SPECIAL).clamp(-1, 2), np.clip(SPECIAL, np.float32(-1), np.float32(2)))


def test_pow_is_ieee():
    a, b = PAIRS
    with np.errstate(all="ignore"):
        expected = np.power(a.astype("f8"), b.astype("f8")).astype("f4")
    np.testing.assert_allclose((Tensor(a) ** Tensor(b)).numpy(), expected, rtol=1e-6)
    equal(Tensor([2, -3, 5]) ** 3, np.array([8, -27, 125], "i4"))
    with pytest.raises(DTypeError, match="power -1"):
        Tensor([1, 2]) ** -1


PROMOTIONS = [
    ("int32", 1, "int32"),
    ("int32", 1.5, "float32"),
    ("uint8", 1, "uint8"),
    ("float16", 1.5, "float16"),
    ("bool", 1, "int32"),
    ("bool", True, "bool"),
    ("int64", 2.0, "float32"),
    ("bfloat16", 3, "bfloat16"),
    ("float64", 1, "float64"),
]


@pytest.mark.parametrize(("dtype", "number", "expected"), PROMOTIONS)
def test_python_numbers_are_weak(dtype, number, expected):
    assert (Tensor.ones(2, dtype=dtype) * number).dtype.name == expected


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("int8", "uint8", "int16"),
        ("int32", "float16", "float16"),
        ("float16", "bfloat16", "float32"),
        ("uint32", "int32", "int64"),
        ("bool", "int8", "int8"),
        ("float32", "float64", "float64"),
    ],
)
def test_tensors_promote_by_the_lattice(left, right, expected):
    result = Tensor.ones(2, dtype=left) + Tensor.ones(2, dtype=right)
    assert result.dtype.name == expected
    np.testing.assert_array_equal(result.float().numpy(), [2, 2])


def test_numbers_that_do_not_fit_raise():
    with pytest.raises(DTypeError, match="300 does not fit uint8"):
        Tensor([1], dtype="uint8") + 300
    with pytest.raises(DTypeError, match="does not fit int32"):
        Tensor([2**40])
    equal(
        Tensor([1, -2], dtype=dtypes.int64) + 3_000_000_000,
        np.array([3_000_000_001, 2_999_999_998]),
    )


@pytest.mark.parametrize(
    "shapes", [((3, 1), (1, 4)), ((2, 3), ()), ((1,), (5, 1, 2)), ((0, 3), (1, 3)), ((1, 1), (1,))]
)
def test_broadcasting(shapes):
    a, b = (np.random.default_rng(3).normal(size=s).astype("f4") for s in shapes)
    equal(Tensor(a) - Tensor(b), a - b)
    equal(
        Tensor(a)[..., ::-1] * Tensor(b) if a.ndim else Tensor(a) * Tensor(b),
        a[..., ::-1] * b if a.ndim else a * b,
    )


def test_where():
    a = np.array([1.0, -2.0, 3.0], "f4")
    x = Tensor(a)
    equal((x > 0).where(x, np.nan), np.where(a > 0, a, np.float32(np.nan)))
    equal((x > 0).where(1, 0), np.array([1, 0, 1], "i4"))
    equal((x > 0).where(x, Tensor([1, 2, 3])), np.array([1, 2, 3], "f4"))
    with pytest.raises(DTypeError, match="chooses by a bool"):
        x.where(1, 2)


CASTS = [
    "bool",
    "int8",
    "uint8",
    "int16",
    "int32",
    "uint32",
    "int64",
    "float16",
    "float32",
    "float64",
]


@pytest.mark.parametrize("target", CASTS)
@pytest.mark.parametrize("source", CASTS)
def test_cast_of_values_in_range(source, target):
    x = np.array([0, 1, 2, 100]).astype(source)
    equal(Tensor(x).cast(target), x.astype(target))


def test_cast_of_special_floats():
    x = Tensor([math.nan, math.inf, -math.inf, 3e9, -3e9, 300.7, -1.5])
    assert x.cast("int32").tolist() == [0, 2**31 - 1, -(2**31), 2**31 - 1, -(2**31), 300, -1]
    assert x.cast("uint8").tolist() == [0, 255, 0, 255, 0, 44, 255]
    assert x.cast("bool").tolist() == [True] * 7


def test_bitcast_between_sizes():
    x = np.array([[1.0, -2.0], [np.nan, 1e38]], "f4")
    equal(Tensor(x).bitcast(dtypes.uint8), x.view("u1"))
    equal(Tensor(x.view("u1")).bitcast(dtypes.uint32), x.view("u4"))
    equal((Tensor(x) * 2).bitcast(dtypes.int64), (x * 2).view("i8"))
    with pytest.raises(DTypeError, match="whole number"):
        Tensor(x[:, :1].copy()).bitcast(dtypes.float64)


def test_logical_operations():
    a, b = Tensor([0, 1, 2]), Tensor([1.0, 0.0, -3.0])
    assert a.logical_and(b).tolist() == [False, False, True]
    assert a.logical_or(b).tolist() == [True, True, True]
    assert a.logical_xor(b).tolist() == [True, True, False]
    assert a.logical_not().tolist() == [True, False, False]
    assert (~Tensor([True, False])).tolist() == [False, True]
    assert (~a).tolist() == [-1, -2, -3]


def test_mistakes_raise_at_the_call():
    with pytest.raises(ShapeError, match=r"\(3,\).*\(4,\)|do not broadcast"):
        Tensor([1, 2, 3]) + Tensor([1, 2, 3, 4])
    with pytest.raises(DTypeError, match="bool tensors have no difference"):
        Tensor([True]) - Tensor([True])
    with pytest.raises(DTypeError, match="defined for integers"):
        Tensor([1.0]) & 1
    with pytest.raises(TypeError, match="no dtype 'float33'"):
        Tensor([1], dtype="float33")
    with pytest.raises(DeviceError, match="GPUX"):
        Tensor([1], device="GPUX")
