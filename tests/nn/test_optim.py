"""Optimizers against their formulas in numpy, and what they compile and launch."""

import numpy as np
import pytest

from core import GlobalCounters, Tensor, dtypes, jit, nn
from core.compiler.compile import STATISTICS
from core.foundation.errors import CoreError, DTypeError, ShapeError

START = np.array([[1.0, -2.0, 3.0], [0.5, 0.0, -1.5]])
SCALE = np.array([[1.0, 2.0, 0.1], [3.0, -1.0, 0.5]])


def gradient(w):
    """Of (SCALE * w**2).sum()."""
    return 2 * SCALE * w


def steps_of(make, count=4, rates=None, dtype=dtypes.float32):
    """Parameters after each step of an optimizer on that loss."""
    w = Tensor(START, dtype=dtype)
    scale = Tensor(SCALE, dtype=dtype, requires_grad=False)
    optimizer = make([w])
    seen = []
    for k in range(count):
        if rates is not None:
            optimizer.lr = rates[k]
        optimizer.zero_grad()
        (scale * w * w).sum().backward()
        optimizer.step()
        seen.append(w.numpy())
    return seen


def sgd(w, rate, momentum=0.0, decay=0.0, nesterov=False):
    velocity = np.zeros_like(w)
    while True:
        g = gradient(w) + decay * w
        velocity = momentum * velocity + g
        w = w - rate * (g + momentum * velocity if nesterov else velocity)
        yield w


def adam(w, rate, betas=(0.9, 0.999), eps=1e-8, decay=0.0, decoupled=False):
    mean, square, step = np.zeros_like(w), np.zeros_like(w), 0
    while True:
        step += 1
        g = gradient(w) + (0 if decoupled else decay * w)
        mean = betas[0] * mean + (1 - betas[0]) * g
        square = betas[1] * square + (1 - betas[1]) * g * g
        first, second = mean / (1 - betas[0]**step), square / (1 - betas[1]**step)
        w = w * (1 - rate * decay if decoupled else 1) - rate * first / (np.sqrt(second) + eps)
        yield w


def lamb(w, rate, betas=(0.9, 0.999), eps=1e-6, decay=0.0):
    mean, square, step = np.zeros_like(w), np.zeros_like(w), 0
    while True:
        step += 1
        g = gradient(w)
        mean = betas[0] * mean + (1 - betas[0]) * g
        square = betas[1] * square + (1 - betas[1]) * g * g
        change = mean / (1 - betas[0]**step) / (np.sqrt(square / (1 - betas[1]**step)) + eps)
        change = change + decay * w
        w = w - rate * np.linalg.norm(w) / np.linalg.norm(change) * change
        yield w


def muon(w, rate, momentum=0.95, decay=0.1, nesterov=True, steps=5):
    mean = np.zeros_like(w)
    while True:
        g = gradient(w)
        mean = momentum * mean + (1 - momentum) * g
        ahead = momentum * mean + (1 - momentum) * g if nesterov else mean
        x = ahead / (np.linalg.norm(ahead) + 1e-7)
        for _ in range(steps):
            gram = x @ x.T
            x = 3.4445 * x + (-4.775 * gram + 2.0315 * gram @ gram) @ x
        w = w * (1 - rate * decay) - rate * x
        yield w


CASES = {
    "sgd": (lambda p: nn.optim.SGD(p, lr=0.05), sgd(START, 0.05)),
    "momentum": (lambda p: nn.optim.SGD(p, lr=0.05, momentum=0.8), sgd(START, 0.05, 0.8)),
    "nesterov": (lambda p: nn.optim.SGD(p, lr=0.05, momentum=0.8, nesterov=True),
                 sgd(START, 0.05, 0.8, nesterov=True)),
    "decay": (lambda p: nn.optim.SGD(p, lr=0.05, momentum=0.8, weight_decay=0.3),
              sgd(START, 0.05, 0.8, 0.3)),
    "adam": (lambda p: nn.optim.Adam(p, lr=0.05), adam(START, 0.05)),
    "adam betas": (lambda p: nn.optim.Adam(p, lr=0.05, betas=(0.5, 0.7), eps=1e-2),
                   adam(START, 0.05, (0.5, 0.7), 1e-2)),
    "adam decay": (lambda p: nn.optim.Adam(p, lr=0.05, weight_decay=0.3),
                   adam(START, 0.05, decay=0.3)),
    "adamw": (lambda p: nn.optim.AdamW(p, lr=0.05), adam(START, 0.05, decay=0.01, decoupled=True)),
    "adamw decay": (lambda p: nn.optim.AdamW(p, lr=0.05, weight_decay=0.3),
                    adam(START, 0.05, decay=0.3, decoupled=True)),
    "lamb": (lambda p: nn.optim.LAMB(p, lr=0.05), lamb(START, 0.05)),
    "lamb decay": (lambda p: nn.optim.LAMB(p, lr=0.05, weight_decay=0.3),
                   lamb(START, 0.05, decay=0.3)),
    "muon": (lambda p: nn.optim.Muon(p, lr=0.05), muon(START, 0.05)),
    "muon plain": (lambda p: nn.optim.Muon(p, lr=0.05, nesterov=False, momentum=0.8,
                                           weight_decay=0.0, ns_steps=3),
                   muon(START, 0.05, 0.8, 0.0, nesterov=False, steps=3)),
}


@pytest.mark.parametrize("name", CASES)
def test_steps_follow_the_formula(name):
    make, formula = CASES[name]
    for found, expected in zip(steps_of(make), formula, strict=False):
        assert found == pytest.approx(expected, abs=2e-6)


def test_lamb_moves_parameters_that_are_zero():
    w = Tensor([0.0, 0.0])
    optimizer = nn.optim.LAMB([w], lr=0.5)
    (w * Tensor([2.0, -3.0], requires_grad=False)).sum().backward()
    optimizer.step()
    assert w.tolist() == pytest.approx([-0.5, 0.5], abs=1e-5)
    w.grad = Tensor([0.0, 0.0])
    nn.optim.LAMB([w], lr=0.5).step()
    assert w.tolist() == pytest.approx([-0.5, 0.5], abs=1e-5)


@pytest.mark.parametrize("shape", [(6, 3), (3, 6), (4, 2, 2)])
def test_a_step_of_muon_is_about_orthogonal(shape):
    rng = np.random.default_rng(0)
    w = Tensor(np.zeros(shape, np.float32))
    w.grad = Tensor(rng.standard_normal(shape).astype(np.float32))
    optimizer = nn.optim.Muon([w], lr=1.0)
    optimizer.step()
    matrix = w.numpy().reshape(shape[0], -1)
    scale = max(1, shape[0] / matrix.shape[1]) ** 0.5
    values = np.linalg.svd(matrix, compute_uv=False) / scale
    assert 0.6 < values.min() <= values.max() < 1.3
    assert (w.grad.numpy() * w.numpy()).sum() < 0


def test_muon_is_for_matrices():
    with pytest.raises(ShapeError, match=r"shape \(2,\)"):
        nn.optim.Muon([Tensor([1.0, 2.0])])


def test_float64_parameters_are_updated_in_float64():
    found = steps_of(lambda p: nn.optim.Adam(p, lr=0.05), dtype=dtypes.float64)
    for value, expected in zip(found, adam(START, 0.05), strict=False):
        assert value == pytest.approx(expected, abs=1e-14)


def test_small_floats_are_updated_in_float32():
    w = Tensor([1.0, 2.0], dtype=dtypes.float16)
    optimizer = nn.optim.SGD([w], lr=1.0, momentum=0.5)
    assert optimizer.velocities[0].dtype is dtypes.float32
    (w * w).sum().backward()
    optimizer.step()
    assert w.dtype is dtypes.float16
    assert w.tolist() == [-1.0, -2.0]


def test_a_changed_learning_rate_counts():
    rates = [0.1, 0.01, 0.2, 0.0]
    w = START
    for found, rate in zip(steps_of(nn.optim.SGD, rates=rates), rates, strict=True):
        w = w - rate * gradient(w)
        assert found == pytest.approx(w, abs=2e-6)


@pytest.mark.parametrize("change", [
    lambda optimizer, value: setattr(optimizer, "lr", value),
    lambda optimizer, value: optimizer.lr.assign(value),
    lambda optimizer, value: setattr(optimizer, "lr", optimizer.lr * 0.9),
], ids=["set", "assign", "scaled"])
def test_later_steps_compile_nothing_whatever_the_learning_rate(change):
    w = Tensor(START, dtype=dtypes.float32)
    optimizer = nn.optim.Adam([w])
    compiled = []
    for k in range(5):
        change(optimizer, 0.1 / (k + 1))
        (w * w * 3.0).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        compiled.append(STATISTICS.kernels)
    # An expression in place of the rate is a program of its own, compiled once.
    assert compiled[1:] == [compiled[1]] * 4


def test_adam_is_one_kernel_per_parameter():
    parameters = [Tensor(np.ones((k + 3, 5), dtype=np.float32)) for k in range(3)]
    optimizer = nn.optim.Adam(parameters)
    for parameter in parameters:
        parameter.grad = Tensor(np.ones(parameter.shape, dtype=np.float32))
    before = GlobalCounters.kernel_count
    optimizer.step()
    launched = GlobalCounters.kernel_count - before
    assert launched <= len(parameters) + 1, "one per parameter, one for the two corrections"
    assert parameters[2].numpy() == pytest.approx(np.full((5, 5), 0.999), abs=1e-6)


def test_running_statistics_are_computed_in_the_same_step():
    layer = nn.BatchNorm(3)
    optimizer = nn.optim.SGD(nn.state.get_parameters(layer), lr=0.1)
    x = np.random.default_rng(0).standard_normal((8, 3)).astype(np.float32)
    with Tensor.train():
        (layer(Tensor(x, requires_grad=False)) ** 3).sum().backward()
    optimizer.step()
    before = GlobalCounters.kernel_count
    mean = layer.running_mean.numpy()
    assert layer.num_batches_tracked.item() == 1
    assert GlobalCounters.kernel_count == before, "what step() computed is not computed again"
    assert mean == pytest.approx(0.1 * x.mean(0), abs=1e-6)


def test_storage_does_not_grow_from_step_to_step():
    w, x = Tensor(START, dtype=dtypes.float32), Tensor(SCALE, dtype=dtypes.float32)
    x.requires_grad = False
    optimizer = nn.optim.Adam([w])
    used = []
    for _ in range(5):
        optimizer.lr = 0.1
        loss = (w * x).square().sum()
        loss.backward()
        loss.realize(*optimizer.schedule_step())
        optimizer.zero_grad()
        used.append(GlobalCounters.mem_used)
    assert used[2:] == [used[2]] * 3


def test_a_parameter_without_gradient_stays():
    w, other = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])
    optimizer = nn.optim.AdamW([w, other], lr=0.1)
    (w * w).sum().backward()
    optimizer.step()
    assert other.tolist() == [3.0, 4.0]
    assert w.tolist() != [1.0, 2.0]


def test_parameters_are_taken_once_and_only_if_they_can_be_trained():
    w, fixed, count = Tensor([1.0]), Tensor([1.0], requires_grad=False), Tensor([1])
    optimizer = nn.optim.SGD([w, w, fixed, count], lr=0.5)
    assert [p is w for p in optimizer.parameters] == [True]
    assert [b is t for b, t in zip(optimizer.buffers, (fixed, count), strict=True)] == [True, True]


def test_mistakes_are_named():
    w = Tensor([1.0, 2.0])
    with pytest.raises(DTypeError, match="needs parameters"):
        nn.optim.SGD([Tensor([1])])
    with pytest.raises(CoreError, match="call backward"):
        nn.optim.SGD([w]).step()
    with pytest.raises(ValueError, match="momentum"):
        nn.optim.SGD([w], nesterov=True)
    with pytest.raises(ValueError, match="betas"):
        nn.optim.Adam([w], betas=(0.9, 1.0))


def test_the_state_of_an_optimizer_is_found_by_name():
    optimizer = nn.optim.Adam([Tensor([1.0, 2.0])], lr=0.25)
    state = nn.state.get_state_dict(optimizer)
    assert {"parameters.0", "means.0", "squares.0", "corrections.0", "corrections.1"} <= set(state)
    assert state["_lr"].item() == 0.25


def losses_of_training(wrap):
    """Losses of steps with dropout, running statistics and a falling learning rate."""
    Tensor.manual_seed(5)
    model = [nn.Linear(4, 8), nn.BatchNorm(8), nn.Linear(8, 1)]
    optimizer = nn.optim.AdamW(nn.state.get_parameters(model), lr=0.1)
    x = np.random.default_rng(1).standard_normal((6, 16, 4)).astype(np.float32)
    compiled = []

    def step(batch):
        with Tensor.train():
            hidden = model[1](model[0](batch)).relu().dropout(0.25)
        loss = (model[2](hidden) - batch.sum(1, keepdim=True)).square().mean()
        loss.backward()
        loss.realize(*optimizer.schedule_step())
        optimizer.zero_grad()
        return loss

    step = wrap(step)
    losses = []
    for k, batch in enumerate(x):
        optimizer.lr = 0.1 / (1 + k)
        losses.append(step(Tensor(batch, requires_grad=False)).item())
        compiled.append(STATISTICS.kernels)
    statistics = [*model[1].running_mean.tolist(), *model[1].running_var.tolist()]
    return losses, statistics, compiled


def test_a_jitted_step_is_the_same_step_and_compiles_once():
    eager, eager_statistics, compiled = losses_of_training(lambda step: step)
    assert compiled[1:] == [compiled[1]] * 5, "draws, batches and rates are arguments"
    jitted, jitted_statistics, compiled = losses_of_training(jit)
    assert compiled[1:] == [compiled[1]] * 5
    assert jitted == pytest.approx(eager, rel=1e-4)
    assert jitted_statistics == pytest.approx(eager_statistics, rel=1e-4)
    assert min(eager[3:]) < eager[0]
