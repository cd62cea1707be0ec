"""Operators: arithmetic, comparison, bits, choice, conversion."""

from __future__ import annotations

from typing import Any, Self

from core.foundation.errors import DTypeError
from core.frontend.base import check_devices
from core.frontend.broadcasting import broadcast, elementwise, show
from core.frontend.conversion import as_dtype, common, number, number_dtype
from core.frontend.derivative import with_derivative
from core.frontend.iota import tabulate
from core.frontend.operations.creation import CreationOperations
from core.frontend.operations.remainder import float_quotient, float_remainder, match
from core.ir import DType, Op, UOp, dtypes


class ArithmeticOperations(CreationOperations):
    """Operators of Python and their named forms. Operands broadcast and promote as in numpy."""

    __slots__ = ()

    # -- arithmetic -------------------------------------------------------------------------

    def add(self, other: Any) -> Self:
        """Sum; integers wrap, bool is logical or."""
        return self._arithmetic(Op.ADD, other)

    def sub(self, other: Any) -> Self:
        """Difference; integers wrap.

        Raises:
            DTypeError: Both are bool.
        """
        return self._subtract(other, reflected=False)

    def mul(self, other: Any) -> Self:
        """Product; integers wrap."""
        return self._arithmetic(Op.MUL, other)

    def _arithmetic(self, op: Op, other: Any) -> Self:
        a, b = self._promoted(other)
        if a.dtype is dtypes.bool:
            op = Op.OR if op is Op.ADD else Op.AND
        return self._of(elementwise(op, a, b))

    def _subtract(self, other: Any, reflected: bool) -> Self:
        a, b = self._promoted(other)
        if a.dtype is dtypes.bool:
            raise DTypeError("bool tensors have no difference", cure="use ^ or cast to an integer")
        return self._of(elementwise(Op.SUB, b, a) if reflected else elementwise(Op.SUB, a, b))

    def div(self, other: Any, rounding_mode: str | None = None) -> Self:
        """Quotient; of integers a float.

        Args:
            other: The divisor.
            rounding_mode: None, "trunc" (toward zero) or "floor"; these keep integers integers.
        """
        if rounding_mode == "floor":
            return self._floor_divide(other, reflected=False)
        if rounding_mode == "trunc":
            a, b = self._promoted(other)
            if a.dtype.is_float:
                return self._of(elementwise(Op.TRUNC, elementwise(Op.FDIV, a, b)))
            return self._of(elementwise(Op.TRUNCDIV, *_integers("div", a, b)))
        if rounding_mode is not None:
            raise ValueError(f"rounding_mode is None, 'trunc' or 'floor', not {rounding_mode!r}")
        return self._divide(other, reflected=False)

    def _divide(self, other: Any, reflected: bool) -> Self:
        a, b = self._promoted(other)
        if not a.dtype.is_float:
            wide = common(a.dtype, dtypes.weak_float)
            a, b = a.cast(wide), b.cast(wide)
        return self._of(elementwise(Op.FDIV, b, a) if reflected else elementwise(Op.FDIV, a, b))

    def _floor_divide(self, other: Any, reflected: bool) -> Self:
        a, b = self._promoted(other)
        if reflected:
            a, b = b, a
        if a.dtype.is_float:
            return self._of(float_quotient(a, b))
        return self._of(elementwise(Op.FLOORDIV, *_integers("//", a, b)))

    def mod(self, other: Any) -> Self:
        """Remainder with the sign of the divisor, as Python's %; 0 for integers divided by 0."""
        return self._modulo(other, reflected=False)

    def _modulo(self, other: Any, reflected: bool) -> Self:
        a, b = self._promoted(other)
        if reflected:
            a, b = b, a
        if a.dtype.is_float:
            return self._of(float_remainder(a, b))
        return self._of(elementwise(Op.FLOORMOD, *_integers("%", a, b)))

    def fmod(self, other: Any) -> Self:
        """Remainder with the sign of the dividend, as C's fmod; exact."""
        a, b = self._promoted(other)
        if a.dtype.is_float:
            return self._of(float_remainder(a, b, truncating=True))
        return self._of(elementwise(Op.TRUNCMOD, *_integers("fmod", a, b)))

    def neg(self) -> Self:
        """Sign flipped; integers wrap.

        Raises:
            DTypeError: bool has no sign.
        """
        if self.dtype is dtypes.bool:
            raise DTypeError("a bool tensor has no negative", cure="use ~ or logical_not()")
        return self._of(self.uop.alu(Op.NEG))

    def pow(self, other: Any) -> Self:
        """Power, as IEEE pow; of integers an integer.

        Raises:
            DTypeError: An integer tensor to a negative number.
        """
        return self._power(other, reflected=False)

    def _power(self, other: Any, reflected: bool) -> Self:
        if not reflected and isinstance(other, (int, float)) and not isinstance(other, bool):
            if not self.dtype.is_float and isinstance(other, int) and other < 0:
                raise DTypeError(f"an integer tensor to the power {other} is no integer",
                                 cure="convert it first: tensor.float()")
            simple = self._small_power(other)
            if simple is not None:
                return simple
        a, b = self._promoted(other)
        if reflected:
            a, b = b, a
        if a.dtype is dtypes.bool:
            a, b = a.cast(dtypes.int8), b.cast(dtypes.int8)
        return self._of((a.dtype.is_float and _float_power(a, b)) or elementwise(Op.POW, a, b))

    def _small_power(self, exponent: float) -> Self | None:
        """Powers that are products, and give what pow gives."""
        if (isinstance(exponent, float) and not self.dtype.is_float) or self.dtype is dtypes.bool:
            return None
        if exponent == 1:
            return self._renamed()
        if exponent == 2:
            return self.mul(self)
        if exponent == 3 and self.dtype in (dtypes.float32, dtypes.float64):
            return self.mul(self).mul(self)
        return self._of(self.uop.alu(Op.RECIPROCAL)) if exponent == -1 else None

    # -- comparison and choice --------------------------------------------------------------

    def eq(self, other: Any) -> Self:
        """self == other, elementwise."""
        return self._binary(Op.CMPEQ, other)

    def ne(self, other: Any) -> Self:
        """self != other, elementwise; NaN differs from everything."""
        return self._binary(Op.CMPNE, other)

    def _at_most(self, other: Any, reflected: bool) -> Self:
        a, b = self._promoted(other)
        if reflected:
            a, b = b, a
        return self._of(elementwise(Op.OR, elementwise(Op.CMPLT, a, b),
                                    elementwise(Op.CMPEQ, a, b)))

    def maximum(self, other: Any) -> Self:
        """Larger of two; NaN wins."""
        return self._binary(Op.MAX, other)

    def minimum(self, other: Any) -> Self:
        """Smaller of two; NaN wins."""
        a, b = self._promoted(other)
        return self._of(mirrored(elementwise(Op.MAX, mirrored(a), mirrored(b))))

    def where(self, yes: Any, no: Any) -> Self:
        """`yes` where this bool tensor holds, else `no`.

        Raises:
            DTypeError: This tensor is not bool.
        """
        if self.dtype is not dtypes.bool:
            raise DTypeError(f"where chooses by a bool tensor, not {self.dtype.name}",
                             cure="compare first: (x != 0).where(a, b)")
        if isinstance(yes, (bool, int, float)) and isinstance(no, (bool, int, float)):
            dtype = common(number_dtype(yes), number_dtype(no))
            return self._of(elementwise(Op.WHERE, self.uop, number(yes, dtype), number(no, dtype)))
        if isinstance(yes, (bool, int, float)):
            b, a = self._tensor(no)._promoted(yes)
        else:
            a, b = self._tensor(yes)._promoted(no)
        check_devices(self.uop, a, b)
        return self._of(elementwise(Op.WHERE, self.uop, a, b))

    def clamp(self, min: Any = None, max: Any = None) -> Self:  # noqa: A002 - torch's names
        """Values limited to [min, max]; the gradient passes where the value is not changed."""
        if min is None and max is None:
            raise TypeError("clamp needs min, max or both")
        result = self if min is None else self.maximum(min)
        result = result if max is None else result.minimum(max)
        x = self.uop.cast(result.dtype)
        if not x.dtype.is_float or any(isinstance(v, type(self)) for v in (min, max)):
            return result
        return self._of(with_derivative(result.uop, (x,), _pass_where_kept))

    clip = clamp

    # -- bits and logic ---------------------------------------------------------------------

    def bitwise_and(self, other: Any) -> Self:
        """Bitwise and; logical for bool."""
        return self._bits("&", Op.AND, other)

    def bitwise_or(self, other: Any) -> Self:
        """Bitwise or; logical for bool."""
        return self._bits("|", Op.OR, other)

    def bitwise_xor(self, other: Any) -> Self:
        """Bitwise exclusive or; logical for bool."""
        return self._bits("^", Op.XOR, other)

    def bitwise_not(self) -> Self:
        """Bits flipped; logical for bool."""
        if self.dtype is dtypes.bool:
            return self.logical_not()
        (x,) = _integers("~", self.uop)
        return self._of(x.alu(Op.XOR, -1 if x.dtype.is_signed else x.dtype.maximum))

    def _bits(self, sign: str, op: Op, other: Any) -> Self:
        a, b = self._promoted(other)
        if a.dtype.is_float:
            raise DTypeError(f"{sign} is defined for integers and bool, not {a.dtype.name}",
                             cure="cast to an integer, or bitcast")
        return self._of(elementwise(op, a, b))

    def lshift(self, other: Any) -> Self:
        """Bits moved left; 0 from the width on, as in numpy."""
        return self._shift(Op.SHL, other, reflected=False)

    def rshift(self, other: Any) -> Self:
        """Bits moved right, sign kept; from the width on only the sign is left, as in numpy."""
        return self._shift(Op.SHR, other, reflected=False)

    def _shift(self, op: Op, other: Any, reflected: bool) -> Self:
        a, b = self._promoted(other)
        if reflected:
            a, b = b, a
        sign = "<<" if op is Op.SHL else ">>"
        a, b = _integers(sign, *(v.cast(dtypes.int8) if v.dtype is dtypes.bool else v
                                 for v in (a, b)))
        shifted = elementwise(op, a, b)
        # A count is in range where it is below the width as an unsigned number.
        count = b.bitcast(_UNSIGNED[b.dtype.bits])
        inside = count < b.dtype.bits
        beyond = a.const_like(0)
        if op is Op.SHR and a.dtype.is_signed:
            beyond = a.alu(Op.SHR, b.dtype.bits - 1)
        return self._of(elementwise(Op.WHERE, inside, shifted, beyond))

    def logical_not(self) -> Self:
        """Whether the value is 0."""
        return self._of(self.uop.cast(dtypes.bool).logical_not())

    def logical_and(self, other: Any) -> Self:
        """Whether both are nonzero."""
        return self.cast(dtypes.bool)._binary(Op.AND, self._tensor(other).cast(dtypes.bool))

    def logical_or(self, other: Any) -> Self:
        """Whether one of them is nonzero."""
        return self.cast(dtypes.bool)._binary(Op.OR, self._tensor(other).cast(dtypes.bool))

    def logical_xor(self, other: Any) -> Self:
        """Whether exactly one of them is nonzero."""
        return self.cast(dtypes.bool)._binary(Op.XOR, self._tensor(other).cast(dtypes.bool))

    def bitcast(self, dtype: Any) -> Self:
        """The same bytes as another dtype; with another item size the last axis changes.

        Raises:
            DTypeError: The bytes of the last axis are no whole number of elements.
        """
        target = as_dtype(dtype)
        if dtypes.bool in (target, self.dtype) and target is not self.dtype:
            raise DTypeError("bool has no fixed bits to reinterpret", cure="cast instead")
        return self._of(_reinterpreted(self.uop, target))


_UNSIGNED = {8: dtypes.uint8, 16: dtypes.uint16, 32: dtypes.uint32, 64: dtypes.uint64}


def _reinterpreted(x: UOp, target: DType) -> UOp:
    """BITCAST; between item sizes by shifts, so that it needs no storage. Little endian.

    Raises:
        DTypeError: The last axis is no whole number of elements.
    """
    old, new = x.dtype.itemsize, target.itemsize
    if old == new:
        return x.bitcast(target)
    if not x.shape or x.shape[-1] * old % new:
        raise DTypeError(f"bitcast from {x.dtype.name} to {target.name}: the last axis of shape "
                         f"{show(x.shape)} is no whole number of elements")
    *lead, last = x.shape
    wide, narrow = _UNSIGNED[8 * max(old, new)], _UNSIGNED[8 * min(old, new)]
    ratio = max(old, new) // min(old, new)
    shifts = tabulate(lambda k: (k * (8 * min(old, new))).cast(wide), ratio)
    if old > new:
        pairs = broadcast(x.bitcast(wide).reshape((*x.shape, 1)), (*x.shape, ratio))
        parts = elementwise(Op.SHR, pairs, broadcast(shifts, pairs.shape)).cast(narrow)
        return parts.reshape((*lead, last * ratio)).bitcast(target)
    grouped = x.bitcast(narrow).reshape((*lead, last // ratio, ratio)).cast(wide)
    moved = elementwise(Op.SHL, grouped, broadcast(shifts, grouped.shape))
    axis = len(lead) + 1
    return moved.permute((axis, *range(axis))).reduce(Op.ADD, axes=1).bitcast(target)


def _integers(sign: str, *operands: UOp) -> tuple[UOp, ...]:
    """Operands checked to be integers; bool counts as int8.

    Raises:
        DTypeError: One is a float.
    """
    for operand in operands:
        if operand.dtype.is_float:
            raise DTypeError(f"{sign} is defined for integers, not {operand.dtype.name}",
                             cure="cast to an integer first")
    return tuple(o.cast(dtypes.int8) if o.dtype is dtypes.bool else o for o in operands)


def mirrored(x: UOp) -> UOp:
    """Values in reverse order, so that MAX finds the smallest; its own inverse."""
    if x.dtype.is_float:
        return x.alu(Op.NEG)
    if x.dtype is dtypes.bool:
        return x.logical_not()
    return x.alu(Op.XOR, -1 if x.dtype.is_signed else x.dtype.maximum)


def _pass_where_kept(g: UOp, value: UOp, x: UOp) -> tuple[UOp]:
    kept = elementwise(Op.CMPEQ, value, x)
    return (elementwise(Op.WHERE, kept, g, g.const_like(0)),)


def _float_power(a: UOp, b: UOp) -> UOp:
    wide, (x, y) = match(a, b)
    return elementwise(Op.POW, x, y).cast(wide)

