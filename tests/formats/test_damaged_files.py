"""Files with bytes changed, lost and added at random: each is read, or refused with FormatError."""

import io
import random
import struct
import zipfile

import pytest

from core import Tensor
from core.formats import gguf_load, safe_load, safe_save, torch_load
from core.foundation.errors import FormatError

PICKLE = (b"\x80\x02}X\x01\0\0\0wctorch._utils\n_rebuild_tensor_v2\n"
          b"((X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpuK\x04tQ"
          b"K\x00K\x02K\x02\x86K\x02K\x01\x86\x89ccollections\nOrderedDict\n)RtRs.")
DATA = struct.pack("<4f", 1, 2, 3, 4)


def safetensors(path):
    safe_save({"w": Tensor([1.0, 2.0]), "b": Tensor([True, False])}, path, {"k": "v"})
    return path.read_bytes()


def gguf(path):
    def text(value):
        return struct.pack("<Q", len(value)) + value

    head = b"GGUF" + struct.pack("<IQQ", 3, 2, 2) + text(b"t") + struct.pack("<I", 8) + text(b"x")
    head += text(b"a") + struct.pack("<IIQ2h", 9, 3, 2, 1, 2)
    head += text(b"w") + struct.pack("<IQQIQ", 2, 2, 2, 0, 0)
    head += text(b"q") + struct.pack("<IQIQ", 1, 32, 8, 32)
    return head + b"\0" * (-len(head) % 32) + DATA.ljust(32, b"\0") + b"\x01" * 34


def torch_zip(path, pickle=PICKLE):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("m/data.pkl", pickle)
        archive.writestr("m/data/0", DATA)
    return stream.getvalue()


def torch_legacy(path):
    return (b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03."
            b"\x80\x02}X\r\0\0\0little_endian\x88s." + PICKLE
            + b"\x80\x02]X\x01\0\0\x000a." + struct.pack("<Q", 4) + DATA)


def damaged(data, draw, reach):
    data = bytearray(data)
    for _ in range(draw.choice([1, 1, 2, 5])):
        at, kind = draw.randrange(min(reach, len(data))), draw.randrange(4)
        if kind == 0:
            data[at] = draw.randrange(256)
        elif kind == 1:
            del data[at:at + draw.randrange(1, 9)]
        elif kind == 2:
            data[at:at] = draw.randbytes(draw.randrange(1, 9))
        else:
            data[at:at + 8] = draw.choice([b"\xff" * 8, bytes(8), b"\xff" * 7 + b"\x7f"])
    return bytes(data)


FORMATS = {
    "safetensors": (safetensors, safe_load, 150), "gguf": (gguf, gguf_load, 200),
    "torch zip": (torch_zip, torch_load, 1000), "torch legacy": (torch_legacy, torch_load, 300),
}


@pytest.mark.parametrize("name", FORMATS)
def test_files_as_they_are_written_are_read(tmp_path, name):
    write, load, _ = FORMATS[name]
    (tmp_path / "a").write_bytes(write(tmp_path / "a"))
    found = load(tmp_path / "a")
    found = found[1] if isinstance(found, tuple) else found
    assert found["w"].reshape(-1)[:2].tolist() == [1.0, 2.0]


def refusal(load, path):
    """What the reader says against a file, or the file's name if it reads it."""
    try:
        load(path)
    except FormatError as error:
        return str(error)
    return str(path)


@pytest.mark.parametrize("name", [*FORMATS, "pickle in zip"])
def test_damage_is_an_error_of_the_file(tmp_path, name):
    path = tmp_path / "a"
    write, load, reach = FORMATS.get(name, (None, torch_load, None))
    for seed in range(150):
        draw = random.Random(f"{name} {seed}")
        data = (damaged(write(path), draw, reach) if write
                else torch_zip(path, damaged(PICKLE, draw, len(PICKLE))))
        path.write_bytes(data)
        assert str(path) in refusal(load, path)
