"""Simple operations that a renderer may lack: NEG, MAX, TRUNC, comparisons, MULACC."""

from __future__ import annotations

from core.codegen.decompose.arithmetic import FORMATS
from core.ir import UOp


def negate(x: UOp) -> UOp:
    """NEG(x) → -0.0 - x for floats, 0 - x for integers."""
    return x.const_like(-0.0 if x.dtype.is_float else 0) - x


def larger(a: UOp, b: UOp) -> UOp:
    """MAX(a, b) → a choice; for floats NaN wins, and equal numbers are joined so that +0 wins."""
    if a.dtype.kind == "bool":
        return a | b
    if not a.dtype.is_float:
        return (a < b).where(b, a)
    form = FORMATS[a.dtype]
    both = (a.bitcast(form.unsigned) & b.bitcast(form.unsigned)).bitcast(a.dtype)
    return a.eq(b).where(both, ((a < b) | b.ne(b)).where(b, a))


def truncate(x: UOp) -> UOp:
    """TRUNC(x) → to an integer and back where x may have a fraction, with the sign of x."""
    if not x.dtype.is_float:
        return x
    form = FORMATS[x.dtype]
    sign = x.bitcast(form.unsigned) & form.sign_bit
    magnitude = (x.bitcast(form.unsigned) ^ sign).bitcast(x.dtype)
    whole = magnitude.cast(form.signed).cast(x.dtype).bitcast(form.unsigned) | sign
    return (magnitude < 2.0**form.mantissa).where(whole.bitcast(x.dtype), x)


def equal(a: UOp, b: UOp) -> UOp:
    """CMPEQ(a, b) → CMPNE(a, b) ^ True."""
    return a.ne(b) ^ True


def multiply_then_add(a: UOp, b: UOp, c: UOp) -> UOp:
    """MULACC(a, b, c) → a * b + c, rounded twice."""
    return a * b + c
