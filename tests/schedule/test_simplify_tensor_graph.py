"""simplify-tensor-graph: what is known before scheduling costs no kernel."""

from core.compiler import pipeline
from core.ir import Op, UOp, dtypes
from core.testing.pass_checks import TARGET, simplify_tensor_graph


def test_simplify_tensor_graph():
    simplify_tensor_graph()


def test_a_float_sum_times_zero_stays():
    """NaN and infinity times zero are NaN: the sum must be computed."""
    x, y = (UOp.param(k + 1, dtypes.float32, (n,), "TEST") for k, n in enumerate((1 << 20, 8)))
    value = x.reduce(Op.ADD, axes=1) * 0.0 + y
    linear = pipeline.schedule(
        UOp.sink(UOp.param(0, dtypes.float32, (8,), "TEST").store(value)), TARGET)
    assert len(linear.src) == 2
