"""Elementwise operations as expressions of C, with the exact numbers of DESIGN section 2.

Nothing here relies on what C leaves open: integers are added as unsigned ones, shifts are masked,
divisors replaced where a processor would trap, and only numbers in range are converted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from core.foundation.errors import CompileError
from core.ir import DType, Op, UOp, bounds, dtypes
from core.render.c_style_dialects import CDialect

_SYMBOLS: Final = {
    Op.ADD: "+", Op.SUB: "-", Op.MUL: "*", Op.FDIV: "/", Op.AND: "&", Op.OR: "|", Op.XOR: "^",
    Op.CMPLT: "<", Op.CMPNE: "!=", Op.CMPEQ: "==",
}
# A bool is 0 or 1: what C's operators do to the integers is right for these.
_BOOL_SYMBOLS: Final = {**_SYMBOLS, Op.ADD: "|", Op.MAX: "|", Op.MUL: "&", Op.SUB: "^"}
_EXACT: Final = frozenset({Op.AND, Op.OR, Op.XOR, Op.CMPLT, Op.CMPNE, Op.CMPEQ})
#: Every elementwise op that has a form in each dialect; `CDialect.functions` may add some.
ALWAYS: Final = frozenset({
    Op.CAST, Op.RECIPROCAL, Op.NEG, Op.ADD, Op.SUB, Op.MUL, Op.FDIV, Op.TRUNCDIV, Op.TRUNCMOD,
    Op.MAX, Op.CMPLT, Op.CMPNE, Op.CMPEQ, Op.AND, Op.OR, Op.XOR, Op.SHL, Op.SHR, Op.WHERE,
})
_UNSIGNED: Final = {
    d: dtypes.uint64 if d.bits == 64 else dtypes.uint32
    for d in (dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64, dtypes.uint8, dtypes.uint16,
              dtypes.uint32, dtypes.uint64)}
_UNSIGNED_LANES: Final = {
    dtypes.int8: dtypes.uint8, dtypes.int16: dtypes.uint16, dtypes.int32: dtypes.uint32,
    dtypes.int64: dtypes.uint64}


def literal(dialect: CDialect, value: float, dtype: DType) -> str:
    """A constant."""
    if dialect.literal is not None:
        return dialect.literal(value, dtype)
    if dtype.kind == "bool":
        return str(int(value))
    suffix = dialect.suffixes.get(dtype, "")
    if dtype.is_float:
        if value - value != 0:
            text = dialect.nan if value != value else dialect.infinity
            return text if value > 0 and dtype is dtypes.float32 else (
                f"(({dialect.types[dtype]}){'-' if value < 0 else ''}{text})")
        text = float(value).hex() + suffix
        if dtype in dialect.computed_in:
            return f"(({dialect.types[dtype]}){text})"
        return f"({text})" if text[0] == "-" else text
    if value == dtype.minimum and dtype.kind == "signed" and dtype.bits >= 32:
        return f"({int(value) + 1}{suffix} - 1)"  # C has no negative literals
    return f"({int(value)}{suffix})" if value < 0 else f"{int(value)}{suffix}"


class Arithmetic:
    """Writes expressions for values of a dialect.

    Args:
        dialect: Names of types and functions.
        type_of: Text of a dtype; that of vectors, where operands are whole vectors.
        vector: Whether they are.
    """

    def __init__(
        self, dialect: CDialect, type_of: Callable[[DType], str], *, vector: bool = False
    ) -> None:
        self.dialect, self.type_of, self.vector = dialect, type_of, vector

    def elementwise(self, node: UOp, values: Sequence[str]) -> str:
        """An elementwise node of operands that are names or literals.

        Raises:
            CompileError: It should have been lowered.
        """
        op, dtype = node.op, node.src[-1].dtype
        if op is Op.WHERE:
            return self.choose(*values)
        if op is Op.CAST:
            return self.cast(node.src[0].dtype, node.dtype, values[0])
        if op in (Op.SHL, Op.SHR):
            return self._shift(node, values[0], values[1])
        if op in (Op.TRUNCDIV, Op.TRUNCMOD):
            return self._divide(node, values[0], values[1])
        return self.plain(op, dtype, values)

    def choose(self, condition: str, yes: str, no: str) -> str:
        """One of two values."""
        return self.dialect.choose.format(condition=condition, yes=yes, no=no)

    def plain(self, op: Op, dtype: DType, values: Sequence[str]) -> str:
        """An operation that needs to know its operands' dtype only."""
        if dtype.kind == "bool":
            form = self.dialect.bool_forms.get(op, "{0} " + _BOOL_SYMBOLS[op] + " {1}")
            return form.format(*values)
        if op is Op.MAX:
            return self._larger(dtype, *values)
        if op in (Op.CMPNE, Op.CMPEQ) and dtype.is_float:
            return self._equality(op, *values)
        if op in _EXACT:
            return f"{values[0]} {_SYMBOLS[op]} {values[1]}"
        work = self.dialect.computed_in.get(dtype, dtype)
        if not dtype.is_float:
            if op is Op.TRUNC:
                return values[0]
            if op is Op.MULACC:
                product = self.plain(Op.MUL, dtype, values)
                return self.plain(Op.ADD, dtype, (f"({product})", values[2]))
            work = (_UNSIGNED_LANES if self.vector else _UNSIGNED).get(dtype, dtype)
        if work is not dtype:
            values = [self._seen_as(work, value) for value in values]
        result = self._operator(op, work, values)
        return result if work is dtype else self._seen_as(dtype, f"({result})")

    def _operator(self, op: Op, dtype: DType, values: Sequence[str]) -> str:
        if op is Op.NEG:
            return f"-{values[0]}" if dtype.is_float or self.vector else f"0 - {values[0]}"
        if op is Op.RECIPROCAL:
            return f"{literal(self.dialect, 1.0, dtype)} / {values[0]}"
        if op in _SYMBOLS:
            return f"{values[0]} {_SYMBOLS[op]} {values[1]}"
        found = self.dialect.functions.get(op, {}).get(dtype)
        if found is None:
            raise CompileError(f"{op.name} of {dtype.name} has no form in {self.dialect.name}")
        return found.format(*values)

    def _equality(self, op: Op, a: str, b: str) -> str:
        """CMPEQ or CMPNE of floats."""
        equal = self.dialect.is_number.format(a) if a == b else f"{a} == {b}"
        if op is Op.CMPEQ:
            return equal
        return f"!({equal})" if a == b else self.dialect.unequal.format(a, b)

    def _seen_as(self, dtype: DType, value: str) -> str:
        """A value in another dtype: a scalar is converted, a vector keeps its bits."""
        vectors = self.dialect.vectors
        form = vectors.same_bits if self.vector and vectors else self.dialect.cast
        return form.format(name=self.type_of(dtype), value=value)

    def _larger(self, dtype: DType, a: str, b: str) -> str:
        if not dtype.is_float:
            return self.choose(f"{a} > {b}", a, b)
        # The sum of two zeros is -0 only if both are, that of NaN and anything is NaN.
        both = self.plain(Op.ADD, dtype, (a, b))
        equal = self.choose(f"{a} == {b} && {a} != 0", a, both)
        return self.choose(f"{a} > {b}", a, self.choose(f"{a} < {b}", b, equal))

    def _shift(self, node: UOp, a: str, b: str) -> str:
        dtype, amount = node.dtype, node.src[1]
        if not (amount.op is Op.CONST and 0 <= amount.value < dtype.bits):
            b = f"({b} & {dtype.bits - 1})"
        b = self.dialect.shift_count.format(b)
        if node.op is Op.SHR:
            return f"{a} >> {b}"
        return self._seen_as(dtype, f"({self._seen_as(_UNSIGNED[dtype], a)} << {b})")

    def _divide(self, node: UOp, a: str, b: str) -> str:
        """TRUNCDIV and TRUNCMOD: 0 where the divisor is 0, and INT_MIN / -1 wraps.

        Nothing is added where bounds exclude it.
        """
        dtype = node.dtype
        low, high = bounds(node.src[1])
        quotient = node.op is Op.TRUNCDIV
        result = f"{a} / {b}" if quotient else f"{a} % {b}"
        lowest = bounds(node.src[0])[0] <= dtype.minimum
        if dtype.kind == "signed" and dtype.bits >= 32 and low <= -1 <= high and lowest:
            negated = self.plain(Op.NEG, dtype, (a,)) if quotient else "0"
            result = self.choose(f"{b} == -1", negated, result)
        return self.choose(f"{b} == 0", "0", result) if low <= 0 <= high else result

    def cast(self, old: DType, new: DType, value: str) -> str:
        """Numeric conversion between dtypes."""
        if new.kind == "bool":
            if old.is_float:
                return self.dialect.unequal.format(value, "0")
            return value if old is new else f"{value} != 0"
        if old.is_float and not new.is_float:
            return self._float_to_integer(old, new, value)
        if new in self.dialect.computed_in and not old.is_float:
            # float32 holds every integer below 2^24 and the others are infinite in float16.
            value = self.as_type(self.dialect.computed_in[new], value)
        return value if old is new else self.as_type(new, value)

    def as_type(self, dtype: DType, value: str) -> str:
        """A scalar converted as the language does it."""
        return self.dialect.cast.format(name=self.type_of(dtype), value=value)

    def _float_to_integer(self, old: DType, new: DType, value: str) -> str:
        """Toward zero, NaN to 0, saturating; 8 and 16 bits saturate to int32 and keep low bits."""
        if new.bits < 32:
            whole = self._float_to_integer(old, dtypes.int32, value)
            return self.as_type(new, f"({whole})")
        work = self.dialect.computed_in.get(old, old)
        if work is not old:
            value = self.as_type(work, value)
        signed = new.kind == "signed"
        beyond = literal(self.dialect, 2.0 ** (new.bits - 1 if signed else new.bits), work)
        low, high = (literal(self.dialect, int(v), new) for v in (new.minimum, new.maximum))
        within = self.as_type(new, value)
        if not signed:
            below = self.choose(f"{value} > 0", within, "0")
        else:
            least = self.choose(self.dialect.is_number.format(value), low, "0")
            below = self.choose(f"{value} > -{beyond}", within, least)
        return self.choose(f"{value} >= {beyond}", high, below)
