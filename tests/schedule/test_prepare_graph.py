"""prepare-graph: calls inlined, empty values gone, long sums split."""

import numpy as np
import pytest

from core.compiler import pipeline
from core.ir import Op, UOp, dtypes, toposort
from core.reference.evaluate import evaluate
from core.reference.formats import STORED
from core.reference.run import run_schedule
from core.schedule.prepare_graph import prepare_graph
from core.testing.pass_checks import TARGET
from core.testing.pass_checks import prepare_graph as check


def stored(value):
    return UOp.sink(UOp.param(0, value.dtype, value.shape, "TEST").store(value))


def prepared(value):
    """The value that is stored after the pass."""
    return prepare_graph(stored(value), TARGET).src[0].src[1]


def param(slot, *shape, dtype=dtypes.float32):
    return UOp.param(slot, dtype, shape, "TEST")


def test_prepare_graph():
    check()


def test_a_call_becomes_its_body():
    x, y = param(1, 4), param(2, 4)
    body = param(0, 4) * 2.0 + param(1, 4)
    assert prepared(body.call(x, y)) is x * 2.0 + y


def test_a_call_inside_of_a_call_takes_the_arguments_of_its_own():
    inner = param(0, 4) * 3.0
    outer = inner.call(param(1, 4)) + param(0, 4)
    x, y = param(1, 4), param(2, 4)
    assert prepared(outer.call(x, y)) is y * 3.0 + x


@pytest.mark.parametrize(("op", "neutral"), [
    (Op.ADD, 0.0), (Op.MUL, 1.0), (Op.MAX, -np.inf)])
def test_reductions_of_nothing_are_neutral(op, neutral):
    after = prepared(param(1, 0, 3).reduce(op, axes=1))
    assert not [n for n in toposort(after) if n.op in (Op.REDUCE, Op.PARAM)]
    assert np.array_equal(evaluate(after, {}), np.full(3, neutral, np.float32))


@pytest.mark.parametrize("shape", [(1 << 17,), (3, 1 << 16), (1 << 9, 1 << 9), (257, 521)])
def test_a_split_sum_is_the_same_sum(shape):
    """Integers: the order of a sum cannot show."""
    x = UOp.new_buffer("TEST", dtypes.int32, shape)
    after = prepared(x.reduce(Op.ADD, axes=len(shape)))
    data = np.random.default_rng(0).integers(-99, 99, shape, np.int32)
    assert evaluate(after, {x: data}) == data.sum()


def test_short_sums_and_sums_of_many_rows_stay_whole():
    short, rows = param(1, 1 << 15), param(2, 1 << 16, 64)
    assert prepared(short.reduce(Op.ADD, axes=1)) is short.reduce(Op.ADD, axes=1)
    assert prepared(rows.reduce(Op.ADD, axes=1)) is rows.reduce(Op.ADD, axes=1)


@pytest.mark.parametrize("old", [dtypes.uint8, dtypes.int16, dtypes.float32, dtypes.float64])
@pytest.mark.parametrize("new", [dtypes.int8, dtypes.float16, dtypes.uint32, dtypes.int64])
def test_bitcasts_between_item_sizes_keep_the_bytes(old, new):
    x = UOp.new_buffer("TEST", old, (3, 16))
    value = x.bitcast(new)
    after = prepared(value)
    sizes = {(n.dtype.itemsize, n.src[0].dtype.itemsize) for n in toposort(after)
             if n.op is Op.BITCAST}
    assert all(a == b for a, b in sizes)
    raw = np.random.default_rng(0).integers(0, 256, 48 * old.itemsize, np.uint8)
    data = raw.view(STORED[old]).reshape(3, 16)
    found = evaluate(after, {x: data})
    assert found.shape == value.shape
    expected = data.view(STORED[new])
    assert np.array_equal(found.view(np.uint8), np.ascontiguousarray(expected).view(np.uint8))


def test_a_bitcast_of_a_part_is_computed():
    """Through the whole scheduler: the bytes of every second row, as words."""
    x = param(1, 4, 8, dtype=dtypes.uint8)
    value = x.flip((True, False)).bitcast(dtypes.uint32) + 1
    linear = pipeline.schedule(stored(value), TARGET)
    data = np.arange(32, dtype=np.uint8).reshape(4, 8)
    result = np.zeros(8, np.uint32)
    run_schedule(linear, [result, data.ravel()])
    assert np.array_equal(
        result.reshape(4, 2), np.ascontiguousarray(data[::-1]).view(np.uint32) + 1)


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16, dtypes.fp8_e5m2])
def test_small_floats_are_summed_as_float32(dtype):
    value = prepared(param(1, 5000, dtype=dtype).reduce(Op.ADD, axes=1))
    assert value.dtype is dtype
    assert {n.dtype for n in toposort(value) if n.op is Op.REDUCE} == {dtypes.float32}
    largest = prepared(param(1, 5000, dtype=dtype).reduce(Op.MAX, axes=1))
    assert {n.dtype for n in toposort(largest) if n.op is Op.REDUCE} == {dtype}
