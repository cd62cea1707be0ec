"""Data types of the standard and the functions on them."""

from __future__ import annotations

from builtins import bool as bool_
from typing import Any, Final, NamedTuple

from core.foundation.errors import DTypeError
from core.frontend import Tensor
from core.frontend.conversion import common, number_dtype
from core.ir import DType, dtypes
from core.ir.dtype import LARGEST_FINITE

bool = dtypes.bool  # noqa: A001 - the standard's name
int8, int16, int32, int64 = dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64
uint8, uint16, uint32, uint64 = dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64
float32, float64 = dtypes.float32, dtypes.float64

SIGNED: Final = (int8, int16, int32, int64)
UNSIGNED: Final = (uint8, uint16, uint32, uint64)
FLOATS: Final = (float32, float64)
_NARROW: Final = (dtypes.float16, dtypes.bfloat16, dtypes.fp8_e4m3, dtypes.fp8_e5m2)
KINDS: Final[dict[str, tuple[DType, ...]]] = {
    "bool": (bool,), "signed integer": SIGNED, "unsigned integer": UNSIGNED,
    "integral": SIGNED + UNSIGNED, "real floating": FLOATS + _NARROW, "complex floating": (),
    "numeric": SIGNED + UNSIGNED + FLOATS + _NARROW,
}


class FloatInfo(NamedTuple):
    """What `finfo` says; the numbers are Python floats."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


class IntegerInfo(NamedTuple):
    """What `iinfo` says."""

    bits: int
    max: int
    min: int
    dtype: DType


def astype(
    x: Tensor, dtype: DType, /, *, copy: bool_ = True, device: str | None = None
) -> Tensor:
    """The array in another dtype; the array itself where nothing changes and `copy` is False."""
    result = x if not copy and x.dtype is dtype else x.cast(dtype)
    if device is not None and device != x.device:
        return result.to(device)
    return result.clone() if result is x and copy else result


def can_cast(from_: DType | Tensor, to: DType, /) -> bool_:
    """Whether promotion leads from one dtype to the other."""
    source = from_.dtype if isinstance(from_, Tensor) else from_
    return common(source, to) is to


def finfo(type: DType | Tensor, /) -> FloatInfo:  # noqa: A002 - the standard's name
    """Limits of a float dtype.

    Raises:
        DTypeError: It is no float.
    """
    dtype = type.dtype if isinstance(type, Tensor) else type
    if not isinstance(dtype, DType) or not dtype.is_float:
        raise DTypeError(f"finfo is about float dtypes, not {dtype}")
    mantissa = dtype.bits - 1 - dtype.exponent_bits
    largest = LARGEST_FINITE[dtype]
    return FloatInfo(dtype.bits, 2.0**-mantissa, largest, -largest,
                     2.0 ** (2 - (1 << (dtype.exponent_bits - 1))), dtype)


def iinfo(type: DType | Tensor, /) -> IntegerInfo:  # noqa: A002 - the standard's name
    """Limits of an integer dtype.

    Raises:
        DTypeError: It is no integer.
    """
    dtype = type.dtype if isinstance(type, Tensor) else type
    if not isinstance(dtype, DType) or not dtype.is_machine_integer:
        raise DTypeError(f"iinfo is about integer dtypes, not {dtype}")
    return IntegerInfo(dtype.bits, int(dtype.maximum), int(dtype.minimum), dtype)


def isdtype(dtype: DType, kind: DType | str | tuple[DType | str, ...]) -> bool_:
    """Whether a dtype is of a kind: a dtype, the name of a kind, or any of several.

    Raises:
        ValueError: There is no kind of that name.
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, DType):
        return dtype is kind
    if kind not in KINDS:
        raise ValueError(f"there is no kind {kind!r} of dtypes; there are {', '.join(KINDS)}")
    return dtype in KINDS[kind]


def result_type(*arrays_and_dtypes: Tensor | DType | complex) -> DType:
    """The dtype that operands are promoted to.

    Raises:
        TypeError: None are given, or one takes no part in arithmetic.
    """
    if not arrays_and_dtypes:
        raise DTypeError("result_type needs at least one operand")
    return common(*(_dtype_of(item) for item in arrays_and_dtypes))


def _dtype_of(item: Any) -> DType:
    if isinstance(item, DType):
        return item
    return item.dtype if isinstance(item, Tensor) else number_dtype(item)
