"""safetensors byte by byte: what is written, what is read, and what is refused."""

import importlib.util
import json
import os
import struct

import numpy as np
import pytest

from core import Tensor, dtypes, nn
from core.formats import safe_load, safe_metadata, safe_save
from core.foundation.errors import DTypeError, FormatError

VALUES = {
    "BOOL": (dtypes.bool, b"\x01\x00"), "I8": (dtypes.int8, b"\xff\x01"),
    "U8": (dtypes.uint8, b"\xff\x01"), "I16": (dtypes.int16, struct.pack("<2h", -2, 300)),
    "U16": (dtypes.uint16, struct.pack("<2H", 2, 65535)),
    "I32": (dtypes.int32, struct.pack("<2i", -2, 1 << 30)),
    "U32": (dtypes.uint32, struct.pack("<2I", 2, 1 << 31)),
    "I64": (dtypes.int64, struct.pack("<2q", -2, 1 << 40)),
    "U64": (dtypes.uint64, struct.pack("<2Q", 2, 1 << 63)),
    "F16": (dtypes.float16, struct.pack("<2e", 0.5, -2)),
    "BF16": (dtypes.bfloat16, b"\xc0\x3f\x80\x43"),
    "F32": (dtypes.float32, b"\0\0\x80\x7f\x01\0\0\0"),
    "F64": (dtypes.float64, struct.pack("<2d", -0.0, 1e300)),
    "F8_E4M3": (dtypes.fp8_e4m3, b"\x7e\x38"), "F8_E5M2": (dtypes.fp8_e5m2, b"\x7b\x3c"),
}


def file_of(path, header, data=b"", length=None):
    """Write a file of a header (a dict, or its bytes) and data."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    size = len(text) if length is None else length
    path.write_bytes(struct.pack("<Q", size) + text + data)
    return path


def entry(dtype="F32", shape=(2,), start=0, end=8):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]}


@pytest.mark.parametrize("name", VALUES)
def test_every_dtype_is_read_and_written_back(tmp_path, name):
    dtype, data = VALUES[name]
    path = file_of(tmp_path / "a", {"x": entry(name, (2,), 0, len(data))}, data)
    x = safe_load(path)["x"]
    assert x.dtype is dtype
    assert x.shape == (2,)
    safe_save({"x": x}, tmp_path / "b")
    written = (tmp_path / "b").read_bytes()
    size = struct.unpack("<Q", written[:8])[0]
    assert json.loads(written[8:8 + size]) == {"x": entry(name, (2,), 0, len(data))}
    assert written[8 + size:] == data


def test_values_of_small_floats(tmp_path):
    path = file_of(tmp_path / "a", {"x": entry("BF16", (2,), 0, 4)}, VALUES["BF16"][1])
    assert safe_load(path)["x"].float().tolist() == [1.5, 256.0]


def test_a_bool_of_another_byte_is_true(tmp_path):
    path = file_of(tmp_path / "a", {"x": entry("BOOL", (3,), 0, 3)}, b"\x00\x01\xfe")
    assert safe_load(path)["x"].numpy().tobytes() == b"\x00\x01\x01"


def test_scalars_empty_tensors_and_odd_places(tmp_path):
    header = {"odd": entry("U8", (3,), 0, 3), "wide": entry("F32", (2, 1), 3, 11),
              "none": entry("F32", (0, 5), 11, 11), "scalar": entry("F64", (), 11, 19)}
    data = b"abc" + struct.pack("<2fd", 1.5, -2.0, 0.1)
    found = safe_load(file_of(tmp_path / "a", header, data))
    assert list(found) == ["odd", "wide", "none", "scalar"]
    assert found["odd"].tolist() == [97, 98, 99]
    assert found["wide"].tolist() == [[1.5], [-2.0]]
    assert (found["wide"] * 2).sum().item() == -1.0
    assert found["none"].shape == (0, 5)
    assert found["scalar"].item() == 0.1


def test_tensors_are_written_aligned_and_metadata_beside_them(tmp_path):
    path = tmp_path / "a.safetensors"
    tensors = {"b": Tensor([True, False, True]), "x": Tensor([[1.0, 2.0]]).T,
               "l": Tensor([1, 2], dtype=dtypes.int64), "e": Tensor(np.zeros((0, 2), np.float32))}
    safe_save(tensors, path, {"note": "für alle"})
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    assert (8 + size) % 64 == 0
    header = json.loads(data[8:8 + size])
    for name, item in header.items():
        if name != "__metadata__":
            assert item["data_offsets"][0] % tensors[name].dtype.itemsize == 0
    assert safe_metadata(path) == {"note": "für alle"}
    found = safe_load(path)
    assert set(found) == set(tensors)
    for name, tensor in tensors.items():
        assert found[name].tolist() == tensor.tolist()
    assert [p.name for p in tmp_path.iterdir()] == ["a.safetensors"]


def test_a_file_is_replaced_under_what_was_loaded_from_it(tmp_path):
    path = tmp_path / "a.safetensors"
    safe_save({"x": Tensor([1.0, 2.0])}, path)
    old = safe_load(path)
    safe_save({"x": old["x"] + 10}, path)
    assert old["x"].tolist() == [1.0, 2.0]
    assert safe_load(path)["x"].tolist() == [11.0, 12.0]


def test_training_leaves_the_file_alone(tmp_path):
    path = tmp_path / "a.safetensors"
    safe_save({"x": Tensor([1.0, 2.0])}, path)
    before = path.read_bytes()
    x = safe_load(path)["x"]
    optimizer = nn.optim.SGD([x], lr=0.5)
    (x * x).sum().backward()
    optimizer.step()
    assert x.tolist() == [0.0, 0.0]
    x += 1
    x[0] = 7
    assert x.tolist() == [7.0, 1.0]
    assert path.read_bytes() == before


def test_loading_reads_no_tensor(tmp_path):
    """A file with holes on the disk: 64 GB of zeros are loaded, and one element is read."""
    count = 1 << 34
    header = json.dumps({"x": entry("F32", (count,), 0, 4 * count)}).encode()
    header += b" " * (-len(header) % 8)
    path = tmp_path / "a"
    path.write_bytes(struct.pack("<Q", len(header)) + header)
    try:
        os.truncate(path, 8 + len(header) + 4 * count)
        x = safe_load(path)["x"]
    except OSError as error:
        pytest.skip(f"this machine maps no file of 64 GB: {error}")
    assert x.shape == (count,)
    assert x[-2:].tolist() == [0.0, 0.0]


def test_a_model_goes_through_a_file(tmp_path):
    source, target = nn.Linear(4, 3), nn.Linear(4, 3)
    nn.state.safe_save(nn.state.get_state_dict(source), tmp_path / "m")
    nn.state.load_state_dict(target, nn.state.safe_load(tmp_path / "m"))
    x = Tensor(np.ones((2, 4), dtype=np.float32))
    assert target(x).tolist() == source(x).tolist()


GOOD = {"x": entry()}
BAD_FILES = {
    "empty": (b"", "empty"),
    "no header": (b"\x01\0", "length"),
    "huge header": (struct.pack("<Q", 1 << 62) + b"{}", "limit"),
    "header beyond the end": (struct.pack("<Q", 100) + b"{}", "100|102|108"),
    "no JSON": (struct.pack("<Q", 3) + b"{x}", "JSON"),
    "no object": (struct.pack("<Q", 2) + b"[]", "begin with"),
    "no text": (struct.pack("<Q", 4) + b'{"\xff"', "JSON"),
    "deep": (struct.pack("<Q", 100_006) + b'{"a":' + b"[" * 100_001, "JSON"),
}
BAD_HEADERS = {
    "cut short": (GOOD, b"1234567", "cut short"),
    "too long": (GOOD, b"123456789", "last 1 bytes"),
    "overlap": ({**GOOD, "y": entry(start=4, end=12)}, b"x" * 12, "overlaps"),
    "the same bytes": ({**GOOD, "y": entry()}, b"x" * 8, "overlaps"),
    "hole": ({**GOOD, "y": entry(start=12, end=20)}, b"x" * 20, "no tensor has bytes 8 to 12"),
    "size": ({"x": entry(shape=(3,))}, b"x" * 8, "needs 12 bytes"),
    "overflow": ({"x": entry(shape=(1 << 63, 2))}, b"x" * 8, "needs"),
    "backwards": ({"x": entry(shape=(0,), start=8, end=0)}, b"x" * 8, "give -8"),
    "negative": ({"x": entry(shape=(-2,))}, b"x" * 8, "shape"),
    "negative offset": ({"x": entry(start=-8, end=0)}, b"x" * 8, "data_offsets"),
    "float size": ({"x": entry(shape=(2.0,))}, b"x" * 8, "shape"),
    "bool size": ({"x": entry(shape=(True,), end=4)}, b"x" * 4, "shape"),
    "rank": ({"x": entry(shape=(1,) * 1000, end=4)}, b"x" * 4, "64 sizes"),
    "offsets": ({"x": {**entry(), "data_offsets": [0]}}, b"x" * 8, "two positions"),
    "dtype": ({"x": entry("C64", (1,))}, b"x" * 8, "'C64', which no tensor"),
    "dtype of another kind": ({"x": entry([], (1,))}, b"x" * 8, "which no tensor"),
    "missing": ({"x": {"dtype": "F32"}}, b"", "needs dtype, shape"),
    "more": ({"x": {**entry(), "z": 1}}, b"x" * 8, "nothing else"),
    "no entry": ({"x": 5}, b"", "needs dtype"),
    "metadata": ({"__metadata__": {"a": 1}}, b"", "metadata"),
    "twice": (b'{"x": 1, "x": 2}', b"", "'x' is there twice"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_what_is_no_file_is_refused(tmp_path, name):
    data, message = BAD_FILES[name]
    (tmp_path / "bad").write_bytes(data)
    with pytest.raises(FormatError, match=message) as caught:
        safe_load(tmp_path / "bad")
    assert "bad' is not a safetensors file" in str(caught.value)


@pytest.mark.parametrize("name", BAD_HEADERS)
def test_what_contradicts_itself_is_refused(tmp_path, name):
    header, data, message = BAD_HEADERS[name]
    with pytest.raises(FormatError, match=message):
        safe_load(file_of(tmp_path / "bad", header, data))


def test_no_prefix_of_a_file_is_taken_for_it(tmp_path):
    safe_save({"x": Tensor([1.0, 2.0]), "y": Tensor([3])}, tmp_path / "a")
    data = (tmp_path / "a").read_bytes()
    for size in range(0, len(data), 7):
        (tmp_path / "b").write_bytes(data[:size])
        with pytest.raises(FormatError):
            safe_load(tmp_path / "b")


def test_what_cannot_be_written_is_named_and_leaves_no_file(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    for tensors, error, message in (
        ({1: Tensor([1.0])}, DTypeError, "name of a tensor is text"),
        ({"x": [1.0]}, DTypeError, "x is of type list"),
        ({"__metadata__": Tensor([1.0])}, ValueError, "stands for the metadata"),
    ):
        with pytest.raises(error, match=message):
            safe_save(tensors, path)
    with pytest.raises(DTypeError, match="metadata"):
        safe_save({"x": Tensor([1.0])}, path, {"a": 1})
    with pytest.raises(FileNotFoundError):
        safe_save({"x": Tensor([1.0])}, tmp_path / "no" / "a")
    with pytest.raises(FileNotFoundError):
        safe_load(tmp_path / "none")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.skipif(importlib.util.find_spec("safetensors") is None,
                    reason="safetensors is not installed: pip install safetensors")
def test_the_library_reads_and_writes_the_same(tmp_path):
    library = importlib.import_module("safetensors.numpy")
    rng = np.random.default_rng(0)
    arrays = {"a": rng.standard_normal((3, 5)).astype(np.float32), "b": np.array(7, np.int64),
              "c": np.array([True, False]), "d": np.zeros((2, 0), np.float16),
              "e": rng.integers(0, 255, 7).astype(np.uint8)}
    library.save_file(arrays, tmp_path / "theirs", {"k": "v"})
    safe_save({k: Tensor(v) for k, v in arrays.items()}, tmp_path / "ours", {"k": "v"})
    ours, theirs = safe_load(tmp_path / "theirs"), library.load_file(tmp_path / "ours")
    assert safe_metadata(tmp_path / "theirs") == {"k": "v"}
    for name, array in arrays.items():
        for found in (ours[name].numpy(), theirs[name]):
            assert found.dtype == array.dtype
            assert np.array_equal(found, array)
            assert found.shape == array.shape
