"""Tensors without elements, through every operation."""

import numpy as np
import pytest

from core import Tensor, dtypes

X = np.zeros((2, 0, 3), np.float32)
NONE = np.zeros((0,), np.int32)
UNARY = (
    "abs acos acosh asin asinh atan atanh ceil celu clone contiguous contiguous_backward cos cosh "
    "detach elu erf erfc exp exp2 expm1 floor gelu hardsigmoid hardswish hardtanh leaky_relu log "
    "log10 log1p log2 logsigmoid mish neg quick_gelu realize reciprocal relu relu6 round rsqrt "
    "selu sigmoid sign silu sin sinh softplus softsign sqrt square swish tan tanh trunc zeros_like "
    "ones_like empty_like rand_like randn_like dropout nan_to_num"
).split()
OPERANDS = ("add sub mul div pow maximum minimum mod fmod copysign logaddexp eq ne isclose "
            "logical_and logical_or logical_xor").split()
INTEGERS = "bitwise_and bitwise_or bitwise_xor lshift rshift".split()

# An operation on X of shape (2, 0, 3), and what numpy makes of it; for the rest, only the shape.
NOTHING = {
    "T": (lambda x: x.T, (3, 0, 2)), "transpose": (lambda x: x.transpose(0, 2), (3, 0, 2)),
    "permute": (lambda x: x.permute(1, 0, 2), (0, 2, 3)),
    "reshape": (lambda x: x.reshape(0, 5), (0, 5)), "view": (lambda x: x.view(3, 0), (3, 0)),
    "flatten": (lambda x: x.flatten(1), (2, 0)), "unflatten": (
        lambda x: x.unflatten(2, (3, 1)), (2, 0, 3, 1)),
    "expand": (lambda x: x.expand(4, 2, 0, 3), (4, 2, 0, 3)),
    "squeeze": (lambda x: x.squeeze(), (2, 0, 3)),
    "unsqueeze": (lambda x: x.unsqueeze(1), (2, 1, 0, 3)),
    "flip": (lambda x: x.flip((0, 1)), (2, 0, 3)), "roll": (lambda x: x.roll(1, 1), (2, 0, 3)),
    "shrink": (lambda x: x.shrink(((0, 1), None, (1, 3))), (1, 0, 2)),
    "shrink_to": (lambda x: x.shrink_to(1, 0, 2), (1, 0, 2)),
    "pad": (lambda x: x.pad((0, 0, 1, 1)), np.zeros((2, 2, 3))),
    "pad_to": (lambda x: x.pad_to(2, 2, 3), np.zeros((2, 2, 3))),
    "repeat": (lambda x: x.repeat(2, 3, 1), (4, 0, 3)),
    "repeat_interleave": (lambda x: x.repeat_interleave(2, 0), (4, 0, 3)),
    "rearrange": (lambda x: x.rearrange("a b c -> (a c) b"), (6, 0)),
    "cat": (lambda x: x.cat(x, dim=1), (2, 0, 3)), "stack": (lambda x: x.stack(x), (2, 2, 0, 3)),
    "split": (lambda x: x.split(1, 2)[0], (2, 0, 1)), "chunk": (lambda x: x.chunk(2)[1], (1, 0, 3)),
    "meshgrid": (lambda x: x.reshape(0).meshgrid(Tensor([1, 2]))[0], (0, 2)),
    "diag": (lambda x: x.reshape(0).diag(), (0, 0)), "diagonal": (
        lambda x: x[0].diagonal(), (0,)),
    "tril": (lambda x: x.tril(), (2, 0, 3)), "triu": (lambda x: x.triu(), (2, 0, 3)),
    "unfold": (lambda x: x.unfold(2, 2, 1), (2, 0, 2, 2)),
    "interpolate": (lambda x: x.reshape(0, 1, 2, 3).interpolate((4, 4)), (0, 1, 4, 4)),
    "sum": (lambda x: x.sum(1), X.sum(1)), "prod": (lambda x: x.prod(1), X.prod(1)),
    "mean": (lambda x: x.mean(1), np.full((2, 3), np.nan)),
    "median": (lambda x: x.median(1), np.full((2, 3), np.nan)),
    "max": (lambda x: x.max(0), (0, 3)), "min": (lambda x: x.min(2), (2, 0)),
    "argmax": (lambda x: x.argmax(2), (2, 0)), "argmin": (lambda x: x.argmin(0), (0, 3)),
    "all": (lambda x: x.all(1), X.all(1)), "any": (lambda x: x.any(1), X.any(1)),
    "std": (lambda x: x.std(2), (2, 0)), "var": (lambda x: x.var(0), (0, 3)),
    "std_mean": (lambda x: x.std_mean(2)[0], (2, 0)), "var_mean": (
        lambda x: x.var_mean(2)[1], (2, 0)),
    "logsumexp": (lambda x: x.logsumexp(2), (2, 0)),
    "softmax": (lambda x: x.softmax(1), (2, 0, 3)), "softmin": (lambda x: x.softmin(), (2, 0, 3)),
    "log_softmax": (lambda x: x.log_softmax(1), (2, 0, 3)),
    "normalize": (lambda x: x.normalize(dim=2), (2, 0, 3)),
    "layernorm": (lambda x: x.layernorm(), (2, 0, 3)),
    "batchnorm": (lambda x: x.batchnorm(None, None, Tensor([]), Tensor([])), (2, 0, 3)),
    "cumsum": (lambda x: x.cumsum(1), (2, 0, 3)), "cumprod": (lambda x: x.cumprod(1), (2, 0, 3)),
    "cummax": (lambda x: x.cummax(1), (2, 0, 3)), "cummin": (
        lambda x: x.cummin(2), (2, 0, 3)),
    "logcumsumexp": (lambda x: x.logcumsumexp(1), (2, 0, 3)),
    "sort": (lambda x: x.sort(1)[0], (2, 0, 3)), "argsort": (lambda x: x.argsort(2), (2, 0, 3)),
    "topk": (lambda x: x.topk(2, 2)[0], (2, 0, 2)),
    "matmul": (lambda x: x.transpose(1, 2) @ x, np.zeros((2, 3, 3))),
    "dot": (lambda x: x.reshape(0).dot(x.reshape(0)), np.zeros(())),
    "outer": (lambda x: x.reshape(0).outer(Tensor([1.0, 2.0])), (0, 2)),
    "tensordot": (lambda x: x.tensordot(x, ((1, 2), (1, 2))), np.zeros((2, 2))),
    "vecdot": (lambda x: x.vecdot(x, 1), np.zeros((2, 3))), "cross": (
        lambda x: x.cross(x), (2, 0, 3)), "kron": (lambda x: x.kron(x), (4, 0, 9)),
    "cov": (lambda x: x.reshape(2, 0).cov(), np.full((2, 2), np.nan)),
    "nansum": (lambda x: x.nansum(1), X.sum(1)), "nanmean": (
        lambda x: x.nanmean(1), np.full((2, 3), np.nan)),
    "einsum": (lambda x: Tensor.einsum("abc,abd->acd", x, x), np.zeros((2, 3, 3))),
    "linear": (lambda x: x.linear(Tensor.ones(3, 4)), (2, 0, 4)),
    "sequential": (lambda x: x.sequential([Tensor.relu]), (2, 0, 3)),
    "conv1d": (lambda x: x.reshape(0, 2, 3).conv1d(Tensor.ones(4, 2, 2)), (0, 4, 2)),
    "conv3d": (lambda x: x.reshape(0, 2, 3, 3, 3).conv3d(Tensor.ones(4, 2, 2, 2, 2)),
               (0, 4, 2, 2, 2)),
    "conv2d": (lambda x: x.reshape(0, 2, 3, 3).conv2d(Tensor.ones(4, 2, 2, 2)), (0, 4, 2, 2)),
    "conv_transpose2d": (
        lambda x: x.reshape(0, 2, 3, 3).conv_transpose2d(Tensor.ones(2, 4, 2, 2)), (0, 4, 4, 4)),
    "max_pool2d": (lambda x: x.reshape(0, 2, 4, 4).max_pool2d(), (0, 2, 2, 2)),
    "avg_pool2d": (lambda x: x.reshape(0, 2, 4, 4).avg_pool2d(), (0, 2, 2, 2)),
    "scaled_dot_product_attention": (lambda x: x.scaled_dot_product_attention(x, x), (2, 0, 3)),
    "gather": (lambda x: x.gather(2, Tensor(NONE.reshape(2, 0, 1))), (2, 0, 1)),
    "scatter": (lambda x: x.scatter(2, Tensor(NONE.reshape(2, 0, 1)), 1.0), (2, 0, 3)),
    "scatter_reduce": (lambda x: x.scatter_reduce(
        2, Tensor(NONE.reshape(2, 0, 1)), Tensor(X[:, :, :1]), "sum"), (2, 0, 3)),
    "masked_fill": (lambda x: x.masked_fill(x > 0, 1.0), (2, 0, 3)),
    "masked_select": (lambda x: x.masked_select(x > 0), (0,)),
    "nonzero": (lambda x: x.nonzero(), (0, 3)),
    "one_hot": (lambda x: Tensor(NONE).one_hot(4), (0, 4)),
    "where": (lambda x: (x > 0).where(x, 1.0), (2, 0, 3)),
    "clamp": (lambda x: x.clamp(0, 1), (2, 0, 3)), "clip": (lambda x: x.clip(0, 1), (2, 0, 3)),
    "lerp": (lambda x: x.lerp(x, 0.5), (2, 0, 3)),
    "isnan": (lambda x: x.isnan(), X > 0), "isinf": (lambda x: x.isinf(), X > 0),
    "isfinite": (lambda x: x.isfinite(), X > 0), "logical_not": (
        lambda x: x.logical_not(), X > 0),
    "bitwise_not": (lambda x: ~x.int(), (2, 0, 3)),
    "allclose": (lambda x: Tensor(x.allclose(x)), np.array(True)),
    "cast": (lambda x: x.cast("int8"), X.astype("i1")),
    "bitcast": (lambda x: x.bitcast("int32"), X.view("i4")),
    "full_like": (lambda x: x.full_like(3), (2, 0, 3)),
    "assign": (lambda x: x.assign(x + 1), (2, 0, 3)),
    "replace": (lambda x: x.replace(x + 1), (2, 0, 3)),
    "cross_entropy": (lambda x: x.reshape(0, 3).cross_entropy(Tensor(NONE), reduction="sum"),
                      np.zeros(())),
    "sparse_categorical_crossentropy": (
        lambda x: x.reshape(0, 3).sparse_categorical_crossentropy(Tensor(NONE)),
        np.array(np.nan)),
    "nll_loss": (lambda x: x.reshape(0, 3).nll_loss(Tensor(NONE), reduction="none"), (0,)),
    "binary_crossentropy": (lambda x: x.binary_crossentropy(x), np.array(np.nan)),
    "binary_crossentropy_logits": (lambda x: x.binary_crossentropy_logits(x), np.array(np.nan)),
    "multinomial": (lambda x: (x.reshape(0, 3) + 1).multinomial(2, True), (0, 2)),
    "getitem": (lambda x: x[:, :, 1], (2, 0)),
    "getitem of an index": (lambda x: x[Tensor([1, 0, 1])], (3, 0, 3)),
    "getitem of none": (lambda x: x[Tensor(NONE)], (0, 0, 3)),
    "to_device": (lambda x: x.to_device(x.device), (2, 0, 3)),
    "from_dlpack": (lambda x: Tensor.from_dlpack(X), (2, 0, 3)), "mT": (lambda x: x.mT, (2, 3, 0)),
    "to": (lambda x: x.to("REFERENCE"), (2, 0, 3)), "to_": (lambda x: x.to_(None), (2, 0, 3)),
    "gradient": (lambda x: (x * x).sum().gradient(x)[0], (2, 0, 3)),
    "backward": (lambda x: ((x * 2).sum().backward(), x.grad)[1], (2, 0, 3)),
    "numpy": (lambda x: Tensor(x.numpy()), X), "tolist": (lambda x: Tensor(x.tolist()), (2, 0)),
    **{name: (lambda x, n=name: getattr(x, n)(x), (2, 0, 3)) for name in OPERANDS},
    **{name: (lambda x, n=name: getattr(x.int(), n)(x.int()), (2, 0, 3)) for name in INTEGERS},
    **{name: (getattr(Tensor, name), (2, 0, 3)) for name in UNARY},
    **{name: (lambda x, n=name: getattr(x, n)(), (2, 0, 3))
       for name in "bfloat16 bool double float half int long short".split()},
    **{name: (lambda x, n=name: getattr(Tensor, n)(2, 0, 3), (2, 0, 3))
       for name in "empty glorot_uniform kaiming_normal kaiming_uniform ones rand randint randn "
                   "normal uniform scaled_uniform zeros".split()},
    "arange": (lambda x: Tensor.arange(0), (0,)), "eye": (lambda x: Tensor.eye(0), (0, 0)),
    "full": (lambda x: Tensor.full((0, 2), 1), (0, 2)),
    "linspace": (lambda x: Tensor.linspace(0, 1, 0), (0,)),
    "randperm": (lambda x: Tensor.randperm(0), (0,)),
}
# What is no operation on values, or reads exactly one, which nothing has not.
NO_OPERATION = set(
    "data device dtype element_size grad is_floating_point item manual_seed nbytes ndim numel "
    "requires_grad shape size train training uop".split())


def test_the_table_of_nothing_has_every_operation():
    public = {name for name in dir(Tensor) if not name.startswith("_")}
    assert public - set(NOTHING) - NO_OPERATION == set()


@pytest.mark.parametrize("operation", NOTHING)
@pytest.mark.parametrize("lazy", [False, True])
def test_tensors_without_elements(operation, lazy):
    call, expected = NOTHING[operation]
    given = Tensor(X)
    result = call((given + 0.0).detach() if lazy and operation != "backward" else given)
    shape = expected if isinstance(expected, tuple) else expected.shape
    assert result.shape == shape
    readable = result.float() if result.dtype is dtypes.bfloat16 else result
    values = readable.numpy()
    assert values.shape == shape
    if not isinstance(expected, tuple):
        np.testing.assert_array_equal(values, expected)
