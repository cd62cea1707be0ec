"""Interning, the table's bookkeeping, and what construction refuses."""

import gc
import pickle
import threading

import pytest

from core.foundation.errors import DTypeError, ShapeError
from core.ir import Op, UOp, dtypes, live_count, parse, text


def buffer(*shape, dtype=dtypes.float32):
    return UOp.new_buffer("ANY", dtype, shape)


def test_equal_tuples_are_the_same_object():
    x = buffer(4)
    assert x + 1.0 is x + 1.0
    assert x + 1.0 is not x + 2.0


def test_constants_are_keyed_by_their_bits():
    f32 = dtypes.float32
    assert UOp.const(0.0, f32) is not UOp.const(-0.0, f32)
    assert UOp.const(float("nan"), f32) is UOp.const(-float("nan"), f32)
    assert UOp.const(1, dtypes.int32) is not UOp.const(1, dtypes.int64)
    assert UOp.const(True, dtypes.bool) is not UOp.const(1, dtypes.int8)
    assert UOp.const(300, dtypes.uint8).value == 44


def test_live_nodes_return_to_their_number_without_the_collector():
    gc.collect()
    gc.disable()
    try:
        before = live_count()
        for step in range(3):
            x = buffer(8)
            for k in range(50):
                x = (x + float(k + step)).permute((0,)).reshape((2, 4)).reshape((8,))
            del x
        assert live_count() == before
    finally:
        gc.enable()


def test_threads_intern_the_same_nodes():
    x = buffer(3)
    results: list[list[UOp]] = []

    def build():
        results.append([x + float(k) for k in range(500)])

    threads = [threading.Thread(target=build) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(a is b for other in results[1:] for a, b in zip(results[0], other, strict=True))


def test_text_and_pickle_round_trip():
    x = buffer(2, 3)
    loop = UOp.range(5, 0)
    graph = ((x * -0.0).permute((1, 0)).reduce(Op.MAX, axes=1).pad((1,), (5,))
             + loop.cast(dtypes.float32).stage(loop))
    assert parse(text(graph)) is graph
    assert pickle.loads(pickle.dumps(graph)) is graph
    for value in (float("inf"), float("nan"), -0.0, 1e-45):
        constant = UOp.const(value, dtypes.float32)
        assert parse(text(constant)) is constant
    invalid = loop.valid(loop < 3)
    assert parse(text(invalid)) is invalid


@pytest.mark.parametrize("line", ["0 = ADD(1)", "nonsense", "1 = CONST arg=Constant(int32, 1)",
                                  "0 = CONST arg=__import__('os')"])
def test_malformed_text_is_refused(line):
    with pytest.raises((ValueError, IndexError)):
        parse(line)


def test_shape_mistakes_are_named():
    with pytest.raises(ShapeError, match="differ"):
        buffer(2, 3) + buffer(3, 2)
    with pytest.raises(DTypeError, match="int32"):
        buffer(2).alu(Op.ADD, buffer(2, dtype=dtypes.int32))
    with pytest.raises(ShapeError, match="6 elements"):
        buffer(2, 3).reshape((7,))
    with pytest.raises(ShapeError, match="leaves"):
        buffer(4).shrink((2,), (3,))
    with pytest.raises(ShapeError, match="order"):
        buffer(4, 2).permute((0, 0))


def test_index_shapes_follow_the_table():
    x = buffer(5, 6, 7)
    rows = buffer(2, 3, dtype=dtypes.int32).cast(dtypes.weak_int)
    assert x.index(1).shape == (6, 7)
    assert x.index(rows).shape == (2, 3, 6, 7)
    assert x.index(1, rows).shape == (2, 3, 7)
    assert x.index(rows, buffer(3, dtype=dtypes.int32)).shape == (2, 3, 7)


def test_bitcast_between_item_sizes_scales_the_last_axis():
    assert buffer(8, dtype=dtypes.uint8).bitcast(dtypes.float32).shape == (2,)
    assert buffer(2).bitcast(dtypes.uint8).shape == (8,)
    with pytest.raises(DTypeError):
        buffer(3, dtype=dtypes.uint8).bitcast(dtypes.float32)
