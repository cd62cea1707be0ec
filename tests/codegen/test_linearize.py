"""linearize: loops open and close in order, and what depends on few loops is hoisted."""

import numpy as np

from core.codegen.linearize import linearize
from core.ir import Op, UOp
from core.testing.pass_checks import executed, expect_values, kernel, place
from core.testing.pass_checks import linearize as check


def test_linearize():
    check()


def test_each_loop_is_closed_by_one_end():
    i, j = UOp.range(3, 0), UOp.range(5, 1)
    sink = kernel(place(0, 15).index(i * 5 + j).store(place(1, 15).index(j * 3 + i).load())
                  .end(i, j))
    linear = linearize(sink)
    shape = [(n.op, (n.src[1] if n.op is Op.END else n).arg.id)
             for n in linear.src if n.op in (Op.RANGE, Op.END)]
    assert shape == [(Op.RANGE, 0), (Op.RANGE, 1), (Op.END, 1), (Op.END, 0)]
    x = np.arange(15, dtype=np.float32)
    expect_values(linear, x.reshape(5, 3).T.ravel(), x)


def test_two_ends_over_one_range_are_two_loops():
    """b = x + 1, then a = b[reversed]: the second loop runs after the whole of the first."""
    i = UOp.range(6, 0)
    middle = UOp.param(0, place(0, 6).dtype, (6,))
    fill = middle.index(i).store(place(2, 6).index(i).load() + 1.0).end(i)
    read = middle.after(fill).index(5 - i).load()
    linear = linearize(kernel(place(1, 6).index(i).store(read).end(i)))
    assert len([n for n in linear.src if n.op is Op.RANGE]) == 2
    assert executed(linear, Op.STORE) == 12
    x = np.arange(6, dtype=np.float32)
    expect_values(linear, x + 1, np.zeros(6, np.float32), x)
