"""create-schedule: kernels on flat storage, in order, that compute what the graph says."""

import numpy as np
import pytest

from core.compiler import pipeline
from core.ir import Op, UOp, dtypes, toposort
from core.reference.evaluate import evaluate_stores
from core.reference.run import run_schedule
from core.testing.pass_checks import TARGET, create_schedule


def param(slot, *shape):
    return UOp.param(slot, dtypes.float32, shape, "TEST")


def test_create_schedule():
    create_schedule()


def softmax_of_product(x):
    scores = x.permute((1, 0)) + 1.0
    largest = scores.permute((1, 0)).reduce(Op.MAX, axes=1)
    e = (scores - largest.expand((scores.shape[1],)).permute((1, 0))).alu(Op.EXP)
    return e / e.reduce(Op.ADD, axes=1).expand((e.shape[0],))


@pytest.mark.parametrize("make", [
    lambda x: x.permute((1, 0)) * 2.0,
    softmax_of_product,
    lambda x: (x * 3.0).contiguous().flip((True, False)).reduce(Op.ADD, axes=1),
    lambda x: x.reduce(Op.ADD, axes=2).expand((4, 6)) - x,
])
def test_the_schedule_computes_the_graph(make):
    value = make(param(1, 4, 6))
    place = UOp.param(0, value.dtype, value.shape, "TEST")
    body = UOp.sink(place.store(value))
    data = np.random.default_rng(0).standard_normal((4, 6), np.float32)
    (expected,) = evaluate_stores(body, {param(1, 4, 6): data}).values()
    result = np.full(expected.size, np.nan, np.float32)
    run_schedule(pipeline.schedule(body, TARGET), [result, data.ravel()])
    np.testing.assert_allclose(result, expected.ravel(), 1e-6)


def test_one_value_is_stored_to_two_places():
    value = param(2, 8) * 2.0
    body = UOp.sink(param(0, 8).store(value), param(1, 8).store(value))
    linear = pipeline.schedule(body, TARGET)
    first, second = np.zeros(8, np.float32), np.zeros(8, np.float32)
    run_schedule(linear, [first, second, np.arange(8, dtype=np.float32)])
    assert len(linear.src) == 1
    assert first.tolist() == second.tolist() == [2.0 * k for k in range(8)]


def test_intermediates_share_one_arena_as_their_lifetimes_allow():
    """Six values of 4 KiB, one after the other: two of them live at a time."""
    value = param(1, 1024)
    for _ in range(6):
        value = (value + 1.0).contiguous()
    linear = pipeline.schedule(UOp.sink(param(0, 1024).store(value)), TARGET)
    roots = {n for call in linear.src for argument in call.src[1:] for n in toposort(argument)}
    (arena,) = [r for r in roots if r.op is Op.PARAM and r.arg.slot >= 2]
    assert arena.size_bytes == 2 * 4096
