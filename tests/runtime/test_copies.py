"""Copies between devices: values, slices, dtypes, sizes round a block, and there and back."""

import numpy as np
import pytest

from core import Device, Tensor, dtypes

PAIRS = [("DEFAULT", "REFERENCE"), ("REFERENCE", "DEFAULT"), ("REFERENCE", "REFERENCE")]


def name(device):
    return Device.DEFAULT if device == "DEFAULT" else device


@pytest.mark.parametrize(("source", "destination"), PAIRS)
@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint16, np.int64, np.float16, np.float64])
def test_values_of_every_size_arrive(source, destination, dtype):
    data = np.random.default_rng(0).integers(0, 2, 77).astype(dtype)
    moved = Tensor(data, device=name(source)).to(name(destination))
    assert moved.device == name(destination)
    found = moved.numpy()
    assert found.dtype == data.dtype
    assert np.array_equal(found, data)


@pytest.mark.parametrize("dtype", [dtypes.bfloat16, dtypes.fp8_e4m3])
def test_formats_that_numpy_lacks_arrive(dtype):
    x = Tensor([1.0, -2.5, 0.0]).cast(dtype)
    assert x.to("REFERENCE").to(Device.DEFAULT).float().tolist() == x.float().tolist()


@pytest.mark.parametrize(("source", "destination"), PAIRS[:2])
def test_what_is_computed_is_copied(source, destination):
    x = Tensor(np.arange(24, dtype=np.float32).reshape(4, 6), device=name(source))
    moved = (x * 2).permute(1, 0).to(name(destination)) + 1
    assert moved.device == name(destination)
    assert np.array_equal(moved.numpy(), np.arange(24).reshape(4, 6).T * 2 + 1)


@pytest.mark.parametrize("take", [
    lambda x: x[2:5], lambda x: x[:, 1:3], lambda x: x.flip(0), lambda x: x[3],
    lambda x: x.reshape(6, 4).transpose(0, 1), lambda x: x[1:1],
])
def test_views_are_copied(take):
    data = np.arange(24, dtype=np.float32).reshape(6, 4)
    x = Tensor(data)
    assert np.array_equal(take(x).to("REFERENCE").numpy(), take(x).numpy())


def test_the_original_stays():
    x = Tensor([1.0, 2.0]).realize()
    y = x.to("REFERENCE")
    x.assign(x + 10)
    assert y.tolist() == [1.0, 2.0]
    assert x.tolist() == [11.0, 12.0]


def test_two_copies_of_one_value_are_one_transfer():
    x = Tensor(np.arange(5, dtype=np.float32))
    y = x.to("REFERENCE")
    assert (y + x.to("REFERENCE")).tolist() == [0.0, 2.0, 4.0, 6.0, 8.0]


def test_gradients_go_back_over_a_copy():
    x = Tensor([1.0, 2.0, 3.0])
    loss = (x.to("REFERENCE") * 3).square().sum()
    (gradient,) = loss.gradient(x)
    assert gradient.device == x.device
    assert gradient.tolist() == [18.0, 36.0, 54.0]


def test_operands_on_two_devices_are_refused_in_words():
    with pytest.raises(Exception, match="REFERENCE"):
        (Tensor([1.0], device="NULL") + Tensor([1.0], device="REFERENCE")).numpy()
