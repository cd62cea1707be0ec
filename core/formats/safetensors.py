"""safetensors: a JSON header that names tensors, then their bytes.

    8 bytes     length N of the header, little-endian
    N bytes     {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}
    the rest    the tensors, without holes; offsets count from here

After https://github.com/huggingface/safetensors, "Format".
"""

from __future__ import annotations

import json
import os
import pathlib
import secrets
from collections.abc import Mapping
from math import prod
from typing import Any, Final, NamedTuple

from core.formats.mapped_file import LARGEST_RANK, MappedFile, Path, tensor_of
from core.foundation.errors import DTypeError
from core.frontend import Tensor
from core.ir import DType, dtypes

_DTYPES: Final = {
    "BOOL": dtypes.bool, "I8": dtypes.int8, "U8": dtypes.uint8, "I16": dtypes.int16,
    "U16": dtypes.uint16, "I32": dtypes.int32, "U32": dtypes.uint32, "I64": dtypes.int64,
    "U64": dtypes.uint64, "F8_E4M3": dtypes.fp8_e4m3, "F8_E5M2": dtypes.fp8_e5m2,
    "F16": dtypes.float16, "BF16": dtypes.bfloat16, "F32": dtypes.float32, "F64": dtypes.float64,
}
_NAMES: Final = {dtype: name for name, dtype in _DTYPES.items()}
_LENGTH_BYTES: Final = 8
#: The largest header that other readers take.
_LARGEST_HEADER: Final = 100_000_000
#: The tensors begin at a multiple of this, so that a device can use the mapped file as it is.
_ALIGNMENT: Final = 64
_METADATA: Final = "__metadata__"


class _Entry(NamedTuple):
    """What the header says of one tensor; offsets count from the end of the header."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    start: int
    end: int


def safe_load(path: Path, device: str | None = None) -> dict[str, Tensor]:
    """The tensors of a safetensors file by name; their bytes are read when they are used.

    Args:
        path: The file.
        device: Where they are wanted; the default device if None.

    Raises:
        OSError: The file cannot be read.
        FormatError: It is damaged, or no safetensors file.
        DeviceError: There is no such device.
    """
    file = MappedFile(path, "a safetensors file")
    header, begin = _header(file)
    entries = _entries(file, header, begin)
    return {
        entry.name: tensor_of(
            file.data[begin + entry.start:begin + entry.end], entry.dtype, entry.shape, device)
        for entry in entries
    }


def safe_metadata(path: Path) -> dict[str, str]:
    """The text that a safetensors file holds beside its tensors.

    Raises:
        OSError: The file cannot be read.
        FormatError: It is damaged, or no safetensors file.
    """
    file = MappedFile(path, "a safetensors file")
    header, _ = _header(file)
    return dict(_metadata(file, header))


def safe_save(
    tensors: Mapping[str, Tensor], path: Path, metadata: Mapping[str, str] | None = None
) -> None:
    """Write tensors to a safetensors file.

    The file appears when it is whole: what was there before stays until then, also for tensors
    that were loaded from it.

    Args:
        tensors: Tensors by name, as `get_state_dict` gives them.
        path: The file.
        metadata: Text to store beside them.

    Raises:
        DTypeError: A name or a metadata item is no text, a value no tensor.
        ValueError: A tensor has the name that stands for the metadata.
        OSError: The file cannot be written.
    """
    for name, tensor in tensors.items():
        _check_item(name, tensor)
    for key, text in (metadata or {}).items():
        if not isinstance(key, str) or not isinstance(text, str):
            raise DTypeError(f"metadata of a safetensors file is text, not {key!r}: {text!r}")
    # Wide elements first: every tensor is then aligned to its elements.
    order = sorted(tensors, key=lambda name: -tensors[name].dtype.itemsize)
    header: dict[str, Any] = {_METADATA: dict(metadata)} if metadata else {}
    end = 0
    for name in order:
        tensor = tensors[name]
        start, end = end, end + prod(tensor.shape) * tensor.dtype.itemsize
        header[name] = {"dtype": _NAMES[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [start, end]}
    encoded = json.dumps(header, separators=(",", ":")).encode()
    encoded += b" " * (-(_LENGTH_BYTES + len(encoded)) % _ALIGNMENT)
    target = os.path.realpath(os.fspath(path))
    temporary = pathlib.Path(f"{target}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        with temporary.open("xb") as file:
            file.write(len(encoded).to_bytes(_LENGTH_BYTES, "little") + encoded)
            for name in order:
                file.write(tensors[name].data())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _check_item(name: Any, tensor: Any) -> None:
    if not isinstance(name, str):
        raise DTypeError(f"the name of a tensor is text, not {name!r}")
    if name == _METADATA:
        raise ValueError(f"no tensor can be named {_METADATA}: it stands for the metadata")
    if not isinstance(tensor, Tensor):
        raise DTypeError(f"{name} is of type {type(tensor).__name__}, not a tensor",
                         cure="make tensors of arrays first: Tensor(array)")


def _header(file: MappedFile) -> tuple[dict[str, Any], int]:
    """The header, and where the tensors begin."""
    size = int.from_bytes(file.part(0, _LENGTH_BYTES, "the header's length"), "little")
    if size > _LARGEST_HEADER:
        raise file.error(f"its header would have {size} bytes, and {_LARGEST_HEADER} are the limit")
    text = bytes(file.part(_LENGTH_BYTES, size, "the header"))
    if text[:1] != b"{":
        raise file.error("its header does not begin with '{'")
    try:
        header = json.loads(text.decode(), object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError) as error:
        raise file.error(f"its header is no JSON ({error})") from None
    return header, _LENGTH_BYTES + size


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} is there twice")
    return found


def _metadata(file: MappedFile, header: dict[str, Any]) -> dict[str, str]:
    found = header.get(_METADATA, {})
    if not isinstance(found, dict) or not all(isinstance(v, str) for v in found.values()):
        raise file.error("its metadata is not text by name")
    return found


def _entries(file: MappedFile, header: dict[str, Any], begin: int) -> list[_Entry]:
    """What the header says, in its order, checked whole."""
    _metadata(file, header)
    entries = [_entry(file, name, item) for name, item in header.items() if name != _METADATA]
    reached, room = 0, len(file.data) - begin
    for entry in sorted(entries, key=lambda e: (e.start, e.end)):
        if entry.end > room:
            raise file.error(f"{entry.name!r} would end at byte {entry.end} of {room}: the file "
                             "is cut short")
        if entry.start < reached:
            raise file.error(f"{entry.name!r} overlaps another tensor: it begins at byte "
                             f"{entry.start}, where {reached} bytes are taken")
        if entry.start > reached:
            raise file.error(f"no tensor has bytes {reached} to {entry.start}")
        reached = entry.end
    if reached != room:
        raise file.error(f"no tensor has its last {room - reached} bytes")
    return entries


def _entry(file: MappedFile, name: str, item: Any) -> _Entry:
    if not isinstance(item, dict) or set(item) != {"dtype", "shape", "data_offsets"}:
        raise file.error(f"{name!r} needs dtype, shape and data_offsets, and nothing else")
    shape, offsets = item["shape"], item["data_offsets"]
    if not isinstance(item["dtype"], str) or item["dtype"] not in _DTYPES:
        raise file.error(f"{name!r} has dtype {item['dtype']!r}, which no tensor can have")
    if not _is_sizes(shape) or len(shape) > LARGEST_RANK:
        raise file.error(f"{name!r} has no shape of at most {LARGEST_RANK} sizes")
    if not _is_sizes(offsets) or len(offsets) != 2:
        raise file.error(f"the data_offsets of {name!r} are not two positions")
    dtype, (start, end) = _DTYPES[item["dtype"]], offsets
    wanted = prod(shape) * dtype.itemsize
    if end - start != wanted:
        raise file.error(f"{name!r} of shape {tuple(shape)} and dtype {dtype.name} needs {wanted} "
                         f"bytes, and its data_offsets give {end - start}")
    return _Entry(name, dtype, tuple(shape), start, end)


def _is_sizes(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(v, int) and not isinstance(v, bool) and v >= 0 for v in value)
