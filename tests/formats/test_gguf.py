"""GGUF byte by byte: each type of block against its formula written out, and what is refused."""

import importlib.util
import struct

import numpy as np
import pytest

from core import Tensor, dtypes
from core.formats import gguf_load
from core.formats.gguf_blocks import BLOCKS
from core.foundation.errors import FormatError

UNEVEN = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113]
E2M1 = [0, .5, 1, 1.5, 2, 3, 4, 6]


def text(value):
    return struct.pack("<Q", len(value.encode())) + value.encode()


def item(key, kind, value):
    return text(key) + struct.pack("<I", kind) + value


def tensor(name, shape, kind, offset):
    return (text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape[::-1])
            + struct.pack("<IQ", kind, offset))


def file_of(path, tensors, data=b"", items=(), version=3, alignment=32):
    """Write a file of described tensors, the bytes behind the header, and metadata."""
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(items))
    head += b"".join(items) + b"".join(tensors)
    path.write_bytes(head + b"\0" * (-len(head) % alignment) + data)
    return path


def half(block, at):
    return float(np.frombuffer(bytes(block[at:at + 2]), np.float16)[0])


def signed(byte):
    return (byte ^ 128) - 128


def nibble(data, k, half_size):
    """Value k of bytes whose low halves come first."""
    return data[k] & 15 if k < half_size else data[k - half_size] >> 4


def short_value(number, block, k):
    """Value k of a block of 32, by the definition of its type."""
    d = half(block, 0)
    if number == 8:
        return d * signed(block[2 + k])
    if number == 20:
        return d * UNEVEN[nibble(block[2:], k, 16)]
    if number == 39:
        q = nibble(block[1:], k, 16)
        return 2.0 ** (int(block[0]) - 127) * E2M1[q & 7] * (-1 if q & 8 else 1)
    with_least, with_fifth = number in {3, 7}, number in {6, 7}
    at = 4 if with_least else 2
    q = nibble(block[at + (4 if with_fifth else 0):], k, 16)
    if with_fifth:
        q |= (int.from_bytes(bytes(block[at:at + 4]), "little") >> k & 1) << 4
    return d * q + half(block, 2) if with_least else d * (q - (16 if with_fifth else 8))


def scale_pair(s, j):
    """6-bit scale and minimum number j of the 12 bytes of Q4_K and Q5_K."""
    if j < 4:
        return s[j] & 63, s[j + 4] & 63
    return s[j + 4] & 15 | s[j - 4] >> 6 << 4, s[j + 4] >> 4 | s[j] >> 6 << 4


def long_value(number, b, k):
    """Value k of a block of 256, by the definition of its type."""
    two_bits = 32 * (k // 128) + k % 32, 2 * (k % 128 // 32)  # byte and shift
    if number == 10:
        s = b[k // 16]
        q = b[16 + two_bits[0]] >> two_bits[1] & 3
        return half(b, 80) * (s & 15) * q - half(b, 82) * (s >> 4)
    if number == 11:
        j, s = k // 16, b[96:108]
        scale = (s[j] & 15 if j < 8 else s[j - 8] >> 4) | (s[8 + j % 4] >> 2 * (j // 4) & 3) << 4
        q = b[32 + two_bits[0]] >> two_bits[1] & 3
        q -= 0 if b[k % 32] >> k // 32 & 1 else 4
        return half(b, 108) * (scale - 32) * q
    if number in {12, 13}:
        scale, least = scale_pair(b[4:16], k // 32)
        at = 16 if number == 12 else 48
        q = b[at + k // 64 * 32 + k % 32] >> (4 if k % 64 >= 32 else 0) & 15
        if number == 13:
            q |= (b[16 + k % 32] >> k // 32 & 1) << 4
        return half(b, 0) * scale * q - half(b, 2) * least
    if number == 14:
        part, row = k // 128, k % 128 // 32
        q = b[64 * part + k % 32 + 32 * (row % 2)] >> (4 if row >= 2 else 0) & 15
        q |= (b[128 + 32 * part + k % 32] >> 2 * row & 3) << 4
        return half(b, 208) * signed(b[192 + k // 16]) * (q - 32)
    if number == 15:
        return struct.unpack("<f", bytes(b[:4]))[0] * signed(b[4 + k])
    j = k // 32
    scale = (b[4 + j // 2] >> 4 * (j % 2) & 15
             | (int.from_bytes(bytes(b[2:4]), "little") >> 2 * j & 3) << 4)
    return half(b, 0) * (scale - 32) * UNEVEN[b[8 + 16 * j + k % 16] >> (k % 32 // 16 * 4) & 15]


def random_blocks(number, count):
    """Blocks of random bytes whose scales are moderate numbers."""
    rng = np.random.default_rng(number)
    block = BLOCKS[number]
    data = rng.integers(0, 256, (count, block.size_bytes), dtype=np.uint8)
    halves = {10: [80, 82], 11: [108], 14: [208], 39: [], 15: [], 3: [0, 2], 7: [0, 2],
              12: [0, 2], 13: [0, 2]}.get(number, [0])
    for at in halves:
        data[:, at:at + 2] = rng.standard_normal((count, 1)).astype(np.float16).view(np.uint8)
    if number == 15:
        data[:, :4] = rng.standard_normal((count, 1)).astype(np.float32).view(np.uint8)
    if number == 39:
        data[:, 0] = np.arange(count) * 31 % 250
    return data


@pytest.mark.parametrize("number", BLOCKS, ids=[b.name for b in BLOCKS.values()])
def test_blocks_follow_their_definition(tmp_path, number):
    block = BLOCKS[number]
    data = random_blocks(number, 6)
    path = file_of(tmp_path / "a", [tensor("w", (3, 2 * block.elements), number, 0)],
                   data.tobytes())
    _, found = gguf_load(path)
    assert found["w"].dtype is dtypes.float32
    value = short_value if block.elements == 32 else long_value
    rows = [[int(v) for v in row] for row in data]
    expected = [[value(number, row, k) for k in range(block.elements)] for row in rows]
    expected = np.array(expected).reshape(3, -1)
    assert found["w"].numpy() == pytest.approx(expected, rel=1e-6, abs=1e-5)


@pytest.mark.skipif(importlib.util.find_spec("gguf") is None,
                    reason="gguf is not installed: pip install gguf")
@pytest.mark.parametrize("number", [k for k in BLOCKS if k != 15])
def test_the_library_gives_the_same_bits(number):
    library = importlib.import_module("gguf")
    data = random_blocks(number, 7)
    theirs = library.quants.dequantize(data, library.GGMLQuantizationType(number))
    assert np.array_equal(BLOCKS[number].values(Tensor(data)).numpy(), theirs)


def test_plain_tensors_and_metadata(tmp_path):
    items = [
        item("general.alignment", 4, struct.pack("<I", 64)), item("t", 8, text("für")),
        item("b", 7, b"\x01"), item("f", 6, struct.pack("<f", 1.5)), item("i", 11, b"\xff" * 8),
        item("a", 9, struct.pack("<IQ3h", 3, 3, 1, -2, 3)),
        item("s", 9, struct.pack("<IQ", 8, 2) + text("x") + text("")),
        item("n", 9, struct.pack("<IQ", 9, 1) + struct.pack("<IQ2B", 0, 2, 7, 8)),
    ]
    data = struct.pack("<6f", *range(6)).ljust(64, b"\0") + struct.pack("<2H", 0x3FC0, 0x4380)
    path = file_of(tmp_path / "a", [tensor("w", (2, 3), 0, 0), tensor("b", (2,), 30, 64),
                                    tensor("e", (0,), 0, 128)],
                   data.ljust(128, b"\0"), items, alignment=64)
    metadata, found = gguf_load(path)
    assert metadata == {"general.alignment": 64, "t": "für", "b": True, "f": 1.5, "i": -1,
                        "a": [1, -2, 3], "s": ["x", ""], "n": [[7, 8]]}
    assert found["w"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert found["b"].dtype is dtypes.bfloat16
    assert found["b"].float().tolist() == [1.5, 256.0]
    assert found["e"].shape == (0,)


def test_a_quantised_matrix_is_an_operand(tmp_path):
    data = random_blocks(2, 4)
    path = file_of(tmp_path / "a", [tensor("w", (4, 32), 2, 0)], data.tobytes())
    w = gguf_load(path)[1]["w"]
    x = np.random.default_rng(1).standard_normal((2, 32)).astype(np.float32)
    assert (Tensor(x) @ w.T).numpy() == pytest.approx(x @ w.numpy().T, abs=1e-4)


FLOATS = b"x" * 64
BAD = {
    "magic": (lambda p: p.write_bytes(b"GGML" + b"\0" * 20), "begin with GGUF"),
    "version": (lambda p: file_of(p, [], version=1), "version 1"),
    "big-endian": (lambda p: file_of(p, [], version=3 << 24), "big-endian"),
    "empty": (lambda p: p.write_bytes(b""), "empty"),
    "many tensors": (lambda p: p.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 0)),
                     "items of tensors"),
    "many items": (lambda p: p.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 1 << 60)),
                   "items of metadata"),
    "long array": (lambda p: file_of(p, [], items=[
        item("a", 9, struct.pack("<IQ", 8, 1 << 50))]), "items of 'a'"),
    "long numbers": (lambda p: file_of(p, [], items=[
        item("a", 9, struct.pack("<IQ", 12, 1 << 50))]), "'a' would take"),
    "long text": (lambda p: file_of(p, [], items=[item("a", 8, struct.pack("<Q", 1 << 63))]),
                  "'a' would take"),
    "deep arrays": (lambda p: file_of(p, [], items=[
        item("a", 9, struct.pack("<IQ", 9, 1) * 2000)]), "arrays in arrays"),
    "unknown item": (lambda p: file_of(p, [], items=[item("a", 99, b"\0" * 8)]), "type 99"),
    "item twice": (lambda p: file_of(p, [], items=[item("a", 0, b"1"), item("a", 0, b"1")]),
                   "'a' twice"),
    "no text": (lambda p: file_of(p, [], items=[
        item("a", 8, struct.pack("<Q", 2) + b"\xff\xfe")]), "UTF-8"),
    "alignment": (lambda p: file_of(p, [], items=[
        item("general.alignment", 4, struct.pack("<I", 0))]), "alignment is 0"),
    "alignment of another kind": (lambda p: file_of(p, [], items=[
        item("general.alignment", 8, text("32"))]), "alignment is '32'"),
    "rank": (lambda p: file_of(p, [tensor("w", (1,) * 5, 0, 0)], FLOATS), "5 axes"),
    "type": (lambda p: file_of(p, [tensor("w", (2,), 4, 0)], FLOATS), "type 4"),
    "ragged blocks": (lambda p: file_of(p, [tensor("w", (2, 48), 2, 0)], FLOATS), "blocks of 32"),
    "offset": (lambda p: file_of(p, [tensor("w", (2,), 0, 8)], FLOATS), "no multiple of 32"),
    "beyond": (lambda p: file_of(p, [tensor("w", (9,), 0, 32)], FLOATS), "'w' would take"),
    "overflow": (lambda p: file_of(p, [tensor("w", (1 << 62, 4), 0, 0)], FLOATS), "would take"),
    "far": (lambda p: file_of(p, [tensor("w", (1,), 0, (1 << 64) - 32)], FLOATS), "would take"),
    "overlap": (lambda p: file_of(p, [tensor("v", (12,), 0, 0), tensor("w", (2,), 0, 32)], FLOATS),
                "'w' overlaps"),
    "twice": (lambda p: file_of(p, [tensor("w", (2,), 0, 0), tensor("w", (2,), 0, 32)], FLOATS),
              "'w' twice"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_damaged_is_refused(tmp_path, name):
    write, message = BAD[name]
    write(tmp_path / "bad")
    with pytest.raises(FormatError, match=message):
        gguf_load(tmp_path / "bad")


def test_no_prefix_of_a_file_is_taken_for_it(tmp_path):
    path = file_of(tmp_path / "a", [tensor("w", (4,), 0, 0)], b"x" * 16, [item("t", 8, text("x"))])
    data = path.read_bytes()
    for size in range(len(data)):
        (tmp_path / "b").write_bytes(data[:size])
        with pytest.raises(FormatError):
            gguf_load(tmp_path / "b")
