"""AND, OR, XOR and shifts of integers."""

from __future__ import annotations

from typing import Final

from core.ir import Op, Rule, UOp, bounds, var
from core.ir.pattern import INTEGERS, MACHINE_INTEGERS, WEAK, Pattern, node
from core.simplify.facts import filled, is_definite, is_x_definite


def _shift_of_shift(found: UOp, x: UOp, c: UOp, d: UOp) -> UOp | None:
    """(x << a) << b → x << (a + b), if that is no whole width."""
    if c.is_invalid or d.is_invalid or found.op is not found.src[0].op:
        return None
    width = x.dtype.bits
    within = c.value >= 0 and d.value >= 0 and c.value + d.value < width
    return x.alu(found.op, c.value + d.value) if within else None


def _holds_mask(x: UOp, c: UOp) -> bool:
    """x & (2^k - 1) of an x that has no other bits."""
    if c.is_invalid or c.value < 0 or c.value & (c.value + 1):
        return False
    low, high = bounds(x)
    return bool(low >= 0 and high <= c.value)


def _is_count(c: UOp) -> bool:
    return not c.is_invalid and 0 <= c.value < 64


def _all_ones(c: UOp) -> bool:
    return not c.is_invalid and c.value in (-1, c.dtype.maximum) and (
        c.value == -1 or c.dtype.kind == "unsigned")


_M: Final = var("x", MACHINE_INTEGERS)
_X: Final = var("x")
_W: Final = var("x", WEAK)
_C: Final = Pattern(ops=frozenset({Op.CONST}), name="c")
_D: Final = Pattern(ops=frozenset({Op.CONST}), name="d")
_SHIFTS: Final = frozenset({Op.SHL, Op.SHR})
RULES: Final = (
    Rule("and-itself", _M & _X, lambda x: x),
    Rule("or-itself", _M | _X, lambda x: x),
    Rule("exclusive-or-itself", _M ^ _X, lambda x: filled(0, x), when=is_x_definite),
    Rule("and-zero", _M & 0, lambda x: filled(0, x), when=is_x_definite),
    Rule("and-all-ones", _M & _C, lambda x: x, when=_all_ones),
    Rule("and-by-bounds", _M & _C, lambda x: x, when=_holds_mask),
    Rule("or-zero", _M | 0, lambda x: x),
    Rule("or-all-ones", _M | _C, lambda x, c: filled(c.value, x),
         when=lambda x, c: _all_ones(c) and is_definite(x)),
    Rule("exclusive-or-zero", _M ^ 0, lambda x: x),
    Rule("shift-by-zero", node(_SHIFTS, var("x", INTEGERS), 0), lambda x: x),
    Rule("shift-of-shift",
         node(_SHIFTS, node(_SHIFTS, _M, _C), _D, name="found"), _shift_of_shift),
    Rule("shift-left-is-product", node(Op.SHL, _W, _C), lambda x, c: x * (1 << c.value),
         when=_is_count, unbounded=True),
    Rule("shift-right-is-quotient", node(Op.SHR, _W, _C), lambda x, c: x // (1 << c.value),
         when=_is_count, unbounded=True),
)
