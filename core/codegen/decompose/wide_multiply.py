"""High half of the product of two unsigned integers, where the target has no wider integer."""

from __future__ import annotations

from core.codegen.decompose.arithmetic import Context
from core.ir import DType, UOp, dtypes


def multiply_high(a: UOp, b: UOp, context: Context) -> UOp:
    """The upper half of a * b, for uint32 and uint64.

    uint32 → one uint64 product where the target has those; otherwise four products of halves.
    """
    if a.dtype is dtypes.uint32 and dtypes.uint64 in context.target.dtypes:
        product = a.cast(dtypes.uint64) * b.cast(dtypes.uint64)
        return (product >> 32).cast(dtypes.uint32)
    half = a.dtype.bits // 2
    a_low, a_high = _halves(a, half, a.dtype)
    b_low, b_high = _halves(b, half, b.dtype)
    cross = a_high * b_low + (a_low * b_low >> half)
    other = a_low * b_high + (cross & ((1 << half) - 1))
    return a_high * b_high + (cross >> half) + (other >> half)


def _halves(a: UOp, half: int, dtype: DType) -> tuple[UOp, UOp]:
    """Low and high half of the digits, of a constant at once."""
    if a.op is not a.op.CONST:
        return a & ((1 << half) - 1), a >> half
    return UOp.const(a.value & ((1 << half) - 1), dtype), UOp.const(a.value >> half, dtype)
