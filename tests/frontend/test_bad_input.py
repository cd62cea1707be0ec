"""Bad and unusual input: an error at the call that made the mistake, in the user's words."""

import inspect
import os
import re
import subprocess
import sys
import traceback

import numpy as np
import pytest

from core import Context, Device, Tensor, Variable, dtypes, jit, nn
from core.foundation.errors import (
    CoreError,
    DeviceError,
    DTypeError,
    IndexOutOfRangeError,
    OutOfMemoryError,
    ShapeError,
)


def ones(*shape):
    return Tensor.ones(*shape)


def words(error):
    return str(error.value)


# One row per mistake: the call, the error, and words that its message has.
SHAPES = {
    "add": (lambda: ones(2, 3) + ones(4, 3), ["(2, 3)", "(4, 3)", "2 and 4 differ"]),
    "matmul": (lambda: ones(2, 3) @ ones(4, 3), ["matmul", "(2, 3)", "(4, 3)", "3 and 4 differ"]),
    "matmul of a number": (lambda: ones(2, 3) @ Tensor(1.0), ["matmul needs axes", "()"]),
    "reshape": (lambda: ones(2, 3).reshape(4, 2), ["(2, 3) of 6", "(4, 2) of 8"]),
    "reshape -1": (lambda: ones(2, 3).reshape(-1, 4), ["6 elements", "multiple of 4"]),
    "reshape -1 -1": (lambda: ones(2, 3).reshape(-1, -1), ["one size may be -1"]),
    "reshape of nothing": (lambda: ones(0, 3).reshape(0, -1), ["(0, 3)", "multiple of 0"]),
    "permute": (lambda: ones(2, 3).permute(0, 0), ["(0, 0)", "(2, 3)"]),
    "expand": (lambda: ones(2, 3).expand(4, 3), ["(2, 3)", "does not broadcast to (4, 3)"]),
    "axes twice": (lambda: ones(2, 3).sum((0, 0)), ["twice", "(0, 0)"]),
    "cat": (lambda: ones(2, 3).cat(ones(2, 4)), ["cat along axis 0", "(2, 3)", "(2, 4)"]),
    "stack": (lambda: Tensor.stack(ones(2, 3), ones(2, 4)), ["stack", "(2, 3)", "(2, 4)"]),
    "channels": (lambda: ones(1, 3, 8, 8).conv2d(ones(4, 2, 3, 3)),
                 ["convolution of 3 channels", "(4, 2, 3, 3)"]),
    "kernel": (lambda: ones(1, 3, 2, 2).conv2d(ones(4, 3, 3, 3)), ["shorter than a kernel of 3"]),
    "bias": (lambda: ones(1, 3, 8, 8).conv2d(ones(4, 3, 3, 3), ones(5)),
             ["bias of shape (5,)", "4 output channels"]),
    "pool": (lambda: ones(1, 3, 2, 2).max_pool2d(5), ["(1, 3, 2, 2)", "(5, 5)"]),
    "pool -1": (lambda: ones(1, 3, 2, 2).max_pool2d(-1), ["kernel_size", "-1"]),
    "pad": (lambda: ones(3).pad((1,)), ["(1,)", "(3,)", "two amounts per axis"]),
    "pad away": (lambda: ones(3).pad((-1, -5)), ["(-1, -5)", "3 elements"]),
    "shrink": (lambda: ones(3).shrink(((0, 7),)), ["0:7", "extent 3"]),
    "where": (lambda: (ones(3) > 0).where(ones(3), ones(4)), ["(3,)", "(4,)"]),
    "assign": (lambda: ones(3).assign(ones(4)), ["(4,)", "does not broadcast to (3,)"]),
    "assign in part": (lambda: ones(3).__setitem__(slice(0, 2), ones(5)), ["(5,)", "(2,)"]),
    "in place": (lambda: ones(3).__iadd__(ones(2, 3)), ["(2, 3)", "(3,)"]),
    "Linear": (lambda: nn.Linear(3, 4)(ones(2, 5)), ["(2, 5)", "5 and 3 differ"]),
    "BatchNorm": (lambda: nn.BatchNorm(3)(ones(2, 5, 4, 4)), ["3 channels", "(2, 5, 4, 4)"]),
    "einsum": (lambda: Tensor.einsum("ij,jk->ik", ones(2, 3), ones(4, 5)), ["3 and 4"]),
    "truth": (lambda: bool(ones(3)), ["truth", "(3,)", ".any() or .all()"]),
    "item": (lambda: ones(3).item(), ["item()", "(3,)", "tolist()"]),
    "max of nothing": (lambda: ones(0).max(), ["max over no elements", "(0,)"]),
    "argmax of nothing": (lambda: ones(2, 0).argmax(1), ["argmax over no elements", "(2, 0)"]),
    "topk": (lambda: ones(3).topk(7), ["topk", "7 of 3"]),
    "gradient's shape": (lambda: (ones(3) * 2).gradient(ones(3), gradient=ones(5)),
                         ["gradient=", "(5,)", "(3,)"]),
    "gradient of many": (lambda: ones(3).backward(), ["(3,)", "gradient=", "tensor.sum()"]),
    "negative": (lambda: Tensor.zeros(-1, 2), ["size cannot be negative: -1"]),
    "negative linspace": (lambda: Tensor.linspace(0, 1, -1), ["negative: -1"]),
    "negative eye": (lambda: Tensor.eye(-1), ["negative: -1"]),
    "negative repeat": (lambda: ones(3).repeat(-1), ["negative: -1"]),
    "negative interpolate": (lambda: ones(1, 1, 4, 4).interpolate((-1, 3)), ["negative: -1"]),
    "huge": (lambda: Tensor.zeros(2**40, 2**40), ["1099511627776", "can be addressed"]),
    "huge random": (lambda: Tensor.rand(2**40, 2**40), ["1099511627776", "can be addressed"]),
    "huge expand": (lambda: ones(1).expand(2**70), ["can be addressed"]),
    "arange in steps of 0": (lambda: Tensor.arange(0, 10, 0), ["step is 0"]),
    "endless arange": (lambda: Tensor.arange(float("inf")), ["inf", "no finite range"]),
    "ragged": (lambda: Tensor([[1, 2], [3]]), ["ragged", "axis 1", "2 elements", "another 1"]),
    "ragged number": (lambda: Tensor([[1, 2], 3]), ["ragged", "another a number"]),
    "ragged list": (lambda: Tensor([1, [2]]), ["ragged", "mixed along axis 0"]),
    "ragged deep": (lambda: Tensor([[[1], [2]], [[3], [4, 5]]]), ["ragged", "axis 2"]),
    "full of many": (lambda: Tensor.full((2,), Tensor([1, 2])), ["full", "(2,)"]),
    "bound Variable": (lambda: Variable("n", 1, 5).bind(9), ["n", "9", "1 to 5"]),
    "Variable": (lambda: Variable("n", 5, 1), ["minimum 5 is above its maximum 1"]),
    "split": (lambda: ones(3).split(0), ["0 elements"]),
    "chunk": (lambda: ones(3).chunk(0), ["0 parts"]),
}


@pytest.mark.parametrize("case", SHAPES)
def test_shapes(case):
    call, expected = SHAPES[case]
    with pytest.raises(ShapeError) as error:
        call()
    assert all(word in words(error) for word in expected), words(error)


INDICES = {
    "axis": (lambda: ones(2, 3).sum(2), ["axis 2", "(2, 3)", "-2 to 1"]),
    "transpose": (lambda: ones(2, 3).transpose(0, 5), ["axis 5", "(2, 3)"]),
    "flip": (lambda: ones(3).flip(4), ["axis 4", "(3,)"]),
    "softmax": (lambda: ones(3).softmax(4), ["axis 4", "(3,)"]),
    "sort": (lambda: ones(3).sort(7), ["axis 7", "(3,)"]),
    "unsqueeze": (lambda: ones(3).unsqueeze(5), ["axis 5", "-2 to 1"]),
    "integer": (lambda: ones(2, 3)[5], ["index 5", "axis 0", "(2, 3)"]),
    "list": (lambda: ones(2, 3)[:, [0, 3]], ["3", "axis 1", "(2, 3)"]),
    "too many": (lambda: ones(2, 3)[0, 0, 0], ["3 indices", "(2, 3)"]),
    "two Ellipsis": (lambda: ones(2, 3)[..., ...], ["one Ellipsis"]),
    "write": (lambda: ones(3).__setitem__(7, 1), ["index 7", "(3,)"]),
    "mask": (lambda: ones(2, 3)[Tensor([True, False, True])], ["mask", "(3,)", "(2, 3)"]),
}


@pytest.mark.parametrize("case", INDICES)
def test_indices(case):
    call, expected = INDICES[case]
    with pytest.raises(IndexOutOfRangeError) as error:
        call()
    assert all(word in words(error) for word in expected), words(error)


def byte():
    return Tensor([1], dtype=dtypes.uint8)


DTYPES = {
    "index": (lambda: ones(2, 3)[1.5], ["index", "float64", "dtypes.int32"]),
    "index tensor": (lambda: ones(2, 3)[Tensor([1.0])], ["float32", "dtypes.int32"]),
    "index string": (lambda: ones(2, 3)["a"], ["'a' is no index"]),
    "size": (lambda: Tensor.ones(2.5), ["size is an integer, not 2.5"]),
    "size None": (lambda: Tensor.ones(None), ["size is an integer, not None"]),
    "axis": (lambda: ones(2, 3).sum(1.0), ["axis is an integer, not 1.0"]),
    "objects": (lambda: Tensor(np.array([1, "a", None], object)), ["array of objects", "astype"]),
    "strings": (lambda: Tensor(np.array(["a", "b"])), ["<U1"]),
    "complex": (lambda: Tensor(np.zeros(2, complex)), ["complex128"]),
    "dates": (lambda: Tensor(np.zeros(2, "M8[s]")), ["datetime64[s]"]),
    "records": (lambda: Tensor(np.zeros(2, "i4,f4")), ["f0"]),
    "extended": (lambda: Tensor(np.zeros(2, np.longdouble)), ["float128", "float64"]),
    "string": (lambda: Tensor("abc"), ["made of str", "numpy array"]),
    "string in a list": (lambda: Tensor([1, "a"]), ["'a' of type str"]),
    "None": (lambda: Tensor(None), ["NoneType"]),
    "set": (lambda: Tensor({1}), ["set"]),
    "too big": (lambda: Tensor(2**40), ["1099511627776", "int32", "dtype="]),
    "too big in a list": (lambda: Tensor([1, 2**40]), ["1099511627776", "dtypes.int64"]),
    "too big for bytes": (lambda: Tensor([300], dtype="int8"), ["300", "int8 (-128 to 127)"]),
    "too big an array": (lambda: Tensor(np.array([300]), dtype="int8"), ["300", "int8"]),
    "too big an operand": (lambda: byte() + 300, ["300", "uint8 (0 to 255)"]),
    "negative operand": (lambda: byte() + (-1), ["-1", "uint8 (0 to 255)"]),
    "unknown dtype": (lambda: Tensor([1], dtype="flot32"), ["'flot32'", "did you mean float32?"]),
    "nothing like a dtype": (lambda: ones(3).cast("xyz"), ["'xyz'", "bfloat16"]),
    "bitcast": (lambda: ones(3).bitcast("int64"), ["float32 to int64", "(3,)"]),
    "shift": (lambda: ones(3) << 1, ["<<", "float32", "integer"]),
    "and": (lambda: ones(3) & 1, ["&", "float32"]),
    "invert": (lambda: ~ones(3), ["~", "float32"]),
    "operand": (lambda: ones(3) + "a", ["str"]),
    "operand None": (lambda: None + ones(3), ["NoneType"]),
    "condition": (lambda: ones(3).where(1, 2), ["bool tensor, not float32", "!= 0"]),
    "classes": (lambda: ones(3, 4).cross_entropy(ones(3)), ["class indices", "float32"]),
    "gather": (lambda: ones(3, 3).gather(0, ones(3, 3)), ["gather", "float32"]),
    "assign": (lambda: Tensor([1, 2]).assign(ones(2)), ["float32", "int32", "cast"]),
    "full": (lambda: Tensor.full((2,), "a"), ["full", "'a'"]),
    "random integers": (lambda: Tensor.rand(3, dtype="int32"), ["int32", "randint"]),
    "optimizer": (lambda: nn.Adam([Tensor([1])]), ["parameters", "floats"]),
    "length": (lambda: len(Tensor(1)), ["no length"]),
    "elements": (lambda: list(Tensor(1)), ["no elements"]),
    "as an index": (lambda: [1, 2][Tensor(1.0)], ["float32", "no index"]),
    "backward": (lambda: Tensor([1, 2]).sum().backward(), ["an int32 tensor", "only floats"]),
    "backward of a parameter": (
        lambda: Tensor([1, 2], requires_grad=True).sum().backward(), ["int32", "cast it"]),
    "gradient": (lambda: ones(2).sum().gradient(Tensor([1])), ["with respect to an int32"]),
    "gradient of a number": (lambda: ones(2).sum().gradient(3), ["tensors, not int"]),
    "bfloat16 to numpy": (
        lambda: ones(2).cast("bfloat16").numpy(), ["numpy has no bfloat16", ".float().numpy()"]),
    "fp8 to numpy": (
        lambda: ones(2).cast("fp8_e4m3").numpy(), ["numpy has no fp8_e4m3", ".float().numpy()"]),
    "fp8 of the other kind": (
        lambda: ones(2).cast("fp8_e5m2").numpy(), ["numpy has no fp8_e5m2", ".float().numpy()"]),
}


@pytest.mark.parametrize("case", DTYPES)
def test_dtypes(case):
    call, expected = DTYPES[case]
    with pytest.raises(TypeError) as error:
        call()
    assert all(word in words(error) for word in expected), words(error)


def test_a_seed_is_an_integer():
    with pytest.raises(TypeError, match="integer"):
        Tensor.manual_seed("a")


def test_dropout_is_a_probability():
    with pytest.raises(ValueError, match=re.escape("1.5 is not in [0, 1]")):
        ones(3).dropout(1.5)


def test_a_mistake_is_made_where_it_is_made():
    """The traceback's innermost frame of the user is the line with the mistake."""
    try:
        ones(2, 3) @ ones(4, 3)  # the mistake
    except ShapeError as error:
        own = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == __file__]
        assert own[-1].line == "ones(2, 3) @ ones(4, 3)  # the mistake"


DEVICES = {
    "close": (lambda: Tensor([1], device="REFERENC"), ["REFERENC", "did you mean REFERENCE?"]),
    "first party": (lambda: Device["QEMU"], ["QEMU", "install core-plugin-qemu"]),
    "moved": (lambda: Tensor([1]).to("WEBGPU"), ["WEBGPU", "install core-plugin-webgpu"]),
    "created": (lambda: Tensor.rand(3, device="NUL"), ["NUL", "did you mean NULL?"]),
    "no name": (lambda: Tensor([1], device=""), ["'' is not the name of a device", "NAME:INDEX"]),
    "number": (lambda: Tensor([1]).to(5), ["5 is not the name of a device"]),
    "no such index": (lambda: Tensor([1], device="NULL:99"), ["NULL:99"]),
    "no such renderer": (lambda: Tensor([1], device="NULL::FOO"), ["FOO", "TEXT"]),
    "operands": (lambda: Tensor([1], device="NULL") + Tensor([1], device="REFERENCE"),
                 ["NULL and REFERENCE", "tensor.to(device)"]),
    "matmul": (lambda: Tensor([[1.0]], device="NULL") @ Tensor([[1.0]], device="REFERENCE"),
               ["NULL and REFERENCE", "tensor.to(device)"]),
}


@pytest.mark.parametrize("case", DEVICES)
def test_devices(case):
    call, expected = DEVICES[case]
    with pytest.raises(DeviceError) as error:
        call()
    assert all(word in words(error) for word in expected), words(error)


def test_a_device_of_a_context_is_named_with_its_origin():
    with Context(DEV="REFERENC"), pytest.raises(DeviceError) as error:
        Tensor([1])
    assert all(w in words(error) for w in ("Context(DEV=...)", "did you mean REFERENCE?"))


@pytest.mark.parametrize("variable", ["DEV", "CORE_DEV"])
def test_a_device_of_the_environment_is_named_with_its_origin(variable):
    clean = {k: v for k, v in os.environ.items() if k not in ("DEV", "CORE_DEV")}
    done = subprocess.run(
        [sys.executable, "-c", "from core import Tensor; Tensor([1])"], check=False, text=True,
        capture_output=True, env={**clean, variable: "REFERENC"})
    assert done.returncode == 1
    last = done.stderr[done.stderr.index("DeviceError"):]
    assert f"{variable} in the environment" in last
    assert "did you mean REFERENCE?" in last


# -- arrays of every layout ------------------------------------------------------------------


@pytest.mark.parametrize("code", ["i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"])
@pytest.mark.parametrize("order", "<>")
def test_arrays_of_either_byte_order(code, order):
    values = np.arange(-3, 3).astype(code)
    given = Tensor(values.astype(order + code))
    np.testing.assert_array_equal(given.numpy(), values)
    assert given.numpy().dtype == values.dtype


BASE = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
LAYOUTS = {
    "transposed": BASE.T,
    "fortran": np.asfortranarray(BASE),
    "backwards": BASE[:, ::-1, ::-2],
    "spread": BASE[:, ::2, 1::2],
    "broadcast": np.broadcast_to(BASE[0, 0], (5, 4)),
    "zero stride": np.lib.stride_tricks.as_strided(BASE, (3, 2), (0, 4)),
    "unaligned": np.frombuffer(b"x" + BASE.tobytes(), np.uint8)[1:].view("<f4"),
    "read only": np.frombuffer(BASE.tobytes(), np.float32),
    "scalar": np.float32(2.5),
    "rank 0": np.array(2.5, np.float32),
    "big-endian backwards": BASE.astype(">f4")[::-1, :, ::3],
    "empty": BASE[:, 1:1],
    "bool": BASE[::-1] > 5,
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_arrays_of_every_layout(layout):
    array = LAYOUTS[layout]
    tensor = Tensor(array)
    assert tensor.shape == array.shape
    np.testing.assert_array_equal(tensor.numpy(), array)
    np.testing.assert_array_equal((tensor + 1).numpy(), array + np.float32(1))


def test_arrays_are_copied():
    array = np.ones(3, np.float32)
    tensor = Tensor(array)
    array[:] = 5
    out = tensor.numpy()
    out[:] = 7
    assert tensor.tolist() == [1.0, 1.0, 1.0]


# -- reading never fails silently -------------------------------------------------------------


def test_repr_shows_values_as_numpy_would():
    assert repr(Tensor([[1, 2]], device="REFERENCE")) == \
        "Tensor([[1, 2]], dtype=int32, device=REFERENCE)"
    assert repr(Tensor([], device="REFERENCE")) == "Tensor([], dtype=float32, device=REFERENCE)"
    assert "[0., 0.]" in repr(ones(2).cast("bfloat16") * 0)


def test_repr_in_a_trace():
    shown = []

    @jit
    def traced(x):
        shown.append(repr(x + 1))
        return x + 1

    x = Tensor([[1, 2]], device="REFERENCE")
    traced(x)
    traced(x)
    assert "Tensor(shape=(1, 2), dtype=int32, device=REFERENCE, not computed)" in shown


def test_repr_after_a_failure():
    tensor = Tensor.zeros(2**45, device="REFERENCE").contiguous()
    with pytest.raises(OutOfMemoryError):
        tensor.realize()
    assert repr(tensor) == \
        "Tensor(shape=(35184372088832,), dtype=float32, device=REFERENCE, not computed)"


def test_repr_where_nothing_is_computed():
    assert repr(Tensor([1], device="NULL") + 1) == \
        "Tensor(shape=(1,), dtype=int32, device=NULL, not computed)"


def test_a_lazy_error_names_the_line_that_made_the_tensor():
    line = inspect.currentframe().f_lineno + 1
    tensor = Tensor.zeros(2**45).contiguous()
    with pytest.raises(OutOfMemoryError) as error:
        tensor.realize()
    assert f"{__file__}:{line}" in words(error)
    assert str(2**47) in words(error)
    assert (Tensor([1, 2]) + 1).tolist() == [2, 3]


@pytest.mark.parametrize("flag", [None, True, False])
def test_requires_grad_is_accepted(flag):
    makers = [lambda **o: Tensor([1.0], **o), lambda **o: Tensor.ones(1, **o),
              lambda **o: Tensor.rand(1, **o), lambda **o: Tensor.full((1,), 2.0, **o)]
    for make in makers:
        tensor = make(requires_grad=flag)
        assert tensor.requires_grad is flag
        (tensor * 3).sum().backward()
        assert (tensor.grad is None) == (flag is False)


def test_every_error_here_is_one_of_core_or_of_python():
    """Whoever catches ValueError, TypeError or IndexError catches ours."""
    for error, base in ((ShapeError, ValueError), (DTypeError, TypeError),
                        (IndexOutOfRangeError, IndexError), (OutOfMemoryError, MemoryError)):
        assert issubclass(error, base)
        assert issubclass(error, CoreError)


KEPT = {
    "to": lambda x: x.to(x.device), "cast": lambda x: x.float(), "contiguous": Tensor.contiguous,
    "plus": lambda x: +x, "transpose": lambda x: x.transpose(), "power": lambda x: x ** 1,
    "dropout": lambda x: x.dropout(0.5), "reshape": lambda x: x.reshape(2),
    "round": lambda x: x.int().round(), "abs": lambda x: x.cast("uint8").abs(),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_an_operation_leaves_as_it_is_has_a_name_of_its_own(name):
    """x = y.to(device); y += 1 must not change x, whatever there was to do."""
    x = Tensor([1.0, 2.0]).realize()
    kept = KEPT[name](x)
    x += 10
    assert kept.tolist() == [1, 2]
    again = KEPT[name](kept)
    again += 10
    assert kept.tolist() == [1, 2]
