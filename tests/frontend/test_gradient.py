"""Gradients: finite differences in float64, closed forms, second order."""

import gc
import weakref

import numpy as np
import pytest

from core.foundation.errors import DTypeError, ShapeError
from core.frontend import Tensor
from core.frontend.gradient import compute_gradient
from core.ir import Op, UOp, dtypes, toposort

RANDOM = np.random.default_rng(0)


def numeric(function, arrays, k, step=1e-5):
    """Central differences of sum(function * weights)."""
    result = np.zeros_like(arrays[k])
    for at in np.ndindex(*arrays[k].shape):
        values = []
        for sign in (1, -1):
            moved = [a.copy() for a in arrays]
            moved[k][at] += sign * step
            values.append(function(*map(Tensor, moved)).item())
        result[at] = (values[0] - values[1]) / (2 * step)
    return result


def check(function, *arrays, tolerance=1e-6):
    arrays = [np.asarray(a, "f8") for a in arrays]
    weights = Tensor(RANDOM.normal(size=function(*map(Tensor, arrays)).shape))

    def total(*tensors):
        return (function(*tensors) * weights).sum()

    tensors = [Tensor(a) for a in arrays]
    for k, g in enumerate(total(*tensors).gradient(*tensors)):
        assert g.shape == arrays[k].shape
        np.testing.assert_allclose(g.numpy(), numeric(total, arrays, k), tolerance, tolerance)


X = RANDOM.normal(size=(2, 3))
POSITIVE = abs(X) + 0.5
FUNCTIONS = [
    "exp",
    "exp2",
    "expm1",
    "sin",
    "cos",
    "tan",
    "tanh",
    "sigmoid",
    "erf",
    "erfc",
    "silu",
    "gelu",
    "softplus",
    "relu",
    "elu",
    "selu",
    "celu",
    "mish",
    "leaky_relu",
    "abs",
    "sinh",
    "cosh",
    "logsigmoid",
    "softsign",
    "square",
    "reciprocal",
    "softmax",
    "log_softmax",
    "logsumexp",
    "cumsum",
    "cumprod",
    "sum",
    "mean",
    "prod",
    "max",
    "min",
    "var",
    "std",
    "logcumsumexp",
    "cummax",
    "layernorm",
    "hardswish",
    "quick_gelu",
    "relu6",
    "clone",
]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name):
    check(lambda x: getattr(x, name)(), X)


@pytest.mark.parametrize("name", ["log", "log2", "log10", "log1p", "sqrt", "rsqrt"])
def test_function_of_positive(name):
    check(lambda x: getattr(x, name)(), POSITIVE)


BINARY = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "pow": lambda a, b: a**b,
    "max": lambda a, b: a.maximum(b),
    "min": lambda a, b: a.minimum(b),
    "where": lambda a, b: (a > b).where(a, b * 2),
    "mod": lambda a, b: a % b,
    "floordiv": lambda a, b: a // b,
    "copysign": lambda a, b: a.copysign(b),
    "power 3": lambda a, b: a**3 + b**-1 + a**2.5,
    "reflected": lambda a, b: 2 / a + 2**b - (1 - b),
}


@pytest.mark.parametrize("name", BINARY)
def test_binary_with_broadcasting(name):
    check(BINARY[name], POSITIVE, abs(RANDOM.normal(size=(3,))) + 0.3)


MOVES = {
    "reshape": lambda x: x.reshape(3, 2),
    "permute": lambda x: x.T,
    "flip": lambda x: x.flip(1),
    "expand": lambda x: x.reshape(2, 1, 3).expand(4, 2, 5, 3),
    "pad": lambda x: x.pad((1, 2, 0, -1)),
    "shrink": lambda x: x[:, 1:],
    "step": lambda x: x[:, ::2],
    "back": lambda x: x[::-1, ::-2],
    "int": lambda x: x[1],
    "cat": lambda x: x.cat(x * 2, x[:1]),
    "stack": lambda x: x.stack(x * 3, dim=2),
    "reflect": lambda x: x.pad((2, 1), mode="reflect"),
    "roll": lambda x: x.roll(1, 1),
    "tril": lambda x: x.tril(),
    "repeat": lambda x: x.repeat(2, 3),
    "cast": lambda x: x.cast("float64"),
    "array": lambda x: x[[0, 1, 1]],
    "arrays": lambda x: x[[0, 1, 1], [2, 0, 0]],
    "gather": lambda x: x.gather(1, Tensor([[0, 0, 2, 1]])),
    "diagonal": lambda x: x[:2, :2].diagonal(),
    "scatter": lambda x: Tensor.zeros(2, 4, dtype="float64").scatter(
        1, Tensor([[3, 0], [1, 1]]), x
    ),
    "scatter add": lambda x: x.scatter(1, Tensor([[2, 2]]), x * 3, reduce="add"),
    "contiguous": lambda x: x.contiguous() * 2,
    "clamp": lambda x: x.clamp(-0.3, 0.4),
    "contiguous backward": lambda x: x.contiguous_backward() * x,
    "layernorm": lambda x: x.layernorm(),
    "normalize": lambda x: x.normalize(),
}


@pytest.mark.parametrize("name", MOVES)
def test_movement(name):
    check(MOVES[name], X)


PRODUCTS = {
    "matmul": (lambda a, b: a @ b, (2, 3), (3, 4)),
    "vector": (lambda a, b: a @ b, (3,), (2, 3, 4)),
    "einsum": (lambda a, b: Tensor.einsum("bij,kj->bik", a, b), (2, 2, 3), (4, 3)),
    "conv": (lambda a, b: a.conv2d(b), (1, 2, 4, 4), (2, 2, 3, 2)),
    "conv strided": (
        lambda a, b: a.conv2d(b, stride=2, padding=1, dilation=(1, 2)),
        (1, 2, 5, 6),
        (1, 2, 2, 2),
    ),
    "conv groups": (lambda a, b: a.conv2d(b, groups=2), (1, 2, 3, 3), (2, 1, 2, 2)),
    "transposed": (
        lambda a, b: a.conv_transpose2d(b, stride=2, padding=1, output_padding=1),
        (1, 2, 3, 2),
        (2, 1, 3, 2),
    ),
    "attention": (
        lambda a, b: a.scaled_dot_product_attention(b, b * 2, is_causal=True),
        (3, 2),
        (3, 2),
    ),
    "bce": (lambda a, b: a.binary_crossentropy_logits(b.sigmoid()), (4,), (4,)),
    "ce": (lambda a, b: (a @ b).cross_entropy(Tensor([0, 2]), label_smoothing=0.1), (2, 3), (3, 3)),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_product(name):
    function, *shapes = PRODUCTS[name]
    check(function, *(RANDOM.normal(size=s) for s in shapes))


@pytest.mark.parametrize(
    "pool",
    [
        lambda x: x.max_pool2d((2, 2)),
        lambda x: x.max_pool2d((3, 3), 2, padding=1),
        lambda x: x.avg_pool2d((3, 3), 1),
        lambda x: x.avg_pool2d((3, 3), 3, ceil_mode=True),
    ],
)
def test_pooling(pool):
    check(pool, RANDOM.permutation(50).reshape(1, 2, 5, 5) / 7)


SECOND = {
    "polynomial": lambda x: x * x * x * x,
    "exp": lambda x: (x * 2).exp(),
    "tanh": lambda x: x.tanh(),
    "sigmoid": lambda x: x.sigmoid(),
    "gelu": lambda x: x.gelu(),
    "softmax": lambda x: x.softmax() ** 2,
    "division": lambda x: 1 / (x + 5),
    "power": lambda x: (x + 5) ** 2.5,
    "prod": lambda x: x.prod(1),
    "logsumexp": lambda x: x.logsumexp(1),
    "sqrt": lambda x: (x + 5).sqrt(),
    "std": lambda x: x.std(1),
    "gather": lambda x: x[[0, 0, 1]] ** 3,
    "matmul": lambda x: (x @ x.T) ** 2,
    "step": lambda x: x[:, ::2] ** 3,
    "cumsum": lambda x: x.cumsum(1) ** 3,
    "conv": lambda x: x.reshape(1, 1, 2, 3).conv2d(x[:, :2].reshape(1, 1, 2, 2)) ** 2,
    "strided conv": lambda x: (
        x.reshape(1, 1, 2, 3).conv2d(x[:1, :2].reshape(1, 1, 1, 2), stride=2) ** 3
    ),
    "max": lambda x: x.max(1) ** 3,
    "log": lambda x: (x + 5).log(),
    "erf": lambda x: x.erf(),
}


@pytest.mark.parametrize("name", SECOND)
def test_second_order(name):
    w = RANDOM.normal(size=X.shape)

    def first(x):
        (g,) = (SECOND[name](x)).sum().gradient(x)
        return g * Tensor(w)

    check(first, X, tolerance=1e-5)


def gradient(function, *arrays):
    tensors = [Tensor(np.asarray(a, "f4")) for a in arrays]
    return [g.tolist() for g in function(*tensors).gradient(*tensors)]


def test_conventions():
    assert gradient(lambda x: x.max(), [1.0, 3.0, 3.0]) == [[0, 0.5, 0.5]]
    assert gradient(lambda x: x.maximum(2.0).sum(), [1.0, 2.0, 3.0]) == [[0, 0.5, 1]]
    assert gradient(lambda x: x.abs().sum(), [-2.0, 0.0, 3.0]) == [[-1, 0, 1]]
    assert gradient(lambda x: x.relu().sum(), [-2.0, 0.0, 3.0]) == [[0, 0, 1]]
    assert gradient(lambda x: x.prod(), [0.0, 2.0, 5.0]) == [[10, 0, 0]]
    assert gradient(lambda x: x.prod(), [0.0, 0.0, 5.0]) == [[0, 0, 0]]
    assert gradient(lambda x: x.round().sum() + x.sign().sum() + x, [1.7]) == [[1]]
    safe = gradient(
        lambda x: (x > 0).where((x > 0).where(x, 1.0).sqrt(), 0.0).sum(), [-4.0, 9.0, 0.0]
    )
    np.testing.assert_allclose(safe, [[0, 1 / 6, 0]], rtol=1e-6)


def test_products_of_many_factors():
    x = np.ones(300)
    x[[3, 7]] = [0, 2]
    expected = np.zeros(300)
    expected[3] = 2
    assert gradient(lambda x: x.prod(), x) == [expected.tolist()]


def test_saturated_functions_have_finite_gradients():
    x = [-120.0, 120.0, 0.0]
    assert gradient(lambda t: t.sigmoid().sum(), x) == [[0, 0, 0.25]]
    assert gradient(lambda t: t.tanh().sum(), x) == [[0, 0, 1]]
    assert gradient(lambda t: t.softplus().sum(), x) == [[0, 1, 0.5]]
    assert gradient(lambda t: t.elu().sum(), x) == [[0, 1, 1]]


def test_half_precision_gradients():
    x = Tensor([1.0, 2.0], dtype="float16")
    (g,) = (x.exp() * 3).sum().gradient(x)
    assert g.dtype is dtypes.float16
    np.testing.assert_array_equal(
        g.numpy(), (np.exp([1.0, 2.0]).astype("f2") * 0 + np.float16([8.1548455, 22.167168]))
    )


def test_backward_fills_leaves():
    w, frozen = Tensor([1.0, 2.0], requires_grad=True), Tensor([3.0, 4.0], requires_grad=False)
    x, unused = Tensor([5.0, 6.0]), Tensor([1.0])
    hidden = w * frozen
    (hidden * x).sum().backward()
    assert w.grad.tolist() == [15, 24]
    assert x.grad.tolist() == [3, 8]
    assert frozen.grad is None
    assert unused.grad is None
    assert hidden.grad is None
    (w * 2).sum().backward()
    assert w.grad.tolist() == [17, 26]


def test_equal_constants_are_different_leaves():
    a, b = Tensor.ones(3), Tensor.ones(3)
    (a * b * 2).sum().backward()
    assert a.grad.tolist() == b.grad.tolist() == [2, 2, 2]
    x = Tensor(3.0)
    y = x * x + 3.0 * x
    assert y.gradient(x)[0].item() == 9
    e = Tensor.eye(2, requires_grad=True)
    assert (e * Tensor.eye(2)).sum().gradient(e)[0].tolist() == [[1, 0], [0, 1]]


def test_leaves_realised_after_use():
    w = Tensor.rand(3)
    y = (w * w).sum()
    w.realize()
    y.backward()
    np.testing.assert_allclose(w.grad.numpy(), 2 * w.numpy(), rtol=1e-6)
    x = Tensor([2.0]) * 3
    z = x * x
    x.realize()
    assert z.gradient(x)[0].tolist() == [12]


def test_reading_keeps_the_graph():
    w = Tensor([2.0, 3.0], requires_grad=True)
    loss = (w * w).sum()
    total = Tensor(0.0)
    total += loss
    assert (loss.item(), total.item()) == (13, 13)
    assert "13." in repr(total)
    (loss + total).backward()
    assert w.grad.tolist() == [8, 12]


def test_assigned_state_is_computed_with_what_is_read():
    state, other = Tensor([0.0]), Tensor([1.0])
    for k in range(3):
        state += 1
        (other * k).item()
        assert state.uop.op is Op.BUFFER
    assert state.item() == 3


def test_given_gradients_detach_and_copies():
    x = Tensor([1.0, 2.0])
    y = x * 3
    assert y.gradient(x, gradient=Tensor([1.0, 10.0]))[0].tolist() == [3, 30]
    assert (x.detach() * x).sum().gradient(x)[0].tolist() == [1, 2]
    (z,) = y.sum().gradient(Tensor([1.0]), materialize_grads=True)
    assert z.tolist() == [0]


def test_mistakes():
    x = Tensor([1.0, 2.0])
    with pytest.raises(ShapeError, match="needs gradient="):
        (x * 2).backward()
    with pytest.raises(DTypeError, match="int32"):
        Tensor([1, 2]).sum().backward()
    with pytest.raises(DTypeError, match="int32"):
        x.sum().gradient(Tensor([1]))
    with pytest.raises(ValueError, match="does not depend"):
        x.sum().gradient(Tensor([1.0]))
    with pytest.raises(ShapeError, match="has shape"):
        (x * 2).gradient(x, gradient=Tensor([1.0]))


@pytest.mark.parametrize("length", [2_000, 20_000])
def test_long_chains_are_linear(length):
    x = y = UOp.new_buffer("ANY", dtypes.float32, (4,))
    for k in range(length):
        y = y + x if k % 2 else y * 0.999
    found = compute_gradient(y, UOp.const(1.0, dtypes.float32).expand((4,)), [x])
    assert len(toposort(found[x])) < 3 * length


def test_a_finished_graph_is_collectable():
    gc.disable()
    try:
        x = Tensor([1.0, 2.0])
        y = (x * x).tanh()
        (g,) = y.sum().gradient(x)
        g.numpy()
        node = weakref.ref(y.uop)
        del y, g, x
        assert node() is None
    finally:
        gc.enable()


def test_reverse_mode_visits_only_what_leads_to_a_target():
    x, w = Tensor([1.0]), Tensor([2.0])
    found = compute_gradient((x.exp() * w).uop, UOp.const(1.0, dtypes.float32), [w.uop])
    assert set(found) == {w.uop}
    assert sum(n.op is Op.EXP for n in toposort(found[w.uop])) == 1


SUMMING = {
    "expand": lambda x: x.expand(5000, 2),
    "take": lambda x: x[Tensor(np.zeros(5000, "i4"))],
    "gather": lambda x: x.gather(0, Tensor(np.zeros(5000, "i4"))),
    "bias": lambda x: Tensor.ones(5000, 2, dtype=x.dtype).linear(
        Tensor.ones(2, 2, dtype=x.dtype), x),
}


@pytest.mark.parametrize("name", SUMMING)
@pytest.mark.parametrize(("dtype", "total"), [("float16", 5000), ("bfloat16", 4992)])
def test_sums_of_small_gradients_do_not_stall(name, dtype, total):
    """In float16 2048 + 1 is 2048."""
    x = Tensor([0.0, 0.0]).cast(dtype)
    result = SUMMING[name](x)
    (g,) = result.gradient(x, gradient=Tensor.ones(*result.shape, dtype=dtype))
    assert g.float().tolist()[0] == total
