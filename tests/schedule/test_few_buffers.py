"""A device whose kernels take 8 buffers, WebGPU's guaranteed number: schedules and their values."""

import itertools
from dataclasses import replace
from functools import reduce

import numpy as np
import pytest

from core.compiler import pipeline
from core.foundation.errors import CompileError
from core.ir import AddressSpace, Op, UOp, dtypes, toposort
from core.reference.evaluate import evaluate_stores
from core.reference.run import run_schedule
from core.testing.pass_checks import EVERY_OP, TARGET, kernel, place

FEW = 8
INPUTS = 30


def inputs(*shape):
    return [UOp.param(k + 1, dtypes.float32, shape, "TEST") for k in range(INPUTS)]


def added(values):
    return reduce(lambda a, b: a + b, values)


def concatenated(values):
    """Each in its place, one over the other."""
    result = values[0].pad((0, 0), (INPUTS * 4, 6))
    for k, value in enumerate(values[1:], 1):
        row = UOp.range(INPUTS * 4, 0)
        mine = (row >= 4 * k).stage(row).expand((6,)).permute((1, 0))
        result = mine.where(value.pad((4 * k, 0), (INPUTS * 4, 6)), result)
    return result


def product(values):
    left, right = added(values[:15]), added(values[15:])
    return (left.expand((4,)).permute((2, 1, 0)) * right.expand((4,)).permute((2, 0, 1))).reduce(
        Op.ADD, axes=1)


VALUES = {
    "sum": added,
    "sum of functions": lambda v: added(x.alu(Op.EXP) * y for x, y in itertools.pairwise(v)),
    "sum of sums": lambda v: added([x.reduce(Op.ADD, axes=1) for x in v]),
    "reduced sum": lambda v: added(v).reduce(Op.MAX, axes=2),
    "stack": lambda v: UOp.stack(*v),
    "stack of expressions": lambda v: UOp.stack(*(x * y for x, y in itertools.pairwise(v))),
    "stack, reduced": lambda v: UOp.stack(*v).reduce(Op.ADD, axes=1),
    "stack of numbers": lambda v: UOp.stack(*(x.reduce(Op.ADD, axes=2) for x in v)),
    "numbers": lambda v: added([x.index(1, 2) for x in v]),
    "concatenation": concatenated,
    "product": product,
    "selection": lambda v: reduce(lambda a, b: (a < b).where(b, a * 2.0), v),
}


@pytest.mark.parametrize("limit", [5, FEW, 31])
@pytest.mark.parametrize("name", VALUES)
def test_kernels_take_no_more(name, limit):
    given = inputs(4, 6)
    value = VALUES[name](given)
    out = UOp.param(0, value.dtype, value.shape, "TEST")
    body = UOp.sink(out.store(value))
    linear = pipeline.schedule(body, replace(TARGET, max_buffers=limit))
    for call in linear.src:
        buffers = {n for n in toposort(call.src[0]) if n.op is Op.PARAM
                   and n.arg.space is not AddressSpace.ALU}
        assert len(buffers) <= limit
    rng = np.random.default_rng(1)
    data = {p: rng.standard_normal((4, 6), np.float32) for p in given}
    (expected,) = evaluate_stores(body, data).values()
    result = np.full(expected.size, np.nan, np.float32)
    arena = [np.zeros(int(p.shape[0]), np.uint8) for p in toposort(linear)
             if p.op is Op.PARAM and p.arg.slot >= 1 << 20]
    run_schedule(linear, [result, *(data[p].ravel() for p in given), *arena])
    np.testing.assert_allclose(result, expected.ravel(), 1e-5, 1e-5)


def test_a_kernel_of_a_user_that_takes_more_is_refused():
    i = UOp.range(4, 0)
    value = added([place(k + 1, 4).index(i).load() for k in range(FEW)])
    sink = kernel(place(0, 4).index(i).store(value).end(i))
    with pytest.raises(CompileError, match="9 buffers.*takes 8"):
        pipeline.generate(sink, replace(TARGET, max_buffers=FEW), EVERY_OP)
