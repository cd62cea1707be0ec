"""GGUF: typed metadata, then tensors, some of them quantised in blocks.

    4 bytes GGUF, version, number of tensors, number of metadata items
    each item: key, type of value, value
    each tensor: name, number of axes, sizes (the fastest first), type, offset
    padding to general.alignment, then the tensors; offsets count from here

After https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Everything is little-endian.
"""

from __future__ import annotations

import struct
from math import prod
from typing import Any, Final, NamedTuple

from core.formats.gguf_blocks import BLOCKS, Block
from core.formats.mapped_file import MappedFile, Path, tensor_of
from core.frontend import Tensor
from core.ir import DType, dtypes

_VERSIONS: Final = (2, 3)
_ALIGNMENT: Final = 32
_LARGEST_ALIGNMENT: Final = 1 << 20
_LARGEST_RANK: Final = 4
_ARRAY_DEPTH: Final = 4
#: Values of metadata by their type's number.
_SCALARS: Final = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q",
                   11: "q", 12: "d"}
_TEXT: Final = 8
_ARRAY: Final = 9
#: Tensors that are not quantised, by their type's number.
_PLAIN: Final = {
    0: dtypes.float32, 1: dtypes.float16, 24: dtypes.int8, 25: dtypes.int16, 26: dtypes.int32,
    27: dtypes.int64, 28: dtypes.float64, 30: dtypes.bfloat16,
}


class _Entry(NamedTuple):
    """What the header says of one tensor; the offset counts from the end of the header."""

    name: str
    kind: DType | Block
    shape: tuple[int, ...]
    offset: int
    size_bytes: int


class _Reader:
    """The header, value by value."""

    def __init__(self, file: MappedFile) -> None:
        self.file, self.at = file, 0

    def values(self, form: str, count: int, what: str) -> tuple[Any, ...]:
        """So many values of a `struct` format."""
        layout = f"<{count}{form}"
        size = count * struct.calcsize("<" + form)
        found = self.file.part(self.at, size, what)
        self.at += size
        return struct.unpack(layout, found)

    def value(self, form: str, what: str) -> Any:
        """One value."""
        return self.values(form, 1, what)[0]

    def text(self, what: str) -> str:
        """A length and UTF-8."""
        size = self.value("Q", f"the length of {what}")
        found = self.file.part(self.at, size, what)
        self.at += size
        try:
            return str(found, "utf-8")
        except UnicodeDecodeError:
            raise self.file.error(f"{what} is no UTF-8 text") from None

    def metadata(self, kind: int, what: str, depth: int = 0) -> Any:
        """A value of metadata."""
        if kind in _SCALARS:
            return self.value(_SCALARS[kind], what)
        if kind == _TEXT:
            return self.text(what)
        if kind != _ARRAY:
            raise self.file.error(f"{what} has unknown type {kind}")
        if depth == _ARRAY_DEPTH:
            raise self.file.error(f"{what} has arrays in arrays, more than {_ARRAY_DEPTH} deep")
        item, count = self.value("I", what), self.value("Q", what)
        if item in _SCALARS:
            return list(self.values(_SCALARS[item], count, what))
        smallest = 8 if item == _TEXT else 12
        self.check_count(count, smallest, what)
        return [self.metadata(item, what, depth + 1) for _ in range(count)]

    def check_count(self, count: int, smallest: int, what: str) -> None:
        """Refuse more items than the rest of the file has room for."""
        self.file.part(self.at, count * smallest, f"{count} items of {what}")


def gguf_load(path: Path, device: str | None = None) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Metadata and tensors of a GGUF file; tensors are read and dequantised when they are used.

    Quantised tensors become float32, the others keep their dtypes. A shape is row-major: the
    file's sizes in reverse.

    Args:
        path: The file.
        device: Where the tensors are wanted; the default device if None.

    Returns:
        Metadata by key (numbers, text, lists), and tensors by name.

    Raises:
        OSError: The file cannot be read.
        FormatError: It is damaged, no GGUF file, or has tensors of a type that is not known.
        DeviceError: There is no such device.
    """
    file = MappedFile(path, "a GGUF file")
    reader = _Reader(file)
    tensor_count, item_count = _preamble(reader)
    reader.check_count(item_count, 13, "metadata")
    metadata: dict[str, Any] = {}
    for _ in range(item_count):
        key = reader.text("a key of metadata")
        if key in metadata:
            raise file.error(f"its metadata has {key!r} twice")
        metadata[key] = reader.metadata(reader.value("I", f"the type of {key!r}"), repr(key))
    alignment = metadata.get("general.alignment", _ALIGNMENT)
    if not isinstance(alignment, int) or not 0 < alignment <= _LARGEST_ALIGNMENT or alignment % 8:
        raise file.error(f"its general.alignment is {alignment!r}, not a multiple of 8 up to "
                         f"{_LARGEST_ALIGNMENT}")
    reader.check_count(tensor_count, 24, "tensors")
    entries = [_entry(reader, alignment) for _ in range(tensor_count)]
    begin = -(-reader.at // alignment) * alignment
    _check_places(file, entries, begin)
    return metadata, {e.name: _tensor(file, e, begin, device) for e in entries}


def _preamble(reader: _Reader) -> tuple[int, int]:
    """Number of tensors and of metadata items."""
    file = reader.file
    if bytes(file.data[:4]) != b"GGUF":
        raise file.error("it does not begin with GGUF")
    reader.at = 4
    version = reader.value("I", "the version")
    if version not in _VERSIONS:
        big = int.from_bytes(version.to_bytes(4, "little"), "big") in _VERSIONS
        raise file.error("it is in big-endian order" if big else f"version {version} is not known")
    return reader.value("Q", "the number of tensors"), reader.value("Q", "the number of items")


def _entry(reader: _Reader, alignment: int) -> _Entry:
    file = reader.file
    name = reader.text("the name of a tensor")
    rank = reader.value("I", f"the number of axes of {name!r}")
    if rank > _LARGEST_RANK:
        raise file.error(f"{name!r} has {rank} axes, at most {_LARGEST_RANK} are possible")
    shape = reader.values("Q", rank, f"the shape of {name!r}")[::-1]
    number, offset = reader.value("I", repr(name)), reader.value("Q", repr(name))
    kind = _PLAIN.get(number) or BLOCKS.get(number)
    if kind is None:
        raise file.error(f"{name!r} has type {number}, which is not known here")
    if offset % alignment:
        raise file.error(f"{name!r} begins at byte {offset}, no multiple of {alignment}")
    count = prod(shape)
    if isinstance(kind, DType):
        return _Entry(name, kind, shape, offset, count * kind.itemsize)
    if not shape or shape[-1] % kind.elements:
        raise file.error(f"{name!r} of shape {shape} is no whole number of {kind.name} blocks of "
                         f"{kind.elements}")
    return _Entry(name, kind, shape, offset, count // kind.elements * kind.size_bytes)


def _check_places(file: MappedFile, entries: list[_Entry], begin: int) -> None:
    """Refuse names that are there twice, and tensors that overlap or are not in the file."""
    seen: set[str] = set()
    reached = 0
    for entry in sorted(entries, key=lambda e: (e.offset, e.size_bytes)):
        if entry.name in seen:
            raise file.error(f"it has {entry.name!r} twice")
        seen.add(entry.name)
        if entry.size_bytes and entry.offset < reached:
            raise file.error(f"{entry.name!r} overlaps another tensor: it begins at byte "
                             f"{entry.offset}, where {reached} bytes are taken")
        file.part(begin + entry.offset, entry.size_bytes, repr(entry.name))
        reached = max(reached, entry.offset + entry.size_bytes)


def _tensor(file: MappedFile, entry: _Entry, begin: int, device: str | None) -> Tensor:
    start = begin + entry.offset
    memory = file.data[start:start + entry.size_bytes]
    if isinstance(entry.kind, DType):
        return tensor_of(memory, entry.kind, entry.shape, device)
    if not entry.size_bytes:
        return tensor_of(memory, dtypes.float32, entry.shape, device)
    block = entry.kind
    rows = tensor_of(memory, dtypes.uint8, (len(memory) // block.size_bytes, block.size_bytes),
                     device)
    rows.requires_grad = False
    return Tensor(block.values(rows).reshape(entry.shape).uop)
