"""compile-linear: what is compiled, what is not compiled again, and what an error says."""

from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from core import Device, Tensor, nn
from core.compiler.compile import STATISTICS
from core.foundation.errors import CompileError
from core.runtime import open_device


def device():
    return open_device(Device.DEFAULT)


class Network:
    def __init__(self):
        self.convolution = nn.Conv2d(1, 4, 3, padding=1)
        self.normalize = nn.BatchNorm(4)
        self.linear = nn.Linear(64, 3)

    def __call__(self, x):
        x = self.normalize(self.convolution(x)).relu().max_pool2d(2)
        return self.linear(x.flatten(1).dropout(0.2))


@pytest.mark.parametrize("optimizer", [nn.optim.SGD, nn.optim.Adam, nn.optim.AdamW])
def test_a_training_loop_compiles_nothing_after_its_second_step(optimizer):
    """Learning rate, batch slice and random draws change; they are arguments."""
    Tensor.manual_seed(3)
    model = Network()
    trained = optimizer(nn.state.get_parameters(model), lr=0.01)
    generator = np.random.default_rng(0)
    images = Tensor(generator.standard_normal((40, 1, 8, 8), np.float32), requires_grad=False)
    labels = Tensor(np.arange(40, dtype=np.int32) % 3)
    compiled, losses = [], []
    for k in range(8):
        trained.lr = 0.01 / (k + 1)
        batch = slice(4 * k, 4 * k + 4)
        with Tensor.train():
            trained.zero_grad()
            noise = Tensor.randn(4, 1, 8, 8) * 0.1
            loss = model(images[batch] + noise).cross_entropy(labels[batch])
            loss.backward()
            trained.step()
        losses.append(loss.item())
        compiled.append(STATISTICS.kernels)
    assert len(set(compiled[1:])) == 1, compiled
    assert np.isfinite(losses).all()


def test_shuffled_batches_compile_nothing_after_the_second():
    """A batch taken by an index tensor."""
    images = Tensor(np.arange(40 * 6, dtype=np.float32).reshape(40, 6), requires_grad=False)
    compiled = []
    for k in range(5):
        order = np.random.default_rng(k).permutation(40)[:8].astype(np.int32)
        batch = images[Tensor(order)]
        assert batch.sum(1).numpy() == pytest.approx((36 * order + 15).tolist())
        compiled.append(STATISTICS.kernels)
    assert len(set(compiled[1:])) == 1, compiled


def test_equal_kernels_compile_once():
    x = Tensor(np.arange(37, dtype=np.float32))
    (x * 3.25 + 1).realize()
    before = STATISTICS.kernels
    y = Tensor(np.arange(37, dtype=np.float32) * 2)
    assert (y * 3.25 + 1).tolist() == [6.5 * k + 1 for k in range(37)]
    assert STATISTICS.kernels == before


@pytest.fixture
def broken(monkeypatch):
    """Breaks the device's compiler while a block runs; nothing is found on disk."""
    @contextmanager
    def break_with(error):
        def fail(sources):
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(device().renderer.compiler, "compile", fail)
            patch.setattr("core.compiler.compile.BINARIES.get", lambda key: None)
            yield

    return break_with


def test_a_kernel_that_does_not_compile_says_where_its_tensor_was_made(broken):
    y = Tensor([1.5, 2.5]) * 41.0625  # this line
    error = CompileError("the backend is ill", graph="text of the program")
    with broken(error), pytest.raises(CompileError, match="the backend is ill") as caught:
        y.numpy()
    rows = Path(__file__).read_text("utf-8").splitlines()
    line = 1 + next(k for k, row in enumerate(rows) if row.endswith("# this line"))
    assert f"test_compile.py:{line}" in str(caught.value)
    assert "text of the program" in str(caught.value)


@pytest.mark.parametrize(("factor", "error"), [
    (43.5, CompileError("ill")), (44.5, RuntimeError("unforeseen")), (45.5, KeyboardInterrupt()),
    (46.5, MemoryError())])
def test_after_a_failure_the_same_tensor_computes(broken, factor, error):
    y = Tensor([1.5, 2.5]) * factor
    with broken(error), pytest.raises(type(error)):
        y.numpy()
    assert y.tolist() == [1.5 * factor, 2.5 * factor]


def test_a_graph_that_no_pass_can_handle_leaves_everything_usable(monkeypatch):
    y = Tensor([1.5, 2.5]) * 47.0625
    with monkeypatch.context() as patch:
        patch.setattr("core.compiler.pipeline.program_info", None)
        with pytest.raises(TypeError):
            y.numpy()
    assert y.tolist() == [70.59375, 117.65625]
