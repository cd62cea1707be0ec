"""Checkpoints of PyTorch: a pickle that refers to storages, in a zip file or one after the other.

    zip (since 1.6)     NAME/data.pkl, and each storage's bytes as NAME/data/KEY, not compressed
    legacy              pickles of a magic number, the protocol, the system, the value, the keys
                        of its storages; then for each key 8 bytes of length and the bytes

After torch/serialization.py of https://github.com/pytorch/pytorch. No code of the file is run:
`core.formats.pickled` reads it.
"""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Callable
from math import prod
from typing import Any, Final

from core.formats.mapped_file import LARGEST_RANK, MappedFile, Path, tensor_of
from core.formats.pickled import Call, Name, UnpickleError, checked_key, read_pickle
from core.foundation.lazy_import import lazy_import
from core.frontend import Tensor
from core.ir import DType, dtypes

np: Any = lazy_import("numpy")

_STORAGES: Final = {
    "BoolStorage": dtypes.bool, "CharStorage": dtypes.int8, "ByteStorage": dtypes.uint8,
    "ShortStorage": dtypes.int16, "IntStorage": dtypes.int32, "LongStorage": dtypes.int64,
    "HalfStorage": dtypes.float16, "BFloat16Storage": dtypes.bfloat16,
    "FloatStorage": dtypes.float32, "DoubleStorage": dtypes.float64,
    "UntypedStorage": dtypes.uint8,
}
_DTYPES: Final = {
    "bool": dtypes.bool, "int8": dtypes.int8, "uint8": dtypes.uint8, "int16": dtypes.int16,
    "uint16": dtypes.uint16, "int32": dtypes.int32, "uint32": dtypes.uint32,
    "int64": dtypes.int64, "uint64": dtypes.uint64, "float16": dtypes.float16,
    "bfloat16": dtypes.bfloat16, "float32": dtypes.float32, "float64": dtypes.float64,
    "float8_e4m3fn": dtypes.fp8_e4m3, "float8_e5m2": dtypes.fp8_e5m2,
}
_NAMES: Final = frozenset({f"torch.{name}" for name in (*_STORAGES, *_DTYPES)}
                          | {"torch.storage.UntypedStorage", "torch.Tensor",
                             "torch.nn.parameter.Parameter"})
_LEGACY_MAGIC: Final = 0x1950A86A20F9469CFC6C
_LEGACY_PROTOCOL: Final = 1001
#: Containers inside of each other.
_DEEPEST: Final = 100


class _Storage:
    """A storage that the pickle refers to; legacy files say where it is after the pickle.

    Attributes:
        dtype: Of its elements; of bytes where the tensor says it.
        count: Number of elements.
        data: The bytes, or None so far.
    """

    def __init__(self, dtype: DType, count: int) -> None:
        self.dtype, self.count = dtype, count
        self.data: memoryview | None = None


class _View:
    """A tensor that the pickle describes: a strided view of a storage."""

    def __init__(
        self, storage: _Storage, dtype: DType, offset: int, shape: tuple[int, ...],
        strides: tuple[int, ...],
    ) -> None:
        self.storage, self.dtype, self.offset = storage, dtype, offset
        self.shape, self.strides = shape, strides


def torch_load(path: Path, device: str | None = None) -> Any:
    """What a file of `torch.save` holds, with core's tensors in place of PyTorch's.

    Dicts, lists, tuples, sets, numbers and text may be around the tensors: a state dict, or a
    checkpoint of several. Whole models are code, and refused. Tensors are read when they are used.

    Args:
        path: The file.
        device: Where the tensors are wanted; the default device if None.

    Raises:
        OSError: The file cannot be read.
        FormatError: It is damaged, no checkpoint, or refers to anything but tensors.
        DeviceError: There is no such device.
    """
    file = MappedFile(path, "a checkpoint of PyTorch")
    try:
        is_zip = bytes(file.data[:4]) == b"PK\x03\x04"
        value = _read_zip(file) if is_zip else _read_legacy(file)
        return _with_tensors(value, lambda view: _tensor(view, device))
    except UnpickleError as error:
        raise file.error(str(error)) from None


# -- the two containers -------------------------------------------------------------------------

def _read_zip(file: MappedFile) -> Any:
    try:
        with zipfile.ZipFile(_MapReader(file.data)) as archive:
            members = {info.filename: info for info in archive.infolist()}
            inner = [name for name in members if name.split("/", 1)[-1] == "data.pkl"]
            if len(inner) != 1:
                raise UnpickleError("its zip archive has no data.pkl")
            root = inner[0][:-len("data.pkl")]
            order = members.get(root + "byteorder")
            if order is not None and bytes(_member(file, order)) != b"little":
                raise UnpickleError("its bytes are in big-endian order")
    except UnpickleError:
        raise
    except (zipfile.BadZipFile, NotImplementedError, EOFError, ValueError, IndexError,
            OverflowError, struct.error) as error:
        raise UnpickleError(f"its zip archive is damaged ({error})") from None

    storages: dict[str, _Storage] = {}

    def persistent(key: Any) -> _Storage:
        found = _described_storage(key, storages)
        if found.data is None:
            info = members.get(f"{root}data/{key[2]}")
            if info is None:
                raise UnpickleError(f"its zip archive lacks storage {key[2]!r}")
            found.data = _filled(found, _member(file, info))
        return found

    pickle = io.BytesIO(_member(file, members[inner[0]]))
    return read_pickle(pickle, _calls(), _NAMES, persistent)


def _member(file: MappedFile, info: zipfile.ZipInfo) -> memoryview:
    """The bytes of a file in the archive, as they lie in the map."""
    if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
        raise UnpickleError(f"{info.filename} in its zip archive is compressed or encrypted")
    what = f"{info.filename} in its zip archive"
    local = file.part(info.header_offset, 30, what)
    if bytes(local[:4]) != b"PK\x03\x04":
        raise UnpickleError(f"{what} is not where the archive says")
    skipped = sum(int.from_bytes(local[k:k + 2], "little") for k in (26, 28))
    return file.part(info.header_offset + 30 + skipped, info.file_size, what)


def _read_legacy(file: MappedFile) -> Any:
    stream = _MapReader(file.data)
    if bytes(file.data[:1]) != b"\x80":
        raise UnpickleError("it begins neither as a zip archive nor as a pickle")
    if read_pickle(stream, {}) != _LEGACY_MAGIC:
        raise UnpickleError("it is a pickle, but not of torch.save")
    protocol, system = read_pickle(stream, {}), read_pickle(stream, {})
    if protocol != _LEGACY_PROTOCOL or not isinstance(system, dict):
        raise UnpickleError(f"it has protocol {protocol!r}, not {_LEGACY_PROTOCOL}")
    if system.get("little_endian") is not True:
        raise UnpickleError("its bytes are in big-endian order")
    storages: dict[str, _Storage] = {}
    value = read_pickle(stream, _calls(), _NAMES, lambda key: _described_storage(key, storages))
    keys = read_pickle(stream, {})
    if not isinstance(keys, list) or set(map(str, keys)) != set(storages):
        raise UnpickleError("the storages that it lists are not those that its value refers to")
    for key in keys:
        storage = storages[str(key)]
        if storage.data is not None:
            raise UnpickleError(f"it lists storage {key!r} twice")
        at = stream.tell()
        count = int.from_bytes(file.part(at, 8, f"the length of storage {key!r}"), "little")
        if count != storage.count:
            raise UnpickleError(f"storage {key!r} has {count} elements, and its value says "
                                f"{storage.count}")
        size = count * storage.dtype.itemsize
        storage.data = file.part(at + 8, size, f"storage {key!r}")
        stream.seek(at + 8 + size)
    return value


class _MapReader(io.RawIOBase):
    """A map as a file to read from, without copying it."""

    def __init__(self, data: memoryview) -> None:
        super().__init__()
        self._data, self._at = data, 0

    def read(self, size: int = -1) -> bytes:
        """The next bytes, fewer at the end."""
        end = len(self._data) if size < 0 else self._at + size
        found = bytes(self._data[self._at:end])
        self._at += len(found)
        return found

    def readline(self, size: int | None = -1) -> bytes:
        """The next bytes up to a line's end; a line of a pickle is short."""
        limit = self._at + (4096 if size is None or size < 0 else size)
        found = bytes(self._data[self._at:limit])
        found = found[:found.find(b"\n") + 1] or found
        self._at += len(found)
        return found

    def tell(self) -> int:
        """Position of the next byte."""
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to a position, counted from the start, from here or from the end."""
        self._at = max(0, offset + (0, self._at, len(self._data))[whence])
        return self._at

    def seekable(self) -> bool:
        """Yes."""
        return True


# -- what the pickle may name -------------------------------------------------------------------

def _described_storage(key: Any, storages: dict[str, _Storage]) -> _Storage:
    """The storage of a persistent id: ("storage", type, key, place, number of elements, ...)."""
    if (not isinstance(key, tuple) or len(key) < 5 or key[0] != "storage"
            or not isinstance(key[1], Name) or not isinstance(key[2], (str, int))):
        raise UnpickleError("it refers to a storage in a way that torch.save does not")
    if len(key) > 5 and key[5] is not None:
        raise UnpickleError("it holds views of storages of PyTorch before 0.4")
    dtype = _STORAGES.get(key[1].text.rsplit(".", 1)[-1])
    count = _size(key[4])
    if dtype is None:
        raise UnpickleError(f"it has a storage of type {key[1].text}")
    found = storages.setdefault(str(key[2]), _Storage(dtype, count))
    if (found.dtype, found.count) != (dtype, count):
        raise UnpickleError(f"it describes storage {key[2]!r} in two ways")
    return found


def _filled(storage: _Storage, data: memoryview) -> memoryview:
    size = storage.count * storage.dtype.itemsize
    if len(data) != size:
        raise UnpickleError(f"a storage of {size} bytes has {len(data)} in its zip archive")
    return data


def _calls() -> dict[str, Call]:
    return {
        "collections.OrderedDict": lambda items=(): {checked_key(k): v for k, v in items},
        "torch.Size": lambda sizes: tuple(map(_size, sizes)),
        "torch.device": lambda *parts: ":".join(map(str, parts)),
        "torch._utils._rebuild_tensor": _rebuild,
        "torch._utils._rebuild_tensor_v2": lambda s, o, shape, strides, *_: _rebuild(
            s, o, shape, strides),
        "torch._utils._rebuild_tensor_v3": lambda s, o, shape, strides, _g, _h, dtype, *_: _rebuild(
            s, o, shape, strides, dtype),
        "torch._utils._rebuild_parameter": lambda view, *_: _checked_view(view),
        "torch._utils._rebuild_parameter_with_state": lambda view, *_: _checked_view(view),
        "torch._tensor._rebuild_from_type_v2": _rebuilt_of_type,
        "_codecs.encode": _encoded,
        "__builtin__.set": lambda items=(): set(map(checked_key, items)),
        "builtins.set": lambda items=(): set(map(checked_key, items)),
        "__builtin__.complex": complex,
        "builtins.complex": complex,
        "__builtin__.bytearray": _bytearray,
        "builtins.bytearray": _bytearray,
    }


def _rebuilt_of_type(function: Any, _kind: Any, arguments: Any, _state: Any) -> Any:
    """A tensor of a subclass, such as Parameter: as a plain one."""
    if not isinstance(function, Name) or not function.text.startswith("torch._utils._rebuild_"):
        raise UnpickleError("it has a tensor of a type of its own")
    return _calls()[function.text](*arguments)


def _bytearray(data: Any = b"", encoding: Any = None) -> bytearray:
    return bytearray(data if isinstance(data, bytes) else _encoded(data, encoding))


def _encoded(text: Any, encoding: Any = None) -> bytes:
    """Bytes, as Python 3 writes them for Python 2: text of one character a byte."""
    if not isinstance(text, str) or encoding not in {"latin1", "latin-1"}:
        raise UnpickleError("it encodes text in another way than pickles do")
    return text.encode("latin1")


def _size(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise UnpickleError(f"it has {value!r} where a size belongs")
    return value


def _checked_view(view: Any) -> _View:
    if not isinstance(view, _View):
        raise UnpickleError("it has a parameter that is no tensor")
    return view


def _rebuild(
    storage: Any, offset: Any, shape: Any, strides: Any, dtype: Any = None
) -> _View:
    """The view that the arguments of torch's own function describe, checked but for the data."""
    if not isinstance(storage, _Storage) or not isinstance(shape, tuple) or not isinstance(
            strides, tuple) or len(shape) != len(strides) or len(shape) > LARGEST_RANK:
        raise UnpickleError("it describes a tensor in a way that torch.save does not")
    element = storage.dtype
    if dtype is not None:
        found = _DTYPES.get(dtype.text.rsplit(".", 1)[-1]) if isinstance(dtype, Name) else None
        if found is None:
            raise UnpickleError(f"it has a tensor of dtype {dtype!r}")
        element = found
    view = _View(storage, element, _size(offset), tuple(map(_size, shape)),
                 tuple(map(_size, strides)))
    room = storage.count * storage.dtype.itemsize // element.itemsize
    last = view.offset + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    if prod(shape) and last >= room:
        raise UnpickleError(f"a tensor of shape {shape} and strides {strides} from element "
                            f"{offset} on leaves its storage of {room}")
    return view


# -- tensors ------------------------------------------------------------------------------------

def _tensor(view: _View, device: str | None) -> Tensor:
    """The values of a view; contiguous ones, also with axes in another order, are not read."""
    data = view.storage.data
    assert data is not None
    size, shape = view.dtype.itemsize, view.shape
    if not prod(shape):
        return tensor_of(memoryview(b""), view.dtype, shape, device)
    # Axes that repeat one element are read once.
    moving = [k for k, s in enumerate(view.strides) if s and shape[k] > 1]
    order = sorted(moving, key=lambda k: -view.strides[k])
    sizes = tuple(shape[k] for k in order)
    count, start = prod(sizes), view.offset * size
    if all(view.strides[k] == prod(sizes[n + 1:]) for n, k in enumerate(order)):
        memory = data[start:start + count * size]
    else:
        if count * size > len(data):
            raise UnpickleError(f"a tensor of shape {shape} repeats the elements of its storage")
        bytes_of = np.ndarray((*sizes, size), np.uint8, data, start,
                              (*(view.strides[k] * size for k in order), 1))
        memory = memoryview(bytearray(bytes_of.tobytes()))
    result = tensor_of(memory, view.dtype, sizes, device)
    if order != moving:
        result = result.permute(*(order.index(k) for k in moving))
    kept = tuple(shape[k] if k in moving else 1 for k in range(len(shape)))
    if kept != result.shape:
        result = result.reshape(kept)
    return result if kept == shape else result.expand(shape)


def _with_tensors(value: Any, tensor: Callable[[_View], Tensor]) -> Any:
    """A value with its views replaced; lists and dicts in place, which may hold themselves."""
    made: dict[int, Any] = {}
    kept: list[Any] = []  # ids stay unique while what they belong to lives

    def replaced(item: Any, depth: int) -> Any:
        if isinstance(item, Name):
            return _DTYPES.get(item.text.rsplit(".", 1)[-1], item.text)
        if not isinstance(item, (_View, list, dict, tuple)):
            return item
        if depth > _DEEPEST:
            raise UnpickleError(f"its containers are nested more than {_DEEPEST} deep")
        if id(item) in made:
            return made[id(item)]
        kept.append(item)
        if isinstance(item, _View):
            made[id(item)] = tensor(item)
        elif isinstance(item, tuple):
            made[id(item)] = tuple([replaced(part, depth + 1) for part in item])
        else:
            made[id(item)] = item
            if isinstance(item, list):
                item[:] = [replaced(part, depth + 1) for part in item]
            elif isinstance(item, dict):
                for key in item:
                    item[key] = replaced(item[key], depth + 1)
        return made[id(item)]

    return replaced(value, 0)

