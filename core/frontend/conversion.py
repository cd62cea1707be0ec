"""dtypes as users name them, and Python numbers as constants."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from core.foundation.errors import DTypeError
from core.foundation.settings import settings
from core.ir import ALL_DTYPES, DType, UOp, dtype_named, dtypes, promote

_PYTHON_TYPES = {bool: "bool", int: "int", float: "float"}
NUMPY_NAMES = {d.name: d for d in ALL_DTYPES if d.bits} | {
    "float8_e4m3fn": dtypes.fp8_e4m3, "float8_e5m2": dtypes.fp8_e5m2,
}
_WORKING = {
    dtypes.float16: dtypes.float32, dtypes.bfloat16: dtypes.float32,
    dtypes.fp8_e4m3: dtypes.float32, dtypes.fp8_e5m2: dtypes.float32,
}
_SUMS = {
    dtypes.bool: dtypes.int32, dtypes.int8: dtypes.int32, dtypes.int16: dtypes.int32,
    dtypes.uint8: dtypes.uint32, dtypes.uint16: dtypes.uint32, **_WORKING,
}


def default_float() -> DType:
    """dtype of Python floats: the setting FLOAT."""
    return dtype_named(settings.FLOAT)


def default_int() -> DType:
    """dtype of Python integers and of indices: the setting INT."""
    return dtype_named(settings.INT)


def as_dtype(dtype: Any) -> DType:
    """A dtype from a DType, a name, a Python type or a numpy dtype.

    Raises:
        TypeError: There is no such dtype, or no tensor can have it.
    """
    if isinstance(dtype, DType):
        found = dtype
    elif isinstance(dtype, str):
        found = _of_name(dtype)
    elif dtype in _PYTHON_TYPES:
        found = {"bool": dtypes.bool, "int": default_int(), "float": default_float()}[
            _PYTHON_TYPES[dtype]
        ]
    else:
        name = str(getattr(dtype, "name", None) or getattr(dtype, "__name__", dtype))
        if name not in NUMPY_NAMES:
            known = ", ".join(d.name for d in ALL_DTYPES if d.bits)
            raise DTypeError(f"no tensor can hold {name!r}", cure=f"the dtypes are {known}")
        found = NUMPY_NAMES[name]
    if not found.bits:
        raise DTypeError(f"no tensor can have dtype {found.name}")
    return found


def _of_name(name: str) -> DType:
    try:
        return dtype_named(name)
    except TypeError:
        known = [d.name for d in ALL_DTYPES if d.bits]
        near = get_close_matches(name, known, 1)
        cure = f"did you mean {near[0]}?" if near else f"the dtypes are {', '.join(known)}"
        raise DTypeError(f"there is no dtype {name!r}", cure=cure) from None


def strong(dtype: DType) -> DType:
    """The dtype that a weak one takes when nothing else decides."""
    if dtype is dtypes.weak_int:
        return default_int()
    return default_float() if dtype is dtypes.weak_float else dtype


def common(*operands: DType) -> DType:
    """The dtype that operands are promoted to; never a weak one."""
    return strong(promote(*operands))


def number_dtype(value: object) -> DType:
    """The weak dtype of a Python number."""
    if isinstance(value, bool):
        return dtypes.bool
    return dtypes.weak_int if isinstance(value, int) else dtypes.weak_float


def number(value: Any, dtype: DType) -> UOp:
    """A Python number as a constant of `dtype`.

    Raises:
        DTypeError: An integer that does not fit, or a float that is no integer's value.
    """
    if not dtype.is_float and dtype is not dtypes.bool:
        if isinstance(value, float) and (value != value or value in (float("inf"), -float("inf"))):
            raise DTypeError(f"{value} is no value of {dtype.name}")
        if not dtype.minimum <= int(value) <= dtype.maximum:
            raise DTypeError(
                f"{value} does not fit {dtype.name} ({dtype.minimum} to {dtype.maximum})",
                cure="cast the tensor to a wider dtype first, or pass dtype=",
            )
    elif dtype.is_float and isinstance(value, int):
        try:
            float(value)
        except OverflowError:
            raise DTypeError(f"{value} does not fit {dtype.name}") from None
    return UOp.const(value, dtype)


def float_of(dtype: DType) -> DType:
    """The float dtype in which a function of this dtype gives its result."""
    return dtype if dtype.is_float else default_float()


def working(dtype: DType) -> DType:
    """The dtype in which a function of a float dtype is computed before it is rounded once."""
    return _WORKING.get(dtype, dtype)


def accumulator(dtype: DType) -> DType:
    """The dtype in which values of this dtype are summed."""
    return _SUMS.get(dtype, dtype)


def sum_result(dtype: DType) -> DType:
    """The dtype of a sum: small integers and bool widen, floats stay."""
    return dtype if dtype.is_float else accumulator(dtype)
