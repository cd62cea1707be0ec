"""Every operation beside numpy: values in all dtypes, gradients by finite differences."""

from zlib import crc32

import numpy as np
import pytest

from core import Tensor
from core.testing.operations.row import cases, mismatch, operand_shapes, tensors
from core.testing.operations.table import NO_OPERATIONS, ROWS

#: The interpreter of core, which runs the table in every run; once in its own.
SECOND = "REFERENCE"
STEP = 1e-5


def check(row, dtype, device=None):
    given = list(cases(row, dtype))
    results = [row.call(*tensors(case, dtype, device)) for case in given]
    results[0].realize(*results[1:])
    assert list(filter(None, (mismatch(row, case, dtype, result)
                              for case, result in zip(given, results, strict=True)))) == []


@pytest.mark.parametrize(("name", "dtype"), [
    pytest.param(name, dtype, id=f"{name}-{dtype.name}")
    for name, row in ROWS.items() for dtype in row.takes])
def test_values(name, dtype):
    check(ROWS[name], dtype)


@pytest.fixture
def second(device):
    if device == SECOND:
        pytest.skip("is the device of this run: the other tests are on it")
    return SECOND


@pytest.mark.parametrize("name", ROWS)
def test_values_on_the_interpreter(name, second):
    row = ROWS[name]
    check(row, row.takes[crc32(name.encode()) % len(row.takes)], second)


def differences(row, arrays, weights, k):
    """Central differences of sum(result * weights), of numpy's result."""
    slopes = np.zeros_like(arrays[k])
    for at in np.ndindex(*arrays[k].shape):
        ends = []
        for step in (STEP, -STEP):
            moved = [a.copy() for a in arrays]
            moved[k][at] += step
            ends.append((row.oracle(*moved) * weights).sum())
        slopes[at] = (ends[0] - ends[1]) / (2 * STEP)
    return slopes


def gradients(row, name, device=None):
    draw = np.random.default_rng(crc32(name.encode()))
    arrays = [draw.uniform(*row.gradient, s) for s in operand_shapes(row.shapes[0])]
    given = [Tensor(a, device=device) for a in arrays]
    result = row.call(*given)
    weights = draw.normal(size=result.shape)
    found = result.gradient(*given, gradient=Tensor(weights, device=device),
                            materialize_grads=True)
    for k, slope in enumerate(found):
        assert slope.dtype.name == "float64"
        np.testing.assert_allclose(slope.numpy(), differences(row, arrays, weights, k), 2e-6, 2e-6)


DIFFERENTIABLE = [name for name, row in ROWS.items() if row.gradient]


@pytest.mark.parametrize("name", [n for n in DIFFERENTIABLE if not n.startswith("cast[")])
def test_gradients(name):
    gradients(ROWS[name], name)


@pytest.mark.parametrize("name", DIFFERENTIABLE[::9])
def test_gradients_on_the_interpreter(name, second):
    gradients(ROWS[name], name, second)


def test_every_operation_is_in_the_table():
    public = {name for name in dir(Tensor) if not name.startswith("_")}
    listed = {row.method for row in ROWS.values()}
    assert public - listed - set(NO_OPERATIONS) == set()


def test_what_is_left_out_exists_and_is_in_no_row():
    assert all(hasattr(Tensor, name) for name in NO_OPERATIONS)
    assert set(NO_OPERATIONS) & {row.method for row in ROWS.values()} == set()


def test_the_table_finds_a_wrong_result():
    row, (case, *_) = ROWS["add"], cases(ROWS["add"], ROWS["add"].takes[0])
    a, b = tensors(case, ROWS["add"].takes[0], None)
    assert "differ" in mismatch(row, case, a.dtype, a + b + 1e-3)
    assert "dtype" in mismatch(row, case, a.dtype, (a + b).double())
    assert "shape" in mismatch(row, case, a.dtype, (a + b).reshape(-1))
