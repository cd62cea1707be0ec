"""lower-gates: the gate of an index becomes a source of its LOAD or STORE."""

import numpy as np

from core.codegen.lower_gates import lower_gates, split_gate
from core.ir import Op, UOp, toposort
from core.testing.pass_checks import expect_values, kernel, place
from core.testing.pass_checks import lower_gates as check


def test_lower_gates():
    check()


def test_a_gated_store_stores_nothing():
    i = UOp.range(8, 0)
    even = (i % 2).eq(0)
    sink = kernel(place(0, 8).index(i.valid(even)).store(place(1, 8).index(i).load()).end(i))
    lowered = lower_gates(sink)
    (store,) = [n for n in toposort(lowered) if n.op is Op.STORE]
    assert store.src[2] is even
    assert store.src[0].src[1] is i
    x = np.arange(8, dtype=np.float32)
    expect_values(lowered, np.where(x % 2 == 0, x, 77).astype(np.float32), x)


def test_gates_of_gates_are_joined():
    i = UOp.range(8, 0)
    outer, inner = i < 6, UOp.const(1) < i
    assert split_gate(i.valid(inner).valid(outer)) == (i, outer & inner)
    assert split_gate(i) == (i, None)
