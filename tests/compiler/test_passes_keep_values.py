"""Every pass of code generation keeps what a kernel computes, on kernels of real programs."""

from dataclasses import replace

import numpy as np
import pytest

import core
from core import Tensor
from core.compiler import pipeline
from core.compiler.passes import observe
from core.ir import AddressSpace, Op, toposort
from core.reference.formats import STORED
from core.reference.run import run
from core.render import code_for_op
from core.runtime import storage_of_value
from core.schedule.callify import callify
from core.testing import pass_checks

SMALL = {core.dtypes.bfloat16, core.dtypes.fp8_e4m3, core.dtypes.fp8_e5m2}
TARGET = replace(pass_checks.TARGET, dtypes=pass_checks.TARGET.dtypes - SMALL)
# A sum may be split into partial sums, and a product be fused with it; a function's polynomial
# is not the reference's function.
INEXACT = {"lower-reductions", "decompose"}


def values(*shape, dtype=np.float32):
    generator = np.random.default_rng(sum(shape))
    if dtype == np.float32:
        return Tensor(generator.standard_normal(shape, np.float32))
    return Tensor(generator.integers(-9, 9, shape).astype(dtype))


def gradient_of_convolution():
    x, w = values(2, 3, 9, 7), values(4, 3, 3, 3)
    return x.conv2d(w, padding=1).relu().sum().gradient(w, x)


PROGRAMS = {
    "chain": lambda: (values(13, 7) * 2 + values(7)).exp() - 1,
    "transposed": lambda: values(33, 18).transpose(0, 1) + values(18, 33),
    "matmul": lambda: values(17, 33).matmul(values(33, 21)).relu(),
    "large matmul": lambda: values(64, 64).matmul(values(64, 64)),
    "softmax": lambda: values(6, 37).softmax(-1),
    "layernorm": lambda: values(6, 48).layernorm(),
    "convolution": lambda: values(2, 3, 9, 7).conv2d(values(4, 3, 3, 3), padding=1),
    "gradients": gradient_of_convolution,
    "pooling": lambda: values(1, 2, 9, 8).max_pool2d(2),
    "columns": lambda: values(65, 9).sum(0),
    "rows": lambda: values(9, 65).max(1),
    "long sum": lambda: values(70_000).sum(),
    "padded": lambda: values(5, 6).pad(((1, 2), (0, 3))),
    "flipped": lambda: values(5, 6).flip(0, 1) - values(5, 6),
    "gather": lambda: values(9, 4)[Tensor([8, 0, 3, -1])],
    "integers": lambda: values(40, dtype=np.int32) // 3 + values(40, dtype=np.int32) % 5,
    "small integers": lambda: values(40, dtype=np.int8) * 100,
    "half": lambda: values(24).cast(core.dtypes.float16).exp(),
    "bfloat16": lambda: values(24).cast(core.dtypes.bfloat16) * 3,
    "fp8": lambda: (values(24).cast(core.dtypes.fp8_e4m3).float() * 3).cast(
        core.dtypes.fp8_e5m2),
    "iota": lambda: Tensor.arange(37).reshape(37, 1) * Tensor.arange(3),
    "running sum": lambda: values(4, 50).cumsum(1),
}


def kernels(result):
    tensors = result if isinstance(result, (list, tuple)) else [result]
    call = callify([t.uop for t in tensors], "ANY", storage_of_value).call
    linear = pipeline.schedule(call.src[0], TARGET)
    return [c.src[0] for c in linear.src if c.src[0].op is Op.SINK]


def storage(sink, generator):
    params = sorted({n for n in toposort(sink) if n.op is Op.PARAM}, key=lambda n: n.arg.slot)
    assert all(p.arg.space is not AddressSpace.ALU for p in params)
    made = []
    for p in params:
        shape, stored = p.shape, np.dtype(STORED[p.dtype])
        data = (generator.standard_normal(shape).astype(stored) if stored.kind == "f"
                else generator.integers(0, 4, shape).astype(stored))
        made.append(data)
    return made


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_pass_keeps_values(name):
    """`run` executes each stage on the same storage."""
    def compare(step, before, after, seconds):
        buffers = storage(sink, np.random.default_rng(1))
        expected, found = ([b.copy() for b in buffers] for _ in range(2))
        run(before, expected)
        run(after, found)
        for one, other in zip(expected, found, strict=True):
            if step.name in INEXACT and one.dtype.kind == "f":
                close = 2e-3 if one.dtype.itemsize == 2 else 2e-5
                np.testing.assert_allclose(other, one, close, close, err_msg=step.name)
            else:
                np.testing.assert_array_equal(other, one, step.name)

    for sink in kernels(PROGRAMS[name]()):
        with observe(compare):
            pipeline.generate(sink, TARGET, code_for_op(fma=True))
