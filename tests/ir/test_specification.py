"""Specifications refuse what a stage may not hold, and name it."""

import pytest

from core.foundation.errors import VerificationError
from core.ir import Op, UOp, dtypes
from core.ir.specification import KERNEL_GRAPH, PROGRAM, TENSOR_GRAPH, verify


def storage(slot, *shape):
    return UOp.param(slot, dtypes.float32, shape, "ANY")


def kernel():
    i = UOp.range(6, 0)
    out, data = UOp.param(0, dtypes.float32, (6,)), UOp.param(1, dtypes.float32, (6,))
    return UOp.sink(out.index(i).store(data.index(i).load() * 2.0).end(i))


def test_call_arguments_of_rank_two_are_refused_with_the_graph():
    good = UOp(Op.LINEAR, (kernel().call(storage(0, 6), storage(1, 6)),))
    verify(good, KERNEL_GRAPH)
    bad = UOp(Op.LINEAR, (kernel().call(storage(0, 6), storage(1, 2, 3)),))
    with pytest.raises(VerificationError, match="rank 0\\s+or 1") as caught:
        verify(bad, KERNEL_GRAPH, "create-schedule")
    assert "after create-schedule" in str(caught.value)
    assert "PARAM" in str(caught.value)


def test_views_between_kernels_are_refused():
    view = storage(1, 2, 3).permute((1, 0)).reshape((6,))
    with pytest.raises(VerificationError, match="CALL must be"):
        verify(UOp(Op.LINEAR, (kernel().call(storage(0, 6), view),)), KERNEL_GRAPH)


def test_slices_and_casts_of_arenas_are_arguments():
    arena = UOp.param(2, dtypes.uint8, (256,), "ANY")
    piece = arena.shrink((64,), (24,)).bitcast(dtypes.float32)
    verify(UOp(Op.LINEAR, (kernel().call(piece, storage(1, 6)),)), KERNEL_GRAPH)


def test_tensor_graphs_hold_no_loads():
    place = storage(0, 6).index(UOp.const(0))
    with pytest.raises(VerificationError, match="LOAD may not stand"):
        verify(place.load(), TENSOR_GRAPH)


def test_programs_hold_no_weak_integers():
    i = UOp.range(6, 0)
    with pytest.raises(VerificationError, match="machine dtype"):
        verify(UOp(Op.LINEAR, (i,)), PROGRAM)


def test_a_verified_node_is_not_verified_again(monkeypatch):
    sink = kernel()
    verify(sink, KERNEL_GRAPH)
    monkeypatch.setattr(KERNEL_GRAPH, "refusal", lambda node: "never asked")
    verify(sink, KERNEL_GRAPH)
