"""The meaning of every elementwise op in every dtype, on numpy arrays.

    elementwise(Op.ADD, (a, b), (float16, float16), float16)

Operands are held as `core.reference.formats` says and broadcast as numpy does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from core.foundation.errors import DTypeError
from core.ir import COMPARISON, DType, Op, dtypes
from core.reference.conversion import cast
from core.reference.floats import FLOAT, multiply_add
from core.reference.formats import HELD, Array, round_to
from core.reference.integers import BOOLEAN, INTEGER, threefry


def elementwise(op: Op, operands: Sequence[Array], sources: Sequence[DType], dtype: DType) -> Array:
    """The result of an elementwise op.

    Args:
        op: The operation.
        operands: Held values.
        sources: Their dtypes.
        dtype: The result's.

    Raises:
        DTypeError: The op has no meaning for these dtypes.
    """
    with np.errstate(all="ignore"):
        if op is Op.CAST:
            return cast(operands[0], sources[0], dtype)
        if op is Op.WHERE:
            return np.where(*operands)
        kind = sources[-1]
        result = _float(op, operands, kind) if kind.is_float else _other(op, operands, kind)
    if op in COMPARISON:
        return result
    return round_to(result, dtype) if dtype.is_float else result.astype(HELD[dtype], copy=False)


def is_defined(op: Op, dtype: DType) -> bool:
    """Whether an op has a meaning for operands of a dtype."""
    if dtype is dtypes.void:
        return False
    if op in (Op.CAST, Op.WHERE):
        return True
    if op is Op.THREEFRY:
        return dtype is dtypes.uint64
    if dtype.is_float:
        return op in FLOAT or op is Op.MULACC
    return op in (BOOLEAN if dtype is dtypes.bool else INTEGER)


def _refuse(op: Op, dtype: DType) -> DTypeError:
    return DTypeError(f"{op.name} has no meaning for {dtype.name}")


def _float(op: Op, operands: Sequence[Array], dtype: DType) -> Array:
    """The result in float64, or in the very dtype where that rounds correctly by itself."""
    native = dtype in (dtypes.float64, dtypes.weak_float)
    if op is Op.MULACC:
        wide = [x.astype(np.float64) for x in operands]
        return multiply_add(*wide, narrow=not native)
    function: Callable[..., Any] | None = FLOAT.get(op)
    if function is None:
        raise _refuse(op, dtype)
    if op in COMPARISON or op in (Op.MAX, Op.NEG, Op.TRUNC):
        return np.asarray(function(*operands))
    if not native:
        operands = [x.astype(np.float64) for x in operands]
    return np.asarray(function(*operands))


def _other(op: Op, operands: Sequence[Array], dtype: DType) -> Array:
    if op is Op.THREEFRY and dtype is dtypes.uint64:
        return threefry(*operands)
    function = (BOOLEAN if dtype is dtypes.bool else INTEGER).get(op)
    if function is None:
        raise _refuse(op, dtype)
    return np.asarray(function(*operands))
