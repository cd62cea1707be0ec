"""What every tensor has: a value, a place, and a way to meet numbers and arrays.

The operations are classes in `core.frontend.operations`, one per family, each extending the one
before it and using what that offers; `Tensor` is the last of the chain.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, Final, Self
from weakref import WeakValueDictionary

from core.foundation.errors import DeviceError, DTypeError
from core.foundation.settings import settings
from core.frontend import realization
from core.frontend.broadcasting import elementwise
from core.frontend.conversion import (
    as_dtype,
    common,
    default_float,
    float_of,
    number,
    number_dtype,
    strong,
    working,
)
from core.frontend.host_data import NOT_IN_NUMPY, HostData, from_list, from_numpy, pack
from core.ir import DType, Op, UOp, device_of, dtypes, product

_PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

# Tensors that name storage or were created by the user, not computed: those that `backward`
# fills. Keyed by id, because == on tensors compares their elements.
named_tensors: Final[WeakValueDictionary[int, TensorBase]] = WeakValueDictionary()
# Every tensor: a trace may reach each of them by closure.
live_tensors: Final[WeakValueDictionary[int, TensorBase]] = WeakValueDictionary()
# Those assigned to and not computed since: whatever is computed next, they are computed with it.
assigned_tensors: Final[WeakValueDictionary[int, TensorBase]] = WeakValueDictionary()


class Selection:
    """What a basic index chose of another tensor, so that writing to the result reaches it.

    Args:
        root: The tensor that was indexed.
        key: The index, in normal form.
        written: Value of `root` after the last write through this view, or None.
    """

    __slots__ = ("key", "root", "written")

    def __init__(self, root: TensorBase, key: Any) -> None:
        self.root, self.key = root, key
        self.written: UOp | None = None


class _Size(int):
    """A number of elements, as numpy and the Array API want it, that can be called."""

    extents: Callable[[int | None], Any]

    def __call__(self, axis: int | None = None) -> Any:
        return self.extents(axis)


class TensorBase:
    """A name for a value of the graph. See `core.frontend.Tensor`.

    Attributes:
        uop: The value; assignment replaces it.
        grad: Gradient that `backward` left here, or None.
        requires_grad: False keeps `backward` from filling `grad`.
    """

    __slots__ = ("__weakref__", "_made", "_selection", "grad", "requires_grad", "uop")
    uop: UOp
    grad: Self | None
    requires_grad: bool | None
    _selection: Selection | None
    _made: tuple[CodeType, int] | None

    def __init__(
        self, data: Any, dtype: Any = None, device: str | None = None,
        requires_grad: bool | None = None,
    ) -> None:
        """Make a tensor of numbers, nested lists, a numpy array, bytes, or another tensor.

        Args:
            data: The values; they are copied.
            dtype: Their dtype. Python floats are float32 and integers int32 by default (settings
                FLOAT and INT), arrays keep theirs, bytes are uint8.
            device: Where they live; the default device if None.
            requires_grad: False: `backward` leaves `grad` alone.

        Raises:
            ShapeError: Ragged lists.
            DTypeError: A value that no dtype holds, or that does not fit `dtype`.
            DeviceError: There is no such device.
        """
        wanted = None if dtype is None else as_dtype(dtype)
        self._name(_value(data, wanted, device), requires_grad)
        named_tensors[id(self)] = self

    def _name(self, uop: UOp, requires_grad: bool | None = None) -> None:
        self.uop, self.grad, self.requires_grad, self._selection = uop, None, requires_grad, None
        self._made = _user_place() if settings.TRACE_ERRORS else None
        live_tensors[id(self)] = self

    @classmethod
    def _of(cls, uop: UOp) -> Self:
        """The result of an operation."""
        tensor = object.__new__(cls)
        tensor._name(uop)
        return tensor

    @classmethod
    def _created(cls, uop: UOp, device: str | None, requires_grad: bool | None) -> Self:
        """What a creation function returns: a leaf for `backward`."""
        if device is not None:
            uop = moved(uop, device)
        if requires_grad and device_of(uop) is None and realization.running.trace is None:
            # Equal constants are one node; a leaf of its own is told apart by its storage.
            uop = realization.storage_from_host(
                realization.read(uop), uop.dtype, uop.shape, realization.default_device())
        tensor = object.__new__(cls)
        tensor._name(uop, requires_grad)
        if uop.dtype.is_float:
            named_tensors[id(tensor)] = tensor
        return tensor

    def _renamed(self) -> Self:
        """This value under a name of its own: assigning to one leaves the other as it is."""
        return self._of(self.uop)

    __hash__ = object.__hash__

    # -- what it is -------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[Any, ...]:
        """Extents of the axes."""
        return self.uop.shape

    @property
    def dtype(self) -> DType:
        """Type of the elements."""
        return self.uop.dtype

    @property
    def device(self) -> Any:
        """Name of the device that holds or will hold the value."""
        return device_of(self.uop) or realization.default_device()

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.uop.shape)

    def numel(self) -> Any:
        """Number of elements."""
        return product(self.uop.shape)

    @property
    def size(self) -> Any:
        """Number of elements; called, as PyTorch does, the shape or the extent of one axis."""
        count = self.numel()
        if not isinstance(count, int):
            return self._extents
        size = _Size(count)
        size.extents = self._extents
        return size

    def _extents(self, axis: int | None = None) -> Any:
        return self.shape if axis is None else self.shape[axis]

    def element_size(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    def nbytes(self) -> Any:
        """Bytes of all elements."""
        return self.numel() * self.dtype.itemsize

    def is_floating_point(self) -> bool:
        """Whether the elements are floats."""
        return self.dtype.is_float

    # -- meeting other operands ---------------------------------------------------------------

    def _tensor(self, other: Any, dtype: DType | None = None) -> Self:
        """Another operand as a tensor: numbers take the dtype they promote to with this one."""
        if isinstance(other, TensorBase):
            return other if isinstance(other, type(self)) else self._of(other.uop)
        if isinstance(other, (bool, int, float)):
            return self._of(number(other, dtype or common(self.dtype, number_dtype(other))))
        return type(self)(other)

    def _promoted(self, other: Any) -> tuple[UOp, UOp]:
        """Two operands in the dtype that they promote to, not broadcast.

        Raises:
            TypeError: `other` is no operand of arithmetic.
            DTypeError: A Python number does not fit.
            DeviceError: The operands live on different devices.
        """
        mine = self.uop
        if isinstance(other, (bool, int, float)):
            dtype = common(mine.dtype, number_dtype(other))
            return mine.cast(dtype), number(other, dtype)
        theirs = self._tensor(other).uop
        check_devices(mine, theirs)
        if mine.dtype is theirs.dtype:
            return mine, theirs
        dtype = common(mine.dtype, theirs.dtype)
        return mine.cast(dtype), theirs.cast(dtype)

    def _binary(self, op: Op, other: Any, reflected: bool = False) -> Self:
        a, b = self._promoted(other)
        return self._of(elementwise(op, b, a) if reflected else elementwise(op, a, b))

    def _float(self) -> Self:
        """This tensor as floats: integers and bool in the default float dtype."""
        return self if self.uop.dtype.is_float else self._of(self.uop.cast(default_float()))

    def _working(self) -> tuple[Self, DType]:
        """This tensor as a function of it is computed, and the dtype of that function's result."""
        result = float_of(self.uop.dtype)
        wide = working(result)
        return (self if wide is self.uop.dtype else self._of(self.uop.cast(wide))), result

    def cast(self, dtype: Any) -> Self:
        """Numeric conversion to another dtype.

        Floats become integers by truncation, NaN becomes 0; values out of range saturate at 32 and
        64 bits, and wrap from 32 bits at 8 and 16.

        Raises:
            TypeError: There is no such dtype.
        """
        target = as_dtype(dtype)
        return self._of(self.uop.cast(target))


def moved(uop: UOp, device: str) -> UOp:
    """A value on a device; the same node where it is there already."""
    name = realization.device_name(device)
    if name == (device_of(uop) or realization.default_device()):
        return uop
    return UOp(Op.COPY, (uop,), name)


def check_devices(*operands: UOp) -> None:
    """Refuse operands on several devices.

    Raises:
        DeviceError: They do not share one.
    """
    found = {d for d in map(device_of, operands) if d is not None}
    if len(found) > 1:
        names = " and ".join(sorted(map(str, found)))
        raise DeviceError(f"operands live on {names}", cure="move one of them: tensor.to(device)")


def _value(data: Any, dtype: DType | None, device: str | None) -> UOp:
    """The value that a constructor's arguments describe."""
    if isinstance(data, (bool, int, float)):
        wanted = dtype or strong(number_dtype(data))
        value = number(data, wanted)
        if wanted.is_float:
            return scalar_storage(value.value, wanted, device)
        return value if device is None else moved(value, device)
    if isinstance(data, (TensorBase, UOp)):
        value = data.uop if isinstance(data, TensorBase) else data
        value = value if dtype is None else value.cast(dtype)
        return value if device is None else moved(value, device)
    host = _host_data(data, dtype)
    place = realization.default_device() if device is None else realization.device_name(device)
    value = realization.storage_from_host(host.data, host.dtype, host.shape, place)
    return value if dtype is None else value.cast(dtype)


def scalar_storage(value: float, dtype: DType, device: str | None) -> UOp:
    """A float of rank 0 in storage of its own."""
    place = realization.default_device() if device is None else realization.device_name(device)
    stored = dtypes.float32 if dtype in NOT_IN_NUMPY else dtype
    data = pack((value,), stored)
    return realization.storage_from_host(data, stored, (), place).cast(dtype)


def _host_data(data: Any, dtype: DType | None) -> HostData:
    if isinstance(data, (list, tuple, range)):
        items = list(data) if isinstance(data, range) else data
        if not _holds_arrays(items):
            host = from_list(items, dtype)
            return host._replace(dtype=dtypes.float32) if host.dtype in NOT_IN_NUMPY else host
        return from_numpy(_as_arrays(items), dtype)
    if isinstance(data, (bytes, bytearray, memoryview)):
        view = memoryview(data).cast("B")
        return HostData(bytes(view), dtypes.uint8, (len(view),))
    if hasattr(data, "__array__") or hasattr(data, "__array_interface__"):
        return from_numpy(data, dtype)
    raise DTypeError(f"a tensor cannot be made of {type(data).__name__}",
                     cure="give a number, nested lists, a numpy array, bytes or a tensor")


def _holds_arrays(data: Any) -> bool:
    while isinstance(data, (list, tuple)) and data:
        data = data[0]
    return hasattr(data, "__array__") or isinstance(data, TensorBase)


def _as_arrays(data: Any) -> Any:
    if isinstance(data, (list, tuple)):
        return [_as_arrays(item) for item in data]
    return data.numpy() if isinstance(data, TensorBase) else data  # type: ignore[attr-defined]


def _user_place() -> tuple[CodeType, int] | None:
    """The line that is making a tensor: code object and instruction, turned to text if needed."""
    frame: FrameType | None = sys._getframe(3)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return None if frame is None else (frame.f_code, frame.f_lasti)


def place_text(made: tuple[CodeType, int] | None) -> str:
    """File and line of what `_user_place` found, for messages."""
    if made is None:
        return ""
    code, instruction = made
    line = next((n for start, end, n in code.co_lines() if start <= instruction < end), None)
    return f"{code.co_filename}:{line}"
