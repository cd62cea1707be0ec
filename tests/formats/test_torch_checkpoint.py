"""Checkpoints of PyTorch, written byte by byte as it writes them; pickles that want to do harm."""

import io
import os
import pickle
import struct
import zipfile

import numpy as np
import pytest

from core import dtypes
from core.formats import torch_load
from core.foundation.errors import FormatError

# pickle refers to a function by its module and name: these stand for PyTorch's.


class Global:
    """A reference to a name, as a pickle has it."""

    def __init__(self, module, name):
        self.module, self.name = module, name


class Call:
    """A call of a name, as a pickle has it."""

    def __init__(self, function, *arguments):
        self.function, self.arguments = function, arguments


class Storage:
    """A storage: its type by PyTorch's name, its key, its array."""

    def __init__(self, kind, key, array):
        self.kind, self.key, self.array = kind, key, array


class Writer(pickle._Pickler):
    """A pickler that writes the stand-ins as what they stand for."""

    def save_global_name(self, item):
        self.write(pickle.GLOBAL + f"{item.module}\n{item.name}\n".encode())

    def save(self, obj, save_persistent_id=True):
        if isinstance(obj, Global):
            self.save_global_name(obj)
        elif isinstance(obj, Call):
            self.save(obj.function)
            self.save(obj.arguments)
            self.write(pickle.REDUCE)
        elif isinstance(obj, Storage):
            kind = Global("torch", obj.kind)
            self.save(("storage", kind, obj.key, "cpu", obj.array.size))
            self.write(pickle.BINPERSID)
        else:
            super().save(obj, save_persistent_id)


def pickled(value):
    stream = io.BytesIO()
    Writer(stream, protocol=2).dump(value)
    return stream.getvalue()


def view(storage, offset, shape, strides):
    ordered = Call(Global("collections", "OrderedDict"))
    return Call(Global("torch._utils", "_rebuild_tensor_v2"), storage, offset, shape, strides,
                False, ordered)


def zip_file(path, data, storages, compression=zipfile.ZIP_STORED, order=b"little"):
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("model/data.pkl", data)
        archive.writestr("model/byteorder", order)
        for storage in storages:
            archive.writestr(f"model/data/{storage.key}", storage.array.tobytes())
        archive.writestr("model/version", b"3\n")
    return path


def legacy_file(path, data, storages, magic=0x1950A86A20F9469CFC6C, little=True):
    parts = [pickle.dumps(magic, 2), pickle.dumps(1001, 2),
             pickle.dumps({"protocol_version": 1001, "little_endian": little}, 2), data,
             pickle.dumps([s.key for s in storages], 2)]
    parts += [struct.pack("<Q", s.array.size) + s.array.tobytes() for s in storages]
    path.write_bytes(b"".join(parts))
    return path


CONTAINERS = {"zip": zip_file, "legacy": legacy_file}
ELEMENTS = np.arange(24, dtype=np.float32)


def floats(key="0"):
    return Storage("FloatStorage", key, ELEMENTS)


@pytest.fixture(params=CONTAINERS)
def container(request):
    return CONTAINERS[request.param]


VIEWS = {
    "whole": (0, (4, 6), (6, 1)), "scalar": (5, (), ()), "part": (7, (2, 3), (6, 1)),
    "transposed": (0, (6, 4), (1, 6)), "permuted": (0, (4, 2, 3), (1, 12, 4)),
    "repeated": (2, (5, 3), (0, 1)), "one": (3, (1, 1, 4), (99, 7, 1)),
    "empty": (24, (0, 3), (3, 1)),
    "steps": (1, (3, 4), (8, 2)), "all the same": (4, (2, 2), (0, 0)),
    "repeated and transposed": (0, (6, 2, 4), (1, 0, 6)),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_of_a_storage(tmp_path, container, name):
    offset, shape, strides = VIEWS[name]
    storage = floats()
    found = torch_load(container(tmp_path / "a", pickled(view(storage, offset, shape, strides)),
                                 [storage]))
    expected = np.lib.stride_tricks.as_strided(
        ELEMENTS[offset:], shape, [4 * s for s in strides])
    assert found.shape == shape
    assert found.dtype is dtypes.float32
    assert np.array_equal(found.numpy(), expected)


@pytest.mark.parametrize(("kind", "array", "dtype"), [
    ("BoolStorage", np.array([True, False]), dtypes.bool),
    ("ByteStorage", np.array([1, 255], np.uint8), dtypes.uint8),
    ("CharStorage", np.array([1, -1], np.int8), dtypes.int8),
    ("ShortStorage", np.array([1, -1], np.int16), dtypes.int16),
    ("IntStorage", np.array([1, -1], np.int32), dtypes.int32),
    ("LongStorage", np.array([1, 1 << 40], np.int64), dtypes.int64),
    ("HalfStorage", np.array([1, -0.5], np.float16), dtypes.float16),
    ("DoubleStorage", np.array([1, 0.1]), dtypes.float64),
])
def test_dtypes(tmp_path, container, kind, array, dtype):
    storage = Storage(kind, "7", array)
    found = torch_load(container(tmp_path / "a", pickled(view(storage, 0, (2,), (1,))), [storage]))
    assert found.dtype is dtype
    assert np.array_equal(found.numpy(), array)


def test_bfloat16_and_dtypes_that_the_tensor_says(tmp_path):
    storage = Storage("BFloat16Storage", "0", np.array([0x3FC0, 0x4380], np.uint16))
    raw = Storage("UntypedStorage", "1", np.array([1, 0, 255, 255], np.uint8))
    other = Call(Global("torch._utils", "_rebuild_tensor_v3"), raw, 0, (2,), (1,), False, None,
                 Global("torch", "uint16"), None)
    found = torch_load(zip_file(tmp_path / "a", pickled([view(storage, 0, (2,), (1,)), other]),
                                [storage, raw]))
    assert found[0].dtype is dtypes.bfloat16
    assert found[0].float().tolist() == [1.5, 256.0]
    assert found[1].dtype is dtypes.uint16
    assert found[1].tolist() == [1, 65535]


def test_what_is_around_tensors(tmp_path, container):
    storage = floats()
    whole = view(storage, 0, (24,), (1,))
    parameter = Call(Global("torch._utils", "_rebuild_parameter"), view(storage, 1, (2,), (1,)),
                     True, Call(Global("collections", "OrderedDict")))
    cycle = []
    cycle.append(cycle)
    shared = [view(storage, 1, (2,), (1,))]
    value = {"state": {"w": whole, "b": parameter}, "step": 1 << 70, "lr": 0.1, "name": "für",
             "sizes": Call(Global("torch", "Size"), (1, 2)), "none": [None, True],
             "raw": Call(Global("_codecs", "encode"), "\x00\xff", "latin1"), "cycle": cycle,
             "dtype": Global("torch", "float16"), "again": [shared, shared],
             "device": Call(Global("torch", "device"), "cuda", 0)}
    value[3] = Call(Global("__builtin__" if container is zip_file else "builtins", "set"), [1, 2])
    found = torch_load(container(tmp_path / "a", pickled(value), [storage]))
    assert found["state"]["w"].tolist() == ELEMENTS.tolist()
    assert found["state"]["b"].tolist() == [1.0, 2.0]
    assert found["cycle"][0] is found["cycle"]
    assert found["again"][0] is found["again"][1]
    assert {k: v for k, v in found.items() if k not in {"state", "cycle", "again"}} == {
        "step": 1 << 70, "lr": 0.1, "name": "für", "sizes": (1, 2), "none": [None, True],
        3: {1, 2}, "raw": b"\x00\xff", "dtype": dtypes.float16, "device": "cuda:0"}


def harm(path):
    """A value whose pickle would make a folder."""
    return Call(Global("os", "mkdir"), str(path))


@pytest.mark.parametrize(("value", "message"), [
    (harm, "os.mkdir"),
    (lambda p: Call(Global("builtins", "eval"), f"__import__('os').mkdir({str(p)!r})"),
     "builtins.eval"),
    (lambda p: Call(Global("builtins", "getattr"), Global("os", "path"), "join"), "getattr"),
    (lambda p: Call(Global("torch._utils", "_rebuild_tensor_v2.__globals__")), "__globals__"),
    (lambda p: Call(Global("torch._tensor", "_rebuild_from_type_v2"), Global("torch", "Size"), 1,
                    (harm(p),), None), "os.mkdir"),
    (lambda p: Call(Global("torch._tensor", "_rebuild_from_type_v2"), Global("torch", "Size"), 1,
                    ((1,),), None), "type of its own"),
    (lambda p: Call(Global("torch.nn.modules.linear", "Linear"), 1), "Linear"),
    (lambda p: Call(Global("torch", "FloatStorage"), 1), "wants to call torch.FloatStorage"),
    (lambda p: Call(Global("builtins", "bytearray"), 1 << 40), "encodes text"),
    (lambda p: Call(Global("torch", "Size"), (-1,)), "-1 where a size"),
    (lambda p: Call(Global("torch._utils", "_rebuild_tensor_v2"), 1, 2, (3,), (4,)), "describes"),
    (lambda p: Call(Global("torch._utils", "_rebuild_tensor_v2")), "damaged"),
])
def test_nothing_that_a_pickle_names_is_run(tmp_path, container, value, message):
    target = tmp_path / "harm"
    with pytest.raises(FormatError, match=message):
        torch_load(container(tmp_path / "a", pickled(value(target)), []))
    assert not target.exists()


HOSTILE = {
    # NEWOBJ, INST and OBJ make instances of classes; EXT1 refers to a registry.
    "newobj": b"\x80\x02ccollections\nOrderedDict\n)\x81.", "inst": b"(ios\nmkdir\n.",
    "obj": b"(ccollections\nOrderedDict\no.", "ext": b"\x80\x02\x82\x01.",
    "stack global": b"\x80\x04\x8c\x02os\x8c\x05mkdir\x93.", "unknown": b"\xff.", "none": b"",
    "stack underflow": b"\x80\x02R.", "mark missing": b"\x80\x02t.", "no end": b"\x80\x02K\x01",
    "memo": b"\x80\x02h\x05.", "list of dict": b"\x80\x02}K\x01a.",
    "odd items": b"\x80\x02}(K\x01u.",
    "attributes of a name": b"\x80\x02ccollections\nOrderedDict\n}b.",
    "unhashable": b"\x80\x02}]K\x01s.", "deep key": b"\x80\x02})" + b"\x85" * 200_000 + b"K\x01s.",
    "deep list": b"\x80\x02" + b"]" * 50_000 + b"a" * 49_999 + b".",
    "long number": b"\x80\x02\x8b\xff\xff\xff\x7f.", "text": b"\x80\x02X\xff\xff\xff\x7f.",
    "no address": b"\x80\x02K\x01Q.", "mark as operand": b"\x80\x02(R.",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_pickles_that_are_damaged_or_hostile(tmp_path, container, name):
    with pytest.raises(FormatError):
        torch_load(container(tmp_path / "a", HOSTILE[name], []))


@pytest.mark.parametrize("value", [
    lambda s: view(s, 1, (24,), (1,)), lambda s: view(s, 0, (5, 6), (6, 1)),
    lambda s: view(s, 25, (), ()), lambda s: view(s, 0, (1 << 62, 2), (1, 1 << 62)),
    lambda s: view(s, 0, (8, 16), (1, 1)), lambda s: view(s, 0, (2,), (1, 1)),
    lambda s: view(s, -1, (2,), (1,)), lambda s: view(s, 0, (2,), (-1,)),
    lambda s: view(s, 0, (True,), (1,)), lambda s: view(s, 0, (1,) * 100, (1,) * 100),
])
def test_views_outside_of_their_storage_are_refused(tmp_path, container, value):
    storage = floats()
    with pytest.raises(FormatError):
        torch_load(container(tmp_path / "a", pickled(value(storage)), [storage]))


def test_storages_that_are_not_what_is_said(tmp_path, container):
    storage = floats()
    other = Storage("FloatStorage", "0", ELEMENTS[:-1])
    data = pickled(view(storage, 0, (24,), (1,)))
    with pytest.raises(FormatError, match="storage"):
        torch_load(container(tmp_path / "a", data, [other]))
    with pytest.raises(FormatError, match="storage"):
        torch_load(container(tmp_path / "b", data, []))
    two = pickled([view(storage, 0, (2,), (1,)), view(other, 0, (2,), (1,))])
    with pytest.raises(FormatError, match="two ways"):
        torch_load(container(tmp_path / "c", two, [storage]))


def test_containers_that_are_something_else(tmp_path):
    storage = floats()
    data = pickled(view(storage, 0, (24,), (1,)))
    for write, message in (
        (lambda p: zip_file(p, data, [storage], zipfile.ZIP_DEFLATED), "compressed"),
        (lambda p: zip_file(p, data, [storage], order=b"big"), "big-endian"),
        (lambda p: legacy_file(p, data, [storage], little=False), "big-endian"),
        (lambda p: legacy_file(p, data, [storage], magic=5), "not of torch.save"),
        (lambda p: p.write_bytes(b"hello"), "neither"),
        (lambda p: p.write_bytes(b""), "empty"),
        (lambda p: p.write_bytes(b"PK\x03\x04rest"), "zip archive is damaged"),
        (lambda p: zipfile.ZipFile(p, "w").writestr("a/b", b"x"), "no data.pkl"),
    ):
        write(tmp_path / "bad")
        with pytest.raises(FormatError, match=message):
            torch_load(tmp_path / "bad")


def test_no_prefix_of_a_file_is_taken_for_it(tmp_path, container):
    storage = floats()
    data = container(tmp_path / "a", pickled(view(storage, 0, (24,), (1,))),
                     [storage]).read_bytes()
    for size in range(0, len(data), 5):
        (tmp_path / "b").write_bytes(data[:size])
        with pytest.raises(FormatError):
            torch_load(tmp_path / "b")
    assert os.listdir(tmp_path)
