"""decompose, the pass: what a renderer lacks is lowered, what it has stays."""

import numpy as np

from core.codegen.decompose import decompose
from core.ir import Op, UOp, toposort
from core.reference.run import run
from core.testing.pass_checks import TARGET, kernel, place
from core.testing.pass_checks import decompose as check


def exponential():
    i = UOp.range(8, 0)
    value = place(1, 8).index(i).load().alu(Op.EXP)
    return kernel(place(0, 8).index(i).store(value).end(i), actions=())


def test_decompose():
    check()


def test_an_offered_operation_stays():
    assert decompose(exponential(), TARGET, frozenset(Op)) is exponential()


def test_the_polynomial_is_close():
    lowered = decompose(exponential(), TARGET, frozenset(Op) - {Op.EXP, Op.EXP2})
    assert not {Op.EXP, Op.EXP2} & {n.op for n in toposort(lowered)}
    x, result = np.linspace(-5, 5, 8, dtype=np.float32), np.zeros(8, np.float32)
    run(lowered, [result, x])
    np.testing.assert_allclose(result, np.exp(x), 3e-7)
