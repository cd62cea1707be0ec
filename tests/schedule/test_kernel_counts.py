"""The kernel counts of DESIGN 3, on shapes of the speed yardstick: 2 cores, 2 MB L2, 31 buffers."""

import pytest

from core.ir import STORED_DTYPES, Op, UOp, dtypes
from core.plugin import Target
from core.schedule.callify import callify
from core.schedule.create_schedule import create_schedule
from core.schedule.prepare_graph import prepare_graph
from core.simplify import simplify

TARGET = Target(name="TEST", architecture="test", dtypes=frozenset(STORED_DTYPES), cores=2,
                l2_bytes=2 << 20, vector_bytes=64, vector_registers=32, has_threads=True)


def data(*shape):
    return UOp.new_buffer("TEST", dtypes.float32, shape)


def along_last(row, extent):
    """A value per row, repeated along a new last axis."""
    rank = len(row.shape)
    return row.expand((extent,)).permute((*range(1, rank + 1), 0))


def reduce_last(x, op=Op.ADD):
    rank = len(x.shape)
    return x.permute((rank - 1, *range(rank - 1))).reduce(op, axes=1)


def matmul(a, b):
    *_, rows, _ = a.shape
    columns, rank = b.shape[-1], len(a.shape) - 2
    left = a.expand((columns,)).permute((rank + 2, *range(1, rank + 2), 0))
    right = b.expand((rows,)).permute((rank + 1, *range(1, rank + 1), 0, rank + 2))
    return (left * right).reduce(Op.ADD, axes=1)


def softmax(x):
    extent = x.shape[-1]
    e = (x - along_last(reduce_last(x, Op.MAX), extent)).alu(Op.EXP)
    return e / along_last(reduce_last(e), extent)


def layernorm(x):
    extent = x.shape[-1]
    centred = x - along_last(reduce_last(x) * (1 / extent), extent)
    variance = reduce_last(centred * centred) * (1 / extent)
    return centred / along_last((variance + 1e-5).alu(Op.SQRT), extent)


def attention(q, k, v):
    rank = len(k.shape)
    scores = matmul(q, k.permute((*range(rank - 2), rank - 1, rank - 2)))
    return matmul(softmax(scores * 0.125), v)


def windows(x, size):
    """The last axis as (positions, size) windows."""
    rank, count = len(x.shape), x.shape[-1] - size + 1
    position, offset = UOp.range(count, 0), UOp.range(size, 1)
    index = (position + offset).stage(position, offset)
    seen = x.permute((rank - 1, *range(rank - 1))).index(index)
    return seen.permute((*range(2, rank + 1), 0, 1))


def convolution(x, weight):
    batch, _, *_ = x.shape
    out, _, height, width = weight.shape
    seen = windows(x.permute((0, 1, 3, 2)), height).permute((0, 1, 3, 4, 2))
    seen = windows(seen, width).permute((1, 3, 5, 0, 2, 4))
    rows, columns = seen.shape[4:]
    left = seen.expand((out,)).permute((1, 2, 3, 4, 0, 5, 6))
    right = weight.permute((1, 2, 3, 0)).expand((batch, rows, columns))
    return (left * right.permute((3, 4, 5, 0, 6, 1, 2))).reduce(Op.ADD, axes=3)


def relu(x):
    return x.maximum(0.0)


def kernels(*values, target=TARGET):
    body = callify(values, "TEST", lambda node: None).call.src[0]
    return len(create_schedule(prepare_graph(simplify(body), target), target).src)


def test_elementwise_chain_is_one():
    x = y = data(1000)
    for _ in range(30):
        y = y * 2.0 + x
    assert kernels(y) == 1


def test_matmul_bias_relu_is_one():
    bias = data(512).expand((512,))
    assert kernels(relu(matmul(data(512, 512), data(512, 512)) + bias)) == 1


def test_convolution_bias_relu_is_one():
    bias = data(64).expand((8, 56, 56)).permute((0, 3, 1, 2))
    assert kernels(relu(convolution(data(8, 64, 58, 58), data(64, 64, 3, 3)) + bias)) == 1


@pytest.mark.parametrize("row_wise", [softmax, layernorm])
def test_row_wise_functions_are_one(row_wise):
    assert kernels(row_wise(data(2048, 2048))) == 1


@pytest.mark.parametrize("shape", [(4, 1 << 22), (1, 1 << 20)])
def test_softmax_of_rows_too_long_for_scratch_is_at_most_three(shape):
    assert kernels(softmax(data(*shape))) <= 3


def test_attention_is_one():
    assert kernels(attention(*(data(4, 8, 256, 64) for _ in range(3)))) == 1


def test_long_attention_is_at_most_three():
    assert kernels(attention(*(data(1, 8, 16384, 64) for _ in range(3)))) <= 3


def test_batchnorm_statistics_are_at_most_two():
    x = data(64, 32, 24, 24).permute((0, 2, 3, 1))
    count = 64 * 24 * 24
    mean = x.reduce(Op.ADD, axes=3) * (1 / count)
    centred = x - mean.expand((64, 24, 24))
    assert kernels(mean, (centred * centred).reduce(Op.ADD, axes=3) * (1 / count)) <= 2


def adam_step():
    parameter, gradient, first, second = (data(64, 64, 3, 3) for _ in range(4))
    new_first = first * 0.9 + gradient * 0.1
    new_second = second * 0.99 + gradient * gradient * 0.01
    return new_first, new_second, parameter - new_first / (new_second.alu(Op.SQRT) + 1e-8)


def test_adam_is_one_for_each_parameter():
    assert kernels(*adam_step()) == 1


def test_adam_of_equal_shapes_shares_kernels_up_to_the_buffer_limit():
    steps = [value for _ in range(6) for value in adam_step()]
    assert kernels(*steps) == -(-6 * 7 // 31)


def test_sum_of_sixteen_million_is_two():
    assert kernels(data(1 << 24).reduce(Op.ADD, axes=1)) == 2


def test_two_layers_are_two():
    hidden = relu(matmul(data(512, 784), data(784, 512)))
    assert kernels(matmul(hidden, data(512, 10))) == 2


def test_independent_outputs_of_one_shape_fuse():
    assert kernels(data(64, 64) * 2.0, data(64, 64) + 1.0) == 1


def test_contiguous_forces_a_kernel():
    assert kernels((data(64) + 1.0).contiguous() * 2.0) == 2


def test_no_kernel_takes_more_buffers_than_the_target():
    narrow = Target(name="TEST", architecture="test", dtypes=frozenset(STORED_DTYPES), cores=2,
                    max_buffers=8)
    total = data(32)
    for _ in range(20):
        total = total + data(32)
    body = callify((total,), "TEST", lambda node: None).call.src[0]
    linear = create_schedule(prepare_graph(body, narrow), narrow)
    assert all(len(call.src) - 1 <= 8 for call in linear.src)
    assert len(linear.src) >= 3


def test_long_chains_schedule_without_recursion():
    x = y = data(16)
    for k in range(20_000):
        y = y + x if k % 2 else y * 1.5
    assert kernels(y) > 1
