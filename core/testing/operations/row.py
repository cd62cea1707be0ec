"""A row of the table of operations: what to compute, on what, and how near to numpy it has to be.

A row is run for each dtype that it takes. Its cases are operands of several shapes (broadcasting,
zero sizes), one with special values among them (NaN, infinity, -0.0, denormals; the ends of the
integers) and one whose operands are read backwards. Exact rows agree bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final
from zlib import crc32

import ml_dtypes
import numpy as np

from core.frontend import Tensor
from core.ir import DType, dtypes

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

FLOATS: Final = (dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16)
SIGNED: Final = (dtypes.int32, dtypes.int8, dtypes.int16, dtypes.int64)
UNSIGNED: Final = (dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64)
INTEGERS: Final = (*SIGNED, *UNSIGNED)
NUMBERS: Final = (*FLOATS, *INTEGERS)
ANY: Final = (*NUMBERS, dtypes.bool)
#: One dtype of each size and kind: for what looks at no values.
WIDTHS: Final = (dtypes.float32, dtypes.float64, dtypes.bfloat16, dtypes.int8, dtypes.uint16,
                 dtypes.int64, dtypes.bool)
#: Functions: floats, and what they make of integers.
FUNCTIONS: Final = (*FLOATS, dtypes.int32, dtypes.uint8, dtypes.bool)
ONE: Final = ((3, 5), (0, 4), ())
TWO: Final = (((3, 5), (3, 5)), ((4, 1, 3), (2, 1)), ((2, 0), (1, 1)), ((), (5,)))
_SPECIAL: Final = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-42, 6e-8, 1.0, -1.0, 0.5, -2.5)
_EPSILON: Final = {dtypes.float16: 2.0**-10, dtypes.bfloat16: 2.0**-7, dtypes.float32: 2.0**-23,
                   dtypes.float64: 2.0**-52}


@dataclass(frozen=True, kw_only=True)
class Row:
    """One operation.

    Attributes:
        method: The name in Tensor.
        call: Tensors → Tensor.
        oracle: Arrays → array. Operands come as their dtype says (bfloat16 as float32); where the
            result may round (`ulps`, `sums`) floats come in a longer format.
        variant: What tells it from other rows of the same method.
        takes: The dtypes it is run for, the usual one first.
        shapes: Operands' shapes of each case; a tuple of numbers stands for one operand. The first
            case is also run with special values and backwards, and for gradients.
        gives: dtype → dtype of the result: a dtype, or a function.
        ulps: How many units in the last place of the result it may be off, in float64 four times
            that; None: exact.
        sums: So many terms are summed: also so many units of the sum of their sizes.
        roundings: How often a small float is rounded on the way; once as a rule.
        special: Whether NaN, infinity and the ends of the integers are among the operands.
        gradient: Bounds of the operands between which finite differences hold; None: has none.
        low: Bound of the integers drawn.
        high: Bound of the integers drawn.
    """

    method: str
    call: Callable[..., Tensor]
    oracle: Callable[..., Any]
    variant: str = ""
    takes: tuple[DType, ...] = NUMBERS
    shapes: tuple[Any, ...] = ONE
    gives: DType | Callable[[DType], DType] | None = None
    ulps: float | None = None
    sums: int = 0
    roundings: int = 1
    special: bool = True
    gradient: tuple[float, float] | None = None
    low: int = -9
    high: int = 10


@dataclass(frozen=True)
class Case:
    """Operands of one computation."""

    what: str
    arrays: tuple[Array, ...]
    backwards: bool = False


def name_of(row: Row) -> str:
    """The name of a row: the method, and the variant in brackets."""
    return f"{row.method}[{row.variant}]" if row.variant else row.method


def result_dtype(row: Row, dtype: DType) -> DType:
    """What a row gives for operands of a dtype."""
    if row.gives is None:
        return dtype
    return row.gives if isinstance(row.gives, DType) else row.gives(dtype)


def to_float(dtype: DType) -> DType:
    """What functions give: floats stay, all else becomes the default float."""
    return dtype if dtype.is_float else dtypes.float32


def summed(dtype: DType) -> DType:
    """What sums give: small integers become 32 bits wide."""
    if dtype.is_float or dtype.bits >= 32:
        return dtype
    return dtypes.uint32 if dtype.kind == "unsigned" else dtypes.int32


def operand_shapes(shapes: Any) -> tuple[Shape, ...]:
    """The operands' shapes of one entry of `Row.shapes`."""
    return shapes if shapes and isinstance(shapes[0], tuple) else (shapes,)


def cases(row: Row, dtype: DType) -> Iterator[Case]:
    """Operands that a row is run with."""
    draw = np.random.default_rng(crc32(f"{name_of(row)} {dtype.name}".encode()))
    for shapes in row.shapes:
        arrays = tuple(_values(row, s, dtype, draw, special=False) for s in operand_shapes(shapes))
        yield Case(f"shapes {shapes}", arrays)
    first = operand_shapes(row.shapes[0])
    arrays = tuple(_values(row, s, dtype, draw, special=row.special) for s in first)
    yield Case("backwards" + " with special values" * row.special, arrays, backwards=True)
    if row.special:
        again = tuple(_values(row, s, dtype, draw, special=True) for s in first)
        yield Case("special values", again)


def _values(
    row: Row, shape: Shape, dtype: DType, draw: np.random.Generator, special: bool
) -> Array:
    chosen = draw.random(shape) < 0.3
    if dtype is dtypes.bool:
        return draw.integers(0, 2, shape).astype(np.bool_)
    if dtype.is_float:
        values = draw.normal(0, 3, shape)
        if special:
            values = np.where(chosen, draw.choice(_SPECIAL, shape), values)
        return rounded(values, dtype)
    held = np.dtype(dtype.name)
    low = row.low if dtype.is_signed else max(row.low, 0)
    values = draw.integers(low, row.high, shape).astype(held)
    if not special:
        return values
    info = np.iinfo(held)
    ends = np.array([info.min, info.min + 1, info.max, info.max - 1, 0], held)
    return np.where(chosen, draw.choice(ends, shape), values)


def rounded(values: Array, dtype: DType) -> Array:
    """Floats rounded to a dtype, bfloat16 held as float32; others cast."""
    with np.errstate(all="ignore"):
        if dtype is dtypes.bfloat16:
            return np.asarray(values).astype(ml_dtypes.bfloat16).astype(np.float32)
        return np.asarray(values).astype(dtype.name)


def tensors(case: Case, dtype: DType, device: str | None) -> list[Tensor]:
    """The operands of a case on a device; backwards ones lie reversed in storage."""
    made = []
    for array in case.arrays:
        axes = tuple(range(array.ndim)) if case.backwards else ()
        stored = np.ascontiguousarray(np.flip(array, axes)).reshape(array.shape)
        tensor = Tensor(stored, device=device).cast(dtype).realize()
        made.append(tensor.flip(axes) if axes else tensor)
    return made


def expected(row: Row, case: Case, dtype: DType) -> Array:
    """What numpy computes."""
    arrays = case.arrays
    if (row.ulps is not None or row.sums) and dtype.is_float:
        wide = np.longdouble if dtype is dtypes.float64 else np.float64
        arrays = tuple(a.astype(wide) for a in arrays)
    elif row.ulps is not None:
        arrays = tuple(a.astype(np.float32).astype(np.float64) for a in arrays)
    with np.errstate(all="ignore"):
        return np.asarray(row.oracle(*arrays))


def mismatch(row: Row, case: Case, dtype: DType, result: Tensor) -> str:
    """How the result of a case differs from numpy's, in words; empty where it does not."""
    right = expected(row, case, dtype)
    target = result_dtype(row, dtype)
    if result.dtype is not target:
        return f"{case.what}: dtype {result.dtype.name}, not {target.name}"
    if result.shape != right.shape:
        return f"{case.what}: shape {result.shape}, not {right.shape}"
    found = (result.cast(dtypes.float32) if target is dtypes.bfloat16 else result).numpy()
    near = rounded(right, target)
    same = found == near
    if target.is_float:
        same = (same & (np.signbit(found) == np.signbit(near))) | (np.isnan(found) & np.isnan(near))
    if target.is_float and (row.ulps is not None or row.sums):
        same |= _is_near(row, case, dtype, found, right)
    if same.all():
        return ""
    at = tuple(int(i) for i in np.argwhere(~same)[0])
    return (f"{case.what}: {(~same).sum()} of {found.size} differ, at {at}: {found[at]!r}, "
            f"numpy has {right[at]!r}\n{case.arrays}")


def _is_near(row: Row, case: Case, dtype: DType, found: Array, right: Array) -> Array:
    """Where the result is as near as the row says; zeros need no sign there."""
    target = result_dtype(row, dtype)
    epsilon = _EPSILON[target]
    working = min(epsilon, 2.0**-23)
    exact = right.astype(np.float64 if target is not dtypes.float64 else np.longdouble)
    with np.errstate(all="ignore"):
        tiny = np.finfo(np.float16 if target is dtypes.float16 else np.float32).smallest_subnormal
        smallest = 2.0**-1074 if target is dtypes.float64 else float(tiny)
        last = np.maximum(np.abs(exact) * epsilon, smallest)
        units = (row.ulps or 1) * (4 if target is dtypes.float64 else 1)
        # A small float is computed in float32 and rounded once.
        bound = last * (1 if epsilon > working else units)
        bound = bound + np.abs(exact) * (units * working if epsilon > working else 0)
        if row.sums:
            terms = tuple(np.abs(a.astype(np.float64)) for a in case.arrays)
            total = np.abs(np.asarray(row.oracle(*terms)))
            bound = bound + (row.sums * working + (row.roundings - 1) * epsilon) * total
        return np.asarray((np.abs(found.astype(exact.dtype) - exact) <= bound) | (found == exact))
