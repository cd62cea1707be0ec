"""`function`: calls compute what the plain function computes, and equal ones compile once."""

import numpy as np
import pytest

from core import Tensor, dtypes, function, jit, nn
from core.compiler.compile import STATISTICS
from core.frontend import FunctionError, JitError
from core.ir import Op, parse, text, toposort

MODES = pytest.mark.parametrize("precompile", [False, True], ids=["inlined", "unit"])


def values(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def compiled(action):
    before = STATISTICS.kernels
    result = action()
    return result, STATISTICS.kernels - before


@MODES
def test_a_call_is_one_node_and_gives_the_value(precompile):
    double = function(lambda x: x * 2 + 1, precompile=precompile) if not precompile else function(
        precompile=True)(lambda x: x * 2 + 1)
    x = Tensor(values(3, 4))
    y = double(x)
    assert y.uop.op is Op.CALL
    assert y.shape == (3, 4)
    assert parse(text(y.uop)).op is Op.CALL
    np.testing.assert_array_equal(y.numpy(), x.numpy() * 2 + 1)


@MODES
def test_results_in_containers_and_inputs_in_containers_each_once(precompile):
    @function(precompile=precompile)
    def both(pair, options, scale):
        return {"sum": pair[0] + pair[1], "rest": [pair[0] * options["w"], scale]}

    x, w = Tensor(values(5)), Tensor(values(5, seed=1))
    out = both((x, x), {"w": w}, 3)
    (call,) = {n for n in toposort(out["sum"].uop) if n.op is Op.CALL}
    assert len(call.src) == 3  # the body, x once, w
    np.testing.assert_array_equal(out["sum"].numpy(), 2 * x.numpy())
    np.testing.assert_array_equal(out["rest"][0].numpy(), x.numpy() * w.numpy())
    assert out["rest"][1] == 3


@MODES
def test_other_shapes_dtypes_and_static_values_trace_again(precompile):
    traced = []

    @function(precompile=precompile)
    def scaled(x, k, negate=False):
        traced.append(x.shape)
        return -(x * k) if negate else x * k

    a, b = Tensor(values(3)), Tensor(values(4))
    for _ in range(2):
        np.testing.assert_array_equal(scaled(a, 2).numpy(), a.numpy() * 2)
        np.testing.assert_array_equal(scaled(b, 2).numpy(), b.numpy() * 2)
        np.testing.assert_array_equal(scaled(a, 3).numpy(), a.numpy() * 3)
        np.testing.assert_array_equal(scaled(a, 3, negate=True).numpy(), a.numpy() * -3)
        assert scaled(a.double(), 2).dtype is dtypes.float64
    assert len(traced) == 5


@MODES
def test_what_a_closure_reaches_is_read_at_each_call(precompile):
    w = Tensor([2.0])

    @function(precompile=precompile)
    def times(x):
        return x * w

    x = Tensor([1.0, 3.0])
    assert times(x).tolist() == [2.0, 6.0]
    w.assign(Tensor([5.0]))
    assert times(x).tolist() == [5.0, 15.0]
    w = Tensor([7.0])
    assert times(x).tolist() == [7.0, 21.0]


@MODES
def test_assigning_inside_gives_the_tensor_a_new_value(precompile):
    total = Tensor([0.0, 0.0])

    @function(precompile=precompile)
    def add(x):
        total.assign(total + x)
        return total * 10

    assert add(Tensor([1.0, 2.0])).tolist() == [10.0, 20.0]
    assert add(Tensor([1.0, 2.0])).tolist() == [20.0, 40.0]
    assert total.tolist() == [2.0, 4.0]


@MODES
def test_random_numbers_differ_from_call_to_call(precompile):
    Tensor.manual_seed(3)
    plain = [Tensor.rand(4).tolist() for _ in range(3)]
    Tensor.manual_seed(3)
    noise = function(precompile=precompile)(lambda x: x + Tensor.rand(4))
    zero = Tensor.zeros(4)
    assert [noise(zero).tolist() for _ in range(3)] == plain


class Block:
    """A layer with tensors as attributes."""

    def __init__(self, seed):
        self.w, self.b = Tensor(values(16, 16, seed=seed) / 4), Tensor(values(16, seed=-seed % 97))

    @function(precompile=True)
    def unit(self, x):
        return (x @ self.w + self.b).tanh() + x

    def plain(self, x):
        return (x @ self.w + self.b).tanh() + x


def test_compile_time_is_flat_in_depth():
    """Forward and backward of 4 and of 32 equal blocks are the same few programs."""
    def run(depth, call):
        blocks = [Block(k) for k in range(depth)]
        x = h = Tensor(values(8, 16))
        for block in blocks:
            h = call(block, h)
        loss = (h * h).mean()
        weights = [block.w for block in blocks]
        return [g.numpy() for g in loss.gradient(x, *weights)]

    shallow, first = compiled(lambda: run(4, lambda b, x: b.unit(x)))
    deep, more = compiled(lambda: run(32, lambda b, x: b.unit(x)))
    assert first <= 8
    assert more <= 1  # the mean's factor is the same: at most what the length of a sum changes
    for found, right in zip((*shallow, *deep), (*run(4, Block.plain), *run(32, Block.plain)),
                            strict=True):
        np.testing.assert_allclose(found, right, rtol=2e-4, atol=1e-6)


@MODES
def test_gradients_of_first_and_second_order(precompile):
    cube = function(precompile=precompile)(lambda x, y: (x * x * x * y, y * y))
    x, y = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])
    a, b = cube(x, y)
    loss = (a + b * 10).sum()
    gx, gy = loss.gradient(x, y)
    np.testing.assert_allclose(gx.numpy(), [9.0, 48.0])
    np.testing.assert_allclose(gy.numpy(), [61.0, 88.0])
    np.testing.assert_allclose(gx.sum().gradient(x)[0].numpy(), [18.0, 48.0])
    np.testing.assert_allclose(gx.sum().gradient(y)[0].numpy(), [3.0, 12.0])


@MODES
def test_functions_that_know_their_derivative_go_on_knowing_it(precompile):
    """The gradient of the polynomial inside tanh would be off by more."""
    body = function(precompile=precompile)(lambda x: x.tanh().sum())
    x = Tensor(np.linspace(-3, 3, 50, dtype=np.float32))
    (found,) = body(x).gradient(x)
    (right,) = x.tanh().sum().gradient(x)
    np.testing.assert_array_equal(found.numpy(), right.numpy())


@pytest.mark.parametrize("outer", [False, True])
@pytest.mark.parametrize("inner", [False, True])
def test_nested(inner, outer):
    @function(precompile=inner)
    def small(x, w):
        return (x * w).exp()

    @function(precompile=outer)
    def large(x, w):
        return small(x, w) + small(w, x * 2) * small(x + 1, w)

    def plain(x, w):
        return (x * w).exp() + (w * (x * 2)).exp() * ((x + 1) * w).exp()

    x, w = Tensor(values(6)), Tensor(values(6, seed=1))
    np.testing.assert_allclose(large(x, w).numpy(), plain(x, w).numpy(), rtol=1e-6)
    for found, right in zip(large(x, w).sum().gradient(x, w), plain(x, w).sum().gradient(x, w),
                            strict=True):
        np.testing.assert_allclose(found.numpy(), right.numpy(), rtol=1e-5)


@MODES
def test_under_jit(precompile):
    block = function(precompile=precompile)(lambda x, w: (x @ w).relu())
    weights = [Tensor(values(8, 8, seed=k)) for k in range(3)]
    rate = Tensor([0.5])

    @jit
    def step(x):
        h = x
        for w in weights:
            h = block(h, w)
        loss = h.sum() * rate
        for w, g in zip(weights, loss.gradient(*weights), strict=True):
            w.assign(w - g * 0.01)
        return loss

    copies = [w.numpy() for w in weights]
    for k in range(4):
        x = values(4, 8, seed=10 + k)
        found = step(Tensor(x)).item()
        layers, h = [], x
        for w in copies:
            layers.append(h)
            h = np.maximum(h @ w, 0)
        np.testing.assert_allclose(found, h.sum() / 2, rtol=1e-5)
        g = np.full_like(h, 0.5)
        for i in reversed(range(3)):
            g = g * (layers[i] @ copies[i] > 0)
            g, copies[i] = g @ copies[i].T, copies[i] - layers[i].T @ g * np.float32(0.01)
    for w, right in zip(weights, copies, strict=True):
        np.testing.assert_allclose(w.numpy(), right, rtol=1e-4, atol=1e-6)


@MODES
def test_a_gradient_of_the_users_own(precompile):
    seen = []

    def clipped(gradient, x, w):
        seen.append((gradient.shape, x.shape))
        return gradient.clamp(-1, 1) * w, None

    scale = function(precompile=precompile, grad_fxn=clipped)(lambda x, w: x * w)
    x, w = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])
    (g,) = (scale(x, w) * 100).sum().gradient(x)
    assert g.tolist() == [3.0, 4.0]
    assert seen == [((2,), (2,))]
    with pytest.raises(Exception, match="gave 1 gradients for 2 tensors"):
        function(grad_fxn=lambda g, x, w: g)(lambda x, w: x * w)(x, w).sum().gradient(x)


def test_losses_of_layers_train():
    model = nn.Linear(4, 2)
    forward = function(precompile=True)(lambda layer, x: layer(x).square().mean())
    parameters = [model.weight, model.bias]
    optimizer = nn.SGD(parameters, lr=0.1)
    x, losses = Tensor(values(16, 4)), []
    with Tensor.train():
        for _ in range(5):
            optimizer.zero_grad()
            loss = forward(model, x)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0] * 0.7


def test_recursion_is_refused_and_leaves_nothing_behind():
    @function
    def again(x):
        return again(x + 1)

    x = Tensor([1.0])
    for _ in range(2):
        with pytest.raises(FunctionError, match="again calls itself"):
            again(x)
    assert x.tolist() == [1.0]


def test_reading_inside_names_the_line():
    @function
    def reads(x):
        return x if x.item() > 0 else -x

    x = Tensor([1.0])
    with pytest.raises(JitError, match=r"test_function\.py:\d+ reads") as error:
        reads(x)
    assert "in reads(float32[1])" in error.value.__notes__
    assert (x + 1).tolist() == [2.0]


@pytest.mark.parametrize("args", [(), (1, 2, 3)])
def test_wrong_arity_is_named(args):
    def pair(x, y):
        return x + y

    with pytest.raises(TypeError, match=r"pair\(x, y\)"):
        function(pair)(*args)


def test_wrong_shapes_are_named():
    product = function(lambda x, w: x @ w)
    with pytest.raises(Exception, match="matmul") as error:
        product(Tensor(values(2, 3)), Tensor(values(2, 3)))
    assert "(float32[2, 3], float32[2, 3])" in error.value.__notes__[0]


def test_a_grad_may_not_be_set_inside():
    @function
    def backward(x):
        (x * 2).sum().backward()
        return x

    x = Tensor([1.0], requires_grad=True)
    with pytest.raises(FunctionError, match=r"\.grad"):
        backward(x)
    assert x.grad is None


def test_bodies_are_forgotten_in_the_end():
    add = function(lambda x, k: x + k)
    x = Tensor([1.0])
    for k in range(100):
        add(x, k)
    assert len(add._bodies) == 64
