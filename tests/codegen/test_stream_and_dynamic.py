"""STREAM and threads that take items one by one: what they change, and when they are refused."""

import pytest

from core.codegen.actions import ActionError, Retype, Stream, apply_actions, parse_actions
from core.compiler.pipeline import generate
from core.ir import AxisType, KernelInfo, Op, UOp, dtypes
from core.runtime.device import open_device


def doubled(*, in_place=False):
    """out[i] = 2 * x[i]."""
    out = UOp.param(0, dtypes.float32, (64,))
    x = out if in_place else UOp.param(1, dtypes.float32, (64,))
    i = UOp.range(64, 0, AxisType.LOOP)
    stored = out.index(i).store(x.index(i).load() * 2.0)
    return UOp.sink(stored.end(i)).replace(arg=KernelInfo("doubled"))


def test_a_streamed_store_reaches_the_program():
    sink = apply_actions(doubled(), parse_actions("STREAM(0)"))
    assert sink.arg.actions == ("STREAM(0)",)
    null = open_device("NULL")
    linear = generate(sink, null.target, null.renderer.code_for_op).src[1]
    assert {n.arg for n in linear.src if n.op is Op.STORE} == {"stream"}
    plain = generate(doubled(), null.target, null.renderer.code_for_op).src[1]
    assert {n.arg for n in plain.src if n.op is Op.STORE} == {None}


def test_storage_that_the_kernel_reads_is_not_streamed():
    with pytest.raises(ActionError, match="reads what it writes"):
        Stream(0).apply(doubled(in_place=True))
    with pytest.raises(ActionError, match="has 1 stores"):
        Stream(1).apply(doubled())


@pytest.mark.parametrize(("text", "share"), [
    ("RETYPE(0, THREAD)", 32), ("RETYPE(0, THREAD, DYNAMIC)", 1)])
def test_items_are_shared_out_or_taken_one_by_one(text, share):
    sink = apply_actions(doubled(), parse_actions(text))
    assert sink.arg.actions == (text,)
    null = open_device("NULL")  # two cores
    info = generate(sink, null.target, null.renderer.code_for_op).arg
    assert (info.global_size, info.local_size) == ((64,), (share,))


def test_only_threads_take_items():
    with pytest.raises(ActionError, match="only items of threads"):
        Retype(0, AxisType.UPCAST, dynamic=True).apply(doubled())
