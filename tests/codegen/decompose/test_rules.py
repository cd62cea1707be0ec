"""The rows themselves: names, and when they fire."""

import pytest

from core.codegen.decompose import RULES
from core.ir import Op, UOp, dtypes, toposort
from core.testing.elementwise import PLAIN, lower

FUNCTIONS = [Op.EXP, Op.EXP2, Op.LOG, Op.LOG2, Op.SIN, Op.COS, Op.POW]


def test_names_are_unique():
    names = [rule.name for rule in RULES]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("shape", [(), (8,)])
@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64, dtypes.bfloat16])
@pytest.mark.parametrize("op", FUNCTIONS)
def test_functions_keep_shape_and_use_only_what_the_renderer_has(op, dtype, shape):
    sources = [UOp.param(k, dtype, shape) for k in range(2 if op is Op.POW else 1)]
    lowered = lower(UOp(op, tuple(sources)).cast(dtypes.float32))
    assert lowered.shape == shape
    assert {n.op for n in toposort(lowered)} <= PLAIN | {Op.CONST, Op.PARAM, Op.STACK}


def test_only_a_target_with_a_fused_operation_gets_it():
    node = UOp(Op.EXP, (UOp.param(0, dtypes.float32, (8,)),))
    used = {fma: Op.MULACC in {n.op for n in toposort(lower(node, fma=fma))} for fma in (0, 1)}
    assert used == {0: False, 1: True}
    without = lower(node, ops=PLAIN - {Op.MULACC})
    assert Op.MULACC not in {n.op for n in toposort(without)}


def test_sine_and_cosine_of_one_angle_share_the_reduction():
    x = UOp.param(0, dtypes.float32, (8,))
    both = lower(UOp.group(x.alu(Op.SIN), x.alu(Op.COS)))
    assert len(toposort(both)) < len(toposort(lower(x.alu(Op.SIN)))) + 20


def test_a_graph_without_anything_to_lower_is_itself():
    x = UOp.param(0, dtypes.float32, (8,))
    root = (x * x + 1.0).alu(Op.SQRT)
    assert lower(root) is root


def test_a_chain_of_twenty_thousand_operations_is_no_recursion():
    x = UOp.param(0, dtypes.bfloat16, (8,))
    value = x
    for _ in range(20_000):
        value = -value
    assert lower(value.cast(dtypes.float32)).dtype is dtypes.float32
