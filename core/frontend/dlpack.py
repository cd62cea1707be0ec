"""DLPack, both ways: tensors and the arrays of other libraries in the same memory of the host.

Structures after dlpack.h of https://github.com/dmlc/dlpack, versions 0 and 1; protocol after the
Python Array API, "Data interchange mechanisms". A capsule holds a pointer to a structure whose
deleter the consumer calls when it is done.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any, Final
from weakref import finalize

from core.foundation.errors import DTypeError
from core.foundation.lazy_import import lazy_import
from core.frontend import realization
from core.ir import DType, UOp, dtypes
from core.plugin.host_memory import address_of

if TYPE_CHECKING:
    import numpy as np
else:
    np = lazy_import("numpy")

#: Kind and number of the host: kDLCPU, 0.
HOST: Final = (1, 0)
_PINNED_HOST: Final = 3
_VERSION: Final = (1, 0)
_READ_ONLY, _IS_COPY = 1, 2
_NAMES: Final = (b"dltensor", b"dltensor_versioned")
_USED_NAMES: Final = (b"used_dltensor", b"used_dltensor_versioned")
_CODES: Final = {
    dtypes.bool: 6, dtypes.bfloat16: 4, dtypes.fp8_e4m3: 10, dtypes.fp8_e5m2: 12,
    **dict.fromkeys((dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64), 0),
    **dict.fromkeys((dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64), 1),
    **dict.fromkeys((dtypes.float16, dtypes.float32, dtypes.float64), 2),
}
_DTYPES: Final = {(code, 8 * dtype.itemsize): dtype for dtype, code in _CODES.items()}


class _Array(ctypes.Structure):
    """DLTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p), ("device_kind", ctypes.c_int32), ("device", ctypes.c_int32),
        ("rank", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)), ("offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    """DLManagedTensor."""

    _fields_ = (("array", _Array), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = (("major", ctypes.c_uint32), ("minor", ctypes.c_uint32),
                ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
                ("flags", ctypes.c_uint64), ("array", _Array))


_Deleter: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_Destructor: Final = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
# Prototypes of our own: those of ctypes.pythonapi are shared by everything in the process.
_new_capsule: Any = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
        ("PyCapsule_New", ctypes.pythonapi))
_pointer_of: Any = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi))
_is_valid: Any = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi))
_set_name: Any = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_SetName", ctypes.pythonapi))
_is_valid_at: Any = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi))
_pointer_at: Any = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi))

# What is exported, by the address of its structure: kept until the deleter is called.
_exported: Final[dict[int, tuple[Any, ...]]] = {}


def _release(address: int) -> None:
    _exported.pop(address, None)


def _on_capsule_death(capsule: int) -> None:
    """A capsule that nobody has taken gives its structure back itself."""
    for name in _NAMES:
        if _is_valid_at(capsule, name):
            _exported.pop(_pointer_at(capsule, name), None)


_RELEASE: Final = _Deleter(_release)
_ON_CAPSULE_DEATH: Final = _Destructor(_on_capsule_death)


def capsule_of(value: UOp, version: Sequence[int] | None, copy: bool | None) -> Any:
    """A capsule of a value's memory; what reads it should not write to it.

    Args:
        value: Storage, as `realization.realize` gives it, in row-major order.
        version: Newest version that the consumer knows; None: one before versions.
        copy: True: memory of the consumer's own. False: the storage's own, or an error.

    Raises:
        BufferError: `copy` is False, and the host does not see the storage.
    """
    view = None if copy else realization.host_view(value)
    if view is None and copy is False:
        raise BufferError("the tensor's memory is not the host's: it can be exported only as a "
                          "copy")
    is_copy = view is None
    memory = view if view is not None else memoryview(bytearray(realization.read(value)))
    versioned = version is not None and tuple(version) >= _VERSION
    made: _Versioned | _Managed = _Versioned() if versioned else _Managed()
    if isinstance(made, _Versioned):
        made.major, made.minor = _VERSION
        made.flags = _IS_COPY if is_copy else _READ_ONLY
    rank, shape = len(value.shape), value.shape
    strides = [prod(shape[k + 1:]) for k in range(rank)]
    array: Any = made.array
    array.data = address_of(memory) if len(memory) else None
    array.device_kind, array.device = HOST
    array.rank, array.code, array.bits = rank, _CODES[value.dtype], 8 * value.dtype.itemsize
    array.lanes, array.offset = 1, 0
    numbers = (ctypes.c_int64 * (2 * rank))(*shape, *strides)
    array.shape = ctypes.cast(numbers, ctypes.POINTER(ctypes.c_int64))
    array.strides = ctypes.cast(ctypes.addressof(numbers) + 8 * rank,
                                ctypes.POINTER(ctypes.c_int64))
    made.deleter = ctypes.cast(_RELEASE, ctypes.c_void_p)
    address = ctypes.addressof(made)
    _exported[address] = (made, numbers, memory, value)
    return _new_capsule(address, _NAMES[versioned], ctypes.cast(_ON_CAPSULE_DEATH, ctypes.c_void_p))


def value_of(source: Any, device: str, copy: bool | None) -> UOp:
    """The memory of another library's array as a value on `device`.

    Args:
        source: Has `__dlpack__` and `__dlpack_device__`.
        device: Canonical name.
        copy: True: always copied. None: copied where it has to be. False: never, or an error.

    Raises:
        TypeError: `source` does not speak DLPack.
        BufferError: It cannot be exported, or `copy` is False and a copy is needed.
        DTypeError: No tensor can hold its dtype.
    """
    if not hasattr(source, "__dlpack__") or not hasattr(source, "__dlpack_device__"):
        raise TypeError(f"{type(source).__name__} has no __dlpack__: it cannot be exchanged")
    on_host = source.__dlpack_device__()[0] in {HOST[0], _PINNED_HOST}
    if not on_host and copy is False:
        raise BufferError("the array is not in the host's memory: it has to be copied")
    capsule = _capsule(source, on_host)
    versioned = bool(_is_valid(capsule, _NAMES[1]))
    if not versioned and not _is_valid(capsule, _NAMES[0]):
        raise BufferError("the array's capsule is of no known version, or was taken before")
    address = _pointer_of(capsule, _NAMES[versioned])
    kind: Any = _Versioned if versioned else _Managed
    managed = kind.from_address(address)
    if versioned and managed.major != _VERSION[0]:
        raise BufferError(f"the array speaks version {managed.major} of DLPack")
    _set_name(capsule, _USED_NAMES[versioned])
    owner = _Owner()
    if managed.deleter:
        finalize(owner, _Deleter(managed.deleter), address)
    return _imported(managed.array, owner, device, copy)


class _Owner:
    """Lives as long as anything that reads a foreign array; then the array is let go."""


def _capsule(source: Any, on_host: bool) -> Any:
    """Asks for a version, then without arguments those that know of none."""
    wanted: dict[str, Any] = {"max_version": _VERSION}
    if not on_host:
        wanted["dl_device"] = HOST
    try:
        return source.__dlpack__(**wanted)
    except TypeError:
        if not on_host:
            raise BufferError("the array is not in the host's memory, and its library does not "
                              "copy it there") from None
        return source.__dlpack__()


def _imported(array: Any, owner: _Owner, device: str, copy: bool | None) -> UOp:
    dtype = _DTYPES.get((array.code, array.bits))
    if dtype is None or array.lanes != 1:
        raise DTypeError(f"no tensor can hold DLPack's type {array.code} of {array.bits} bits in "
                         f"{array.lanes} lanes")
    shape = tuple(array.shape[:array.rank])
    size = prod(shape) * dtype.itemsize
    if not size:
        return realization.storage_from_host(b"", dtype, shape, device)
    strides = tuple(array.strides[:array.rank]) if array.strides else _row_major(shape)
    start = array.data + array.offset
    if all(n == 1 or s == m for n, s, m in zip(shape, strides, _row_major(shape), strict=True)):
        memory = _memory(start, size, owner)
        if not copy:
            return realization.storage_of_memory(memory, dtype, shape, device)
        return realization.storage_from_host(memory, dtype, shape, device)
    if copy is False:
        raise BufferError("the array is not in row-major order: it has to be copied")
    return realization.storage_from_host(
        _gathered(start, dtype, shape, strides, owner), dtype, shape, device)


def _row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(prod(shape[k + 1:]) for k in range(len(shape)))


def _memory(start: int, size: int, owner: _Owner) -> memoryview:
    """Bytes at an address, which keep their owner alive."""
    room: Any = (ctypes.c_uint8 * size).from_address(start)
    room.owner = owner
    return memoryview(room).cast("B")


def _gathered(
    start: int, dtype: DType, shape: tuple[int, ...], strides: tuple[int, ...], owner: _Owner
) -> bytes:
    """The elements of a strided array, row-major; strides may be negative."""
    reach = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
    low, high = sum(min(r, 0) for r in reach), sum(max(r, 0) for r in reach)
    width = dtype.itemsize
    memory = _memory(start + low * width, (high - low + 1) * width, owner)
    elements = np.ndarray((*shape, width), np.uint8, memory, -low * width,
                          (*(s * width for s in strides), 1))
    return elements.tobytes()
