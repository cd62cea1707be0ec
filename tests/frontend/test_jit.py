"""jit: replays give what the function gives, read closures anew, and write what it assigns."""

import gc

import numpy as np
import pytest

from core import Device
from core.frontend import JitError, Tensor, jit


def test_replays_follow_the_arguments():
    traced = []

    @jit
    def f(x, y, scale):
        traced.append(1)
        return (x + y) * scale

    for k in range(4):
        x, y = Tensor([1.0 * k, 2.0]), Tensor([3.0, k * 1.0])
        np.testing.assert_allclose(f(x, y, 2).numpy(), [2 * (k + 3), 2 * (k + 2)])
    assert len(traced) == 1
    assert f(x, y, 3).tolist() == [18, 15]
    assert f(Tensor([1.0]), Tensor([1.0]), 2).tolist() == [4]
    assert f(Tensor([1]), Tensor([1]), 2).tolist() == [4]
    assert len(traced) == 4


def test_unrealised_arguments_and_structures():
    f = jit(lambda pair, extra: {"sum": pair[0] + extra["k"], "both": [pair[0], pair[1] * 2]})
    for k in range(3):
        out = f((Tensor([k]) + 1, Tensor(float(k))), {"k": Tensor([10])})
        assert out["sum"].tolist() == [k + 11]
        assert [t.tolist() for t in out["both"]] == [[k + 1], 2.0 * k]


def test_earlier_results_do_not_change():
    f = jit(lambda x: (x + 1).realize())
    results = [f(Tensor([float(k)])) for k in range(5)]
    assert [r.item() for r in results] == [1, 2, 3, 4, 5]


def test_outputs_become_inputs():
    f = jit(lambda x, w: x * 2 + w)
    x, w, expected = Tensor([1.0]), Tensor([0.5]), 1.0
    for _ in range(6):
        x, expected = f(x, w), expected * 2 + 0.5
        assert x.item() == expected


def test_closures_are_read_through_their_tensor():
    w, lazy = Tensor([1.0]), Tensor([2.0]) * 3
    f = jit(lambda x: x * w + lazy)
    assert f(Tensor([1.0])).item() == 7
    w.assign(Tensor([5.0]))
    assert f(Tensor([1.0])).item() == 11
    assert f(Tensor([2.0])).item() == 16


def test_a_value_computed_before_keeps_the_old_closure():
    w = Tensor([1.0])
    old = w * 2
    f = jit(lambda x: x + old)
    assert f(Tensor([0.0])).item() == 2
    w.assign(Tensor([5.0]))
    assert f(Tensor([0.0])).item() == 2


def test_assignments_reach_closures_and_arguments():
    state = Tensor([0.0])

    @jit
    def step(x, buffer):
        state.assign(state * 0.5 + x)
        buffer[:-1] = buffer[1:]
        buffer[-1:] = x
        return state * 1

    buffer, expected, rows = Tensor([0.0, 0.0, 0.0]), 0.0, [0.0] * 3
    for k in range(6):
        r = step(Tensor([float(k)]), buffer)
        expected, rows = expected * 0.5 + k, [*rows[1:], float(k)]
        assert r.item() == state.item() == expected
        assert buffer.tolist() == rows
        assert len(step._traces) == 1


def test_training_step():
    x, y = Tensor([[1.0, 2.0], [3.0, 4.0]]), Tensor([[1.0], [2.0]])
    results = []
    for wrap in (lambda f: f, jit):
        w = Tensor([[0.1], [0.2]], requires_grad=True)

        def step(x, y, w=w):
            w.grad = None
            loss = ((x @ w - y) ** 2).mean()
            loss.backward()
            w.assign(w - w.grad * 0.01)
            return loss

        step = wrap(step)
        results.append([step(x, y).item() for _ in range(5)] + w.tolist() + w.grad.tolist())
    np.testing.assert_allclose(np.ravel(results[0][:5]), np.ravel(results[1][:5]), rtol=1e-6)
    np.testing.assert_allclose(results[0][5:], results[1][5:], rtol=1e-6)


def test_gradients_accumulate_as_without():
    w = Tensor([2.0], requires_grad=True)

    @jit
    def f(x):
        (x * w * w).sum().backward()

    for k in range(1, 4):
        f(Tensor([1.0]))
        assert w.grad.item() == 4 * k


def test_random_numbers_differ_from_replay_to_replay():
    f = jit(lambda x: x + Tensor.rand(3))
    Tensor.manual_seed(7)
    traced = [f(Tensor([0.0])).tolist() for _ in range(3)]
    after = Tensor.rand(3).tolist()
    Tensor.manual_seed(7)
    plain = [Tensor.rand(3).tolist() for _ in range(4)]
    assert [*traced, after] == plain


@pytest.mark.parametrize(
    "read", [lambda x: x.sum().item(), lambda x: x.numpy(), bool, lambda x: x.tolist()]
)
def test_reading_a_value_raises_and_restores(read):
    w = Tensor([1.0])

    @jit
    def f(x):
        w.assign(x)
        read(x)
        return x

    with pytest.raises(JitError, match=r"test_jit\.py:\d+"):
        f(Tensor([2.0]))
    assert w.item() == 1
    assert Tensor([3.0]).item() == 3


def test_repr_inside_a_trace_shows_no_value():
    seen = []
    f = jit(lambda x: (seen.append(repr(x)), x + 1)[1])
    f(Tensor([1.0]))
    assert seen == [f"Tensor(shape=(1,), dtype=float32, device={Device.DEFAULT}, not computed)"]


def test_training_mode_is_part_of_the_signature():
    f = jit(lambda x: x.dropout(0.5))
    x = Tensor.ones(100)
    assert f(x).sum().item() == 100
    with Tensor.train():
        assert set(f(x).tolist()) == {0.0, 2.0}


def test_methods_and_nesting():
    class Layer:
        def __init__(self, w):
            self.w = Tensor([w])

        @jit
        def __call__(self, x):
            return x * self.w

    a, b = Layer(2.0), Layer(3.0)
    outer = jit(lambda x: a(x) + b(x))
    for k in range(3):
        assert (a(Tensor([1.0 * k])).item(), outer(Tensor([1.0 * k])).item()) == (2 * k, 5 * k)


def test_a_call_leaves_no_cycle():
    f = jit(lambda x: (x * 2).realize())
    x = Tensor([1.0, 2.0])
    for _ in range(3):
        f(x).numpy()
    gc.collect()
    gc.disable()
    try:
        before = len(gc.get_objects())
        for _ in range(50):
            f(x).numpy()
        assert gc.collect() < 50  # a cycle per call would leave more
        assert len(gc.get_objects()) - before < 400
    finally:
        gc.enable()
