"""Random tensors: seeds, streams, exact bits, moments."""

import numpy as np
import pytest

from core.foundation.errors import DTypeError, ShapeError
from core.frontend import Tensor

ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
MASK = 0xFFFFFFFF


def threefry(counter, key):
    """Threefry-2x32 with 20 rounds, written out in Python integers."""
    x, k = [counter & MASK, counter >> 32], [key & MASK, key >> 32]
    k.append(k[0] ^ k[1] ^ 0x1BD11BDA)
    x = [(x[0] + k[0]) & MASK, (x[1] + k[1]) & MASK]
    for r in range(20):
        x[0] = (x[0] + x[1]) & MASK
        x[1] = ((x[1] << ROTATIONS[r % 8] | x[1] >> 32 - ROTATIONS[r % 8]) & MASK) ^ x[0]
        if r % 4 == 3:
            turn = r // 4 + 1
            x = [(x[0] + k[turn % 3]) & MASK, (x[1] + k[(turn + 1) % 3] + turn) & MASK]
    return x[0] | x[1] << 32


def test_uniform_bits_are_threefry_of_seed_and_counter():
    Tensor.manual_seed(42)
    drawn = [*Tensor.rand(3).tolist(), *Tensor.rand(2).tolist()]
    assert drawn == [(threefry(k, 42) >> 40) * 2.0**-24 for k in range(5)]


def test_seeds_repeat_and_differ():
    draws = []
    for seed in (1, 1, 2):
        Tensor.manual_seed(seed)
        draws.append(Tensor.randn(50).tolist())
    assert draws[0] == draws[1] != draws[2]


def test_lazy_draws_do_not_depend_on_the_order_of_realising():
    Tensor.manual_seed(3)
    a, b = Tensor.rand(6), Tensor.rand(6)
    late = b.tolist(), a.tolist()
    Tensor.manual_seed(3)
    early = Tensor.rand(6).tolist(), Tensor.rand(6).tolist()
    assert late == early[::-1]
    assert late[0] != late[1]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_uniform_is_in_range_and_even(dtype):
    Tensor.manual_seed(0)
    x = Tensor.rand(20_000, dtype=dtype)
    assert x.dtype.name == dtype
    values = x.double().numpy()
    assert 0 <= values.min() < 0.01
    assert 0.98 < values.max() < 1
    counts = np.histogram(values, 16, (0, 1))[0]
    assert ((counts - 1250) ** 2 / 1250).sum() < 45  # chi square, 15 degrees: p = 1e-4


def test_normal_moments():
    Tensor.manual_seed(0)
    x = Tensor.randn(40_000).numpy().astype("f8")
    assert abs(x.mean()) < 0.02
    assert abs(x.std() - 1) < 0.02
    assert abs((x**3).mean()) < 0.05
    assert abs((x**4).mean() - 3) < 0.15
    assert abs(np.corrcoef(x[:-1], x[1:])[0, 1]) < 0.02
    assert np.isfinite(x).all()


def test_integers_are_in_range():
    x = Tensor.randint(5000, low=-3, high=4).numpy()
    assert set(x.tolist()) == set(range(-3, 4))
    assert Tensor.randint(3, low=250, high=256, dtype="uint8").numpy().min() >= 250
    with pytest.raises(ShapeError, match="no integer"):
        Tensor.randint(3, low=4, high=4)
    with pytest.raises(DTypeError, match="does not fit"):
        Tensor.randint(3, high=1000, dtype="uint8")
    with pytest.raises(DTypeError, match="randint"):
        Tensor.rand(3, dtype="int32")


def test_shapes_and_variants():
    assert Tensor.rand(2, 3).shape == Tensor.rand((2, 3)).shape == (2, 3)
    assert Tensor.rand(0, 3).numpy().shape == (0, 3)
    assert Tensor.rand().numpy().shape == ()
    x = Tensor.uniform(2000, low=-2, high=3).numpy()
    assert -2 <= x.min() < -1.9
    assert 2.9 < x.max() < 3
    assert abs(Tensor.normal(5000, mean=7, std=0.1).mean().item() - 7) < 0.02
    assert abs(Tensor.kaiming_uniform(64, 100).numpy()).max() <= np.sqrt(6 / 100)
    assert Tensor([1.0, 2.0]).rand_like().shape == (2,)
    assert Tensor([1.0, 2.0]).randn_like().dtype.name == "float32"


def test_dropout():
    x = Tensor.ones(10_000)
    assert x.dropout(0.5).uop is x.uop
    Tensor.manual_seed(0)
    with Tensor.train():
        y = x.dropout(0.25)
        assert Tensor.training
        np.testing.assert_array_equal(x.dropout(1.0).numpy(), 0)
    assert not Tensor.training
    values, counts = np.unique(y.numpy(), return_counts=True)
    np.testing.assert_allclose(values, [0, 4 / 3])
    assert abs(counts[0] / 10_000 - 0.25) < 0.02
    (g,) = y.sum().gradient(x)
    np.testing.assert_array_equal(g.numpy(), y.numpy())
    with pytest.raises(ValueError, match="probability"):
        x.dropout(2)


def test_every_training_draw_is_the_same_program():
    first, second = Tensor.rand(4), Tensor.rand(4)
    first.realize(), second.realize()
    assert first.tolist() != second.tolist()
