"""What the standard asks for beside the functions' values: names, dtypes, inspection, errors."""

import importlib.util
import math

import numpy as np
import pytest

import core
import core.array_api as xp
from core import Device, Tensor, dtypes
from core.array_api.standard import NAMES, declared
from core.foundation.errors import CoreError
from core.tools.count_array_api import report


def test_the_names_of_the_standard_are_declared():
    found = declared(xp, Tensor)
    for section in (*NAMES, "array object"):
        assert [name for name, there in found[section].items() if not there] == []
    assert sum(map(len, found.values())) > 200
    assert set(xp.__all__) == {name for names in NAMES.values() for name in names.split()}
    assert "all but extensions     215 of 215, 100.0 %" in report()


def test_arrays_know_their_namespace():
    x = Tensor([1.0])
    assert x.__array_namespace__() is xp
    assert core.array_api is xp
    assert x.__array_namespace__(api_version="2023.12") is xp
    with pytest.raises(ValueError, match="2024.12"):
        x.__array_namespace__(api_version="1999.12")
    assert xp.__array_api_version__ == "2024.12"


def test_attributes_of_arrays():
    x = xp.zeros((2, 3, 4))
    assert (x.ndim, x.shape, x.size, x.dtype) == (3, (2, 3, 4), 24, xp.float32)
    assert isinstance(x.size, int)
    assert (x.size(), x.size(1)) == ((2, 3, 4), 3), "as PyTorch calls it"
    assert x.mT.shape == (2, 4, 3)
    assert xp.ones((2, 3)).T.shape == (3, 2)
    assert x.to_device(x.device).device == x.device == Device.DEFAULT
    assert complex(xp.asarray(2.5)) == 2.5 + 0j
    assert math.isclose(float(xp.asarray(2.5)), 2.5)
    with pytest.raises(CoreError, match="two axes"):
        _ = xp.ones(3).mT


def test_inspection():
    info = xp.__array_namespace_info__()
    assert info.capabilities() == {
        "boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}
    assert info.default_device() in info.devices()
    assert info.default_dtypes() == {"real floating": xp.float32, "integral": xp.int32,
                                     "indexing": xp.int32}
    assert set(info.dtypes()) == {"bool", "int8", "int16", "int32", "int64", "uint8", "uint16",
                                  "uint32", "uint64", "float32", "float64"}
    assert info.dtypes(kind=("bool", "real floating")) == {
        "bool": xp.bool, "float32": xp.float32, "float64": xp.float64}
    assert info.dtypes(kind="complex floating") == {}
    with pytest.raises(ValueError, match="kind"):
        info.dtypes(kind="strange")


@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
def test_limits_of_floats(name):
    theirs, ours = np.finfo(name), xp.finfo(getattr(dtypes, name))
    assert ours.bits == theirs.bits
    assert ours.eps == float(theirs.eps)
    assert (ours.max, ours.min) == (float(theirs.max), float(theirs.min))
    assert ours.smallest_normal == float(theirs.smallest_normal)
    assert xp.finfo(Tensor([1.0]).cast(name)) == ours


@pytest.mark.parametrize("name", ["int8", "uint8", "int64", "uint64"])
def test_limits_of_integers(name):
    theirs, ours = np.iinfo(name), xp.iinfo(getattr(xp, name))
    assert (ours.bits, ours.max, ours.min) == (theirs.bits, theirs.max, theirs.min)


def test_kinds_and_casts():
    assert xp.isdtype(xp.int8, "integral")
    assert xp.isdtype(xp.uint8, ("bool", "unsigned integer"))
    assert xp.isdtype(xp.float32, xp.float32)
    assert not xp.isdtype(xp.float32, "signed integer")
    assert not xp.isdtype(xp.bool, "numeric")
    assert not xp.isdtype(xp.float64, "complex floating")
    assert xp.can_cast(xp.int8, xp.int16)
    assert not xp.can_cast(xp.asarray([1.5]), xp.int32)
    assert xp.result_type(xp.int8, 3) is xp.int8
    assert xp.result_type(xp.asarray([1.0]), 2) is xp.float32
    x = xp.asarray([1.5, -2.5])
    assert xp.astype(x, xp.int32).tolist() == [1, -2]
    assert xp.astype(x, xp.float32, copy=False) is x
    assert xp.astype(x, xp.float32) is not x


def test_arrays_of_what_there_is():
    x = Tensor([1, 2])
    assert xp.asarray(x) is x
    assert xp.asarray(x, copy=True) is not x
    assert xp.asarray(x, dtype=xp.float64).dtype is xp.float64
    assert xp.asarray(np.float64(2.5)).dtype is xp.float64
    assert xp.asarray([[True], [False]]).dtype is xp.bool
    assert xp.asarray(3).dtype is xp.int32
    assert xp.asarray([1, 2], dtype=xp.uint8).tolist() == [1, 2]
    array = np.arange(3.0)
    shared = xp.asarray(array, copy=False)
    assert shared.tolist() == [0, 1, 2]
    assert xp.from_dlpack(array, copy=True).tolist() == [0, 1, 2]
    for value, options in ((x, {"dtype": xp.float32}), ([1, 2], {}), (5, {}),
                           (array, {"dtype": xp.int8})):
        with pytest.raises(ValueError, match="copy"):
            xp.asarray(value, copy=False, **options)
    with pytest.raises(TypeError, match="complex"):
        xp.asarray(1j)


def test_not_a_number_is_last_when_searched_and_apart_when_unique():
    x = xp.asarray([0.0, 1.0, math.nan])
    wanted = xp.asarray([math.nan, 1.0, 5.0])
    assert xp.searchsorted(x, wanted).tolist() == [2, 1, 2]
    assert xp.searchsorted(x, wanted, side="right").tolist() == [3, 2, 2]
    found = xp.unique_counts(xp.asarray([math.nan, 1.0, math.nan, -0.0, 0.0]))
    assert found.counts.tolist() == [2, 1, 1, 1]
    order = xp.asarray([2, 0, 1])
    assert xp.searchsorted(xp.asarray([3, 9, 1]), xp.asarray([3]), sorter=order).tolist() == [1]


def test_the_smallest_steps():
    x = xp.asarray([0.0, 1.0, math.inf, -math.inf, -0.0, 5e-324], dtype=xp.float64)
    y = xp.asarray([-1.0, 2.0, 0.0, 0.0, 0.0, 0.0], dtype=xp.float64)
    expected = np.nextafter(x.numpy(), y.numpy())
    found = xp.nextafter(x, y).numpy()
    assert np.array_equal(found, expected)
    assert np.array_equal(np.signbit(found), np.signbit(expected))


@pytest.mark.parametrize("call", [
    lambda x: xp.nonzero(xp.asarray(3)), lambda x: xp.where(x, x, x), lambda x: xp.take(x, x),
    lambda x: xp.concat([]), lambda x: xp.stack([]), lambda x: xp.broadcast_to(x, (2,)),
    lambda x: xp.broadcast_arrays(x, xp.zeros((2, 5))), lambda x: xp.squeeze(x, 0),
    lambda x: xp.expand_dims(x, axis=3), lambda x: xp.moveaxis(x, (0, 0), (0, 1)),
    lambda x: xp.moveaxis(x, 0, 5), xp.cumulative_sum, lambda x: xp.diff(x, n=-1),
    lambda x: xp.searchsorted(x, x), lambda x: xp.searchsorted(x[0], x[0], side="middle"),
    lambda x: xp.finfo(xp.int8), lambda x: xp.iinfo(xp.float32), lambda x: xp.add(1, 2),
    lambda x: xp.isdtype(xp.int8, "strange"), lambda x: xp.result_type(),
    xp.meshgrid, lambda x: xp.meshgrid(x[0], indexing="ji"),
    lambda x: xp.matmul(x, xp.asarray(1.0)), lambda x: xp.tensordot(x, x, axes=1),
    lambda x: xp.tensordot(x, x, axes=3), lambda x: xp.vecdot(x, x, axis=0),
    lambda x: xp.vecdot(x, xp.zeros(5)), lambda x: xp.matrix_transpose(x[0]),
    lambda x: xp.repeat(x, -1), lambda x: xp.repeat(x, xp.asarray([1, 2, 3, 4]), axis=0),
    lambda x: xp.roll(x, (1, 2), axis=(0,)), lambda x: xp.atan2(xp.asarray([1]), 2),
    lambda x: xp.abs(xp.asarray([True])), lambda x: xp.max(xp.asarray([True])),
    lambda x: xp.argmax(xp.asarray([True])), lambda x: xp.signbit(xp.asarray([1])),
    lambda x: xp.take_along_axis(x, xp.asarray([1])), lambda x: xp.sum(x, axis=2),
    lambda x: xp.clip(xp.asarray([1]), math.nan),
])
def test_mistakes_are_errors(call):
    with pytest.raises((CoreError, ValueError, TypeError, IndexError)):
        call(xp.zeros((2, 3)))


@pytest.mark.skipif(importlib.util.find_spec("einops") is None,
                    reason="einops is not installed: pip install einops")
def test_einops_works_on_tensors():
    einops = importlib.import_module("einops.array_api")
    x = Tensor(np.arange(24, dtype=np.float32).reshape(2, 3, 4))
    array = x.numpy()
    assert np.array_equal(einops.rearrange(x, "a b c -> (c a) b").numpy(),
                          array.transpose(2, 0, 1).reshape(8, 3))
    assert np.array_equal(einops.reduce(x, "a b c -> a c", "sum").numpy(), array.sum(1))
    assert np.array_equal(einops.repeat(x, "a b c -> a b (c 2)").numpy(), array.repeat(2, -1))
