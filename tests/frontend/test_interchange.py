"""Tensors and the arrays of others: DLPack, __array__, buffers, copies and pickles."""

import copy
import ctypes
import gc
import pickle
import sys

import ml_dtypes
import numpy as np
import pytest

from core import Tensor, dtypes, jit
from core.foundation.errors import CoreError, DTypeError
from core.frontend import dlpack, realization
from core.plugin.host_memory import address_of

NUMPY = [dtypes.bool, dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16, dtypes.int32,
         dtypes.uint32, dtypes.int64, dtypes.uint64, dtypes.float16, dtypes.float32,
         dtypes.float64]
needs_host_memory = pytest.mark.skipif(
    "realization.host_view(Tensor([1.0]).realize().uop) is None",
    reason="the memory of the device of the run is not the host's")


@pytest.mark.parametrize("dtype", NUMPY, ids=lambda d: d.name)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 2), (1, 4, 1)])
def test_dtypes_and_shapes_go_both_ways(dtype, shape):
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype.name)
    there = np.from_dlpack(Tensor(array))
    assert there.dtype == array.dtype
    assert there.shape == shape
    assert np.array_equal(there, array)
    back = Tensor.from_dlpack(array)
    assert back.dtype is dtype
    assert back.shape == shape
    assert np.array_equal((back == back).numpy() & (back.numpy() == array), np.ones(shape, bool))


class Old:
    """An array whose library knows DLPack before versions."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self, stream=None):
        return self.tensor.__dlpack__()

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


@pytest.mark.parametrize("dtype", [dtypes.bfloat16, dtypes.fp8_e4m3, dtypes.fp8_e5m2],
                         ids=lambda d: d.name)
@pytest.mark.parametrize("kind", [Old, lambda tensor: tensor])
def test_what_numpy_lacks_is_exchanged_all_the_same(dtype, kind):
    values = np.array([[1.5, -2.0, 0.25]], np.float32)
    found = Tensor.from_dlpack(kind(Tensor(values).cast(dtype)))
    assert found.dtype is dtype
    assert np.array_equal(found.float().numpy(), values)


@needs_host_memory
def test_memory_is_shared_and_not_to_be_written_to():
    x = Tensor([[1.0, 2.0], [3.0, 4.0]]) + 1
    array = np.from_dlpack(x)
    assert np.shares_memory(array, np.from_dlpack(x))
    assert not array.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        array[0, 0] = 9
    del x
    gc.collect()
    noise = [Tensor([[9.0, 9.0], [9.0, 9.0]]).realize() for _ in range(20)]
    assert array.tolist() == [[2.0, 3.0], [4.0, 5.0]], "its block is not recycled"
    assert len(noise) == 20


@needs_host_memory
def test_a_foreign_array_is_seen_as_it_changes_and_never_changed():
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    x = Tensor.from_dlpack(array)
    array[0, 0] = 9
    assert x.tolist() == [[9, 1, 2], [3, 4, 5]]
    x += 1
    x[1] = 0
    assert x.tolist() == [[10, 2, 3], [0, 0, 0]]
    assert array.tolist() == [[9, 1, 2], [3, 4, 5]]
    apart = Tensor.from_dlpack(array, copy=True)
    array[:] = 7
    assert apart.tolist() == [[9, 1, 2], [3, 4, 5]]


def test_a_foreign_array_lives_as_long_as_it_is_read():
    x = Tensor.from_dlpack(np.full(1 << 16, 2.0, np.float32)).reshape(256, 256)
    y = x[3:5]
    del x
    gc.collect()
    room = [np.full(1 << 16, 5.0, np.float32) for _ in range(3)]
    assert y.sum().item() == 1024
    assert len(room) == 3


@pytest.mark.parametrize("key", [
    np.s_[::-1], np.s_[:, ::2], np.s_[..., None], np.s_[1:, 1:], np.s_[::-2, ::-1, 1],
])
def test_arrays_of_any_layout_are_read(key):
    array = np.arange(60, dtype=np.int16).reshape(3, 4, 5)[key]
    for view in (array, array.T):
        assert np.array_equal(Tensor.from_dlpack(view).numpy(), view)
    wide = np.broadcast_to(np.arange(3.0), (4, 3))
    assert np.array_equal(Tensor.from_dlpack(np.array(wide)).numpy(), wide)


def test_views_are_exported_with_their_values():
    x = Tensor(np.arange(24, dtype=np.int32).reshape(4, 6)).realize()
    for view in (x[1:3], x.T, x[::-1, 2], x[2, 3], x.reshape(3, 8), x[1:3].realize()):
        assert np.array_equal(np.from_dlpack(view), view.numpy())


def test_nothing_stays_behind():
    gc.collect()
    before = len(dlpack._exported)
    x = Tensor([1.0, 2.0])
    capsule = x.__dlpack__()
    array = np.from_dlpack(x)
    again = Tensor.from_dlpack(x)
    assert len(dlpack._exported) > before
    assert again.tolist() == array.tolist()
    del capsule, array, again
    gc.collect()
    Tensor([1.0]).realize()  # what is dead is given back with the next storage
    gc.collect()
    assert len(dlpack._exported) == before


def test_versions_of_the_protocol():
    x = Tensor([1.0, 2.0])
    assert '"dltensor"' in repr(x.__dlpack__())
    assert '"dltensor"' in repr(x.__dlpack__(max_version=(0, 8)))
    capsule = x.__dlpack__(max_version=(2, 1))
    assert '"dltensor_versioned"' in repr(capsule)


@needs_host_memory
def test_copies_on_request():
    x = Tensor([1.0, 2.0]).realize()
    shared, apart = (np.from_dlpack(x, copy=c) for c in (None, True))
    assert np.shares_memory(shared, np.from_dlpack(x, copy=False))
    assert not np.shares_memory(shared, apart)
    apart[0] = 5
    assert x.tolist() == [1.0, 2.0]
    assert Tensor.from_dlpack(np.arange(3.0), copy=False).tolist() == [0, 1, 2]
    with pytest.raises(BufferError, match="row-major"):
        Tensor.from_dlpack(np.arange(6.0)[::2], copy=False)


class Strange:
    """An array of a type that no tensor has, taken apart by hand."""

    def __init__(self, device=(1, 0), change=None):
        self.device, self.change = device, change

    def __dlpack__(self, **options):
        capsule = Tensor([1.0, 2.0]).__dlpack__(max_version=(1, 0))
        self.change(dlpack._Versioned.from_address(
            dlpack._pointer_of(capsule, b"dltensor_versioned")))
        return capsule

    def __dlpack_device__(self):
        return self.device


def test_what_cannot_be_exchanged_is_named():
    with pytest.raises(TypeError, match="list has no __dlpack__"):
        Tensor.from_dlpack([1.0])
    with pytest.raises((BufferError, DTypeError)):
        Tensor.from_dlpack(np.array([1j]))
    x = Tensor([1.0])
    with pytest.raises(BufferError, match="host"):
        x.__dlpack__(dl_device=(2, 0))
    with pytest.raises(BufferError, match="streams"):
        x.__dlpack__(stream=1)

    def lanes(managed):
        managed.array.lanes = 4

    def version(managed):
        managed.major = 9

    with pytest.raises(DTypeError, match="4 lanes"):
        Tensor.from_dlpack(Strange(change=lanes))
    with pytest.raises(BufferError, match="version 9"):
        Tensor.from_dlpack(Strange(change=version))
    with pytest.raises(BufferError, match="has to be copied"):
        Tensor.from_dlpack(Strange((2, 0)), copy=False)


def test_numpy_asks_for_an_array():
    x = Tensor([[1, 2], [3, 4]])
    array = np.asarray(x)
    array[0, 0] = 9
    assert x.tolist() == [[1, 2], [3, 4]]
    assert np.asarray(x, dtype=np.float64).dtype == np.float64
    assert (np.array([10, 20]) + x).tolist() == [[11, 22], [13, 24]]
    assert np.concatenate([x, x]).shape == (4, 2)
    with pytest.raises(DTypeError, match="bfloat16"):
        np.asarray(x.bfloat16())


@needs_host_memory
def test_an_array_without_a_copy():
    x = Tensor([1.0, 2.0]).realize()
    array = x.__array__(copy=False)
    assert np.shares_memory(array, np.from_dlpack(x))
    assert not array.flags.writeable
    for options in ({"dtype": np.float64}, {}):
        source = x if options else x.bfloat16()
        with pytest.raises(ValueError, match="without a copy"):
            source.__array__(copy=False, **options)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python has __buffer__ since 3.12")
def test_the_buffer_protocol():
    view = memoryview(Tensor([[1, 2], [3, 4]]))
    assert view.shape == (2, 2)
    assert view.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("dtype", [*NUMPY, dtypes.bfloat16, dtypes.fp8_e5m2], ids=lambda d: d.name)
@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda x: pickle.loads(
    pickle.dumps(x))], ids=["copy", "deepcopy", "pickle"])
def test_copies_have_the_value_and_a_life_of_their_own(dtype, again):
    x = Tensor([[1, 0], [1, 1]]).cast(dtype)
    y = again(x)
    x.assign((x * 0).cast(dtype))
    assert y.dtype is dtype
    assert y.float().tolist() == [[1, 0], [1, 1]]
    assert x.float().tolist() == [[0, 0], [0, 0]]


def test_copies_keep_what_an_optimizer_asks_for():
    x = Tensor([1.0], requires_grad=False)
    assert copy.deepcopy(x).requires_grad is False
    assert pickle.loads(pickle.dumps(x)).requires_grad is False


def test_a_trace_exports_nothing():
    @jit
    def step(x):
        return Tensor(np.from_dlpack(x * 2))

    x = Tensor([1.0, 2.0]).realize()
    with pytest.raises(CoreError):
        step(x)


def test_ml_dtypes_are_bytes_of_ours():
    x = Tensor([1.5, 2.5]).bfloat16()
    capsule = x.__dlpack__()
    managed = dlpack._Managed.from_address(dlpack._pointer_of(capsule, b"dltensor"))
    data = ctypes.string_at(managed.array.data, 4)
    assert np.frombuffer(data, ml_dtypes.bfloat16).tolist() == [1.5, 2.5]
    assert address_of(bytearray(b"x")) != address_of(bytearray(b"y"))
    assert realization.host_view(x.realize().uop) is None or managed.array.data
