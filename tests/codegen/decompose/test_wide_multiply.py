"""The upper half of a product, with and without a wider integer."""

import numpy as np
import pytest

from core.codegen.decompose.arithmetic import Context
from core.codegen.decompose.wide_multiply import multiply_high
from core.ir import UOp, dtypes
from core.testing.elementwise import EVERYTHING, PLAIN, evaluate, target_with


@pytest.mark.parametrize(("dtype", "wider"), [("uint32", 1), ("uint32", 0), ("uint64", 1)])
def test_upper_half(dtype, wider):
    bits = np.iinfo(dtype).bits
    values = [0, 1, 2, 3, (1 << bits) - 1, 1 << (bits - 1), (1 << bits // 2) - 1, 0x9E3779B9, 12345]
    a, b = (np.ascontiguousarray(v.ravel()) for v in np.meshgrid(*[np.array(values, dtype)] * 2))
    held = dtypes.uint32 if bits == 32 else dtypes.uint64
    available = EVERYTHING if wider else EVERYTHING - {dtypes.uint64}
    x, y = (UOp.param(k, held, a.shape) for k in (0, 1))
    graph = multiply_high(x, y, Context(target_with(dtypes=available), PLAIN))
    wanted = [int(p) * int(q) >> bits for p, q in zip(a, b, strict=True)]
    assert evaluate(graph, {x: a, y: b}).tolist() == wanted
