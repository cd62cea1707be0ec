"""Storage that is memory of others: read where it lies, never written, never recycled."""

import gc
import mmap

import numpy as np
import pytest

from core import Device, GlobalCounters, Tensor, dtypes
from core.frontend import realization
from core.plugin import offers
from core.plugin.host_memory import address_of
from core.runtime import open_device, wraps_memory


def tensor_of(array, dtype=dtypes.float32):
    memory = memoryview(array).cast("B")
    return Tensor(realization.storage_of_memory(memory, dtype, array.shape, Device.DEFAULT))


def test_values_are_read_where_they_lie():
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    x = tensor_of(array)
    assert x.device == Device.DEFAULT
    assert (x + 1).tolist() == [[1, 2, 3], [4, 5, 6]]
    if not offers(open_device(Device.DEFAULT).allocator, "wrap"):
        pytest.skip(f"{Device.DEFAULT} does not reach the host's memory")
    array[:] = 7
    assert (x + 1).tolist() == [[8] * 3] * 2


def test_writing_gives_the_tensor_memory_of_its_own():
    array = np.arange(3, dtype=np.float32)
    x = tensor_of(array)
    x += 1
    x[0] = 9
    assert x.realize().tolist() == [9, 2, 3]
    assert array.tolist() == [0, 1, 2]


def test_the_memory_lives_as_long_as_the_tensor_and_is_not_recycled():
    used = GlobalCounters.mem_used
    array = np.full(1 << 10, 3.0, np.float32)
    x = tensor_of(array)
    address = array.ctypes.data
    del array
    gc.collect()
    assert x.sum().item() == 3 << 10
    del x
    gc.collect()
    blocks = [Tensor(np.zeros(1 << 10, np.float32)) for _ in range(4)]
    views = [realization.host_view(b.uop) for b in blocks]
    assert all(v is None or address_of(v) != address for v in views)
    del blocks, views
    gc.collect()
    Tensor([1.0])
    assert GlobalCounters.mem_used <= used + 64


@pytest.mark.parametrize("offset", [1, 2, 3])
def test_memory_of_any_alignment_is_read(offset):
    room = np.zeros(4 * 5 + 4, np.uint8)
    memory = memoryview(room)[offset:offset + 20]
    memory[:] = np.arange(5, dtype=np.float32).tobytes()
    assert not wraps_memory(Device.DEFAULT, memory, dtypes.float32)
    x = Tensor(realization.storage_of_memory(memory, dtypes.float32, (5,), Device.DEFAULT))
    assert (x * 2).tolist() == [0, 2, 4, 6, 8]


def test_read_only_maps_are_memory_too(tmp_path):
    (tmp_path / "a").write_bytes(np.arange(4, dtype=np.int32).tobytes())
    with (tmp_path / "a").open("rb") as file:
        memory = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    x = Tensor(realization.storage_of_memory(memory, dtypes.int32, (4,), Device.DEFAULT))
    assert (x + 1).tolist() == [1, 2, 3, 4]


def test_no_bytes_are_no_block():
    x = Tensor(realization.storage_of_memory(memoryview(b""), dtypes.int32, (0, 3), Device.DEFAULT))
    assert x.numpy().shape == (0, 3)


def test_other_sizes_are_a_mistake():
    with pytest.raises(ValueError, match="4 bytes for a value of 8"):
        realization.storage_of_memory(memoryview(bytearray(4)), dtypes.int32, (2,), Device.DEFAULT)
