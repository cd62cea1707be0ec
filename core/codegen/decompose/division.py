"""Integer division and remainder: floor from truncating, powers of two.

FLOORDIV(a, b)  → a >> k, or TRUNCDIV(a, b), less one where a remainder has not b's sign
FLOORMOD(a, b)  → a & (2^k - 1), or TRUNCMOD(a, b), plus b there
TRUNCMOD(a, b)  → a - TRUNCDIV(a, b) * b
TRUNCDIV(a, b)  → WHERE(b = 0, 0, TRUNCDIV(a, safe b))
RECIPROCAL(x)   → 1 / x
"""

from __future__ import annotations

from core.ir import Op, UOp, bounds


def _power_of_two(b: UOp) -> int | None:
    """K where b is the constant 2^k."""
    if b.op is not Op.CONST or b.is_invalid or b.value <= 0 or b.value & (b.value - 1):
        return None
    return int(b.value).bit_length() - 1


def _same_sign(a: UOp, b: UOp) -> bool:
    """Whether neither operand can be negative."""
    return bool(bounds(a)[0] >= 0 and bounds(b)[0] >= 0)


def _one_off(a: UOp, b: UOp, remainder: UOp) -> UOp:
    """Where truncation and floor differ: a remainder, of the other sign than b."""
    return remainder.ne(0) & ((remainder ^ b) < 0)


def floor_quotient(a: UOp, b: UOp) -> UOp:
    """FLOORDIV(a, b) → a shift, or TRUNCDIV corrected by one."""
    k = _power_of_two(b)
    if k is not None:
        return a >> k if k else a
    quotient = a.alu(Op.TRUNCDIV, b)
    if _same_sign(a, b):
        return quotient
    return _one_off(a, b, a.alu(Op.TRUNCMOD, b)).where(quotient - 1, quotient)


def floor_remainder(a: UOp, b: UOp) -> UOp:
    """FLOORMOD(a, b) → a mask, or TRUNCMOD corrected by b."""
    k = _power_of_two(b)
    if k is not None:
        return a & ((1 << k) - 1)
    remainder = a.alu(Op.TRUNCMOD, b)
    if _same_sign(a, b):
        return remainder
    return _one_off(a, b, remainder).where(remainder + b, remainder)


def truncated_remainder(a: UOp, b: UOp) -> UOp:
    """TRUNCMOD(a, b) → a - TRUNCDIV(a, b) * b, and 0 where b is 0."""
    remainder = a - a.alu(Op.TRUNCDIV, b) * b
    low, high = bounds(b)
    if low > 0 or high < 0:
        return remainder
    return b.eq(0).where(remainder.const_like(0), remainder)


def reciprocal(x: UOp) -> UOp:
    """RECIPROCAL(x) → FDIV(1, x)."""
    return x.const_like(1.0) / x
