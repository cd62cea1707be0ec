"""Pieces of LLVM IR text: types, constants, and a function that is being written.

The language is that of LLVM 20 and later (opaque pointers, `splat` constants); see
llvm.org/docs/LangRef.html.
"""

from __future__ import annotations

from typing import Final

from core.foundation.errors import CompileError
from core.ir import DType, dtypes
from core.ir.dtype import float_bits, wrap_integer

_FLOATS: Final = {dtypes.float16: "half", dtypes.float32: "float", dtypes.float64: "double"}
_SIGNED_OF_BITS: Final = {
    d.bits: d for d in (dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64)
}


def vector(element: str, count: int) -> str:
    """The type of `count` lanes of a type; the type itself for 0 lanes."""
    return f"<{count} x {element}>" if count else element


def register_type(dtype: DType, count: int = 0) -> str:
    """Type of a value in a register: bool is i1.

    Raises:
        CompileError: The dtype should have been decomposed.
    """
    if dtype.is_float:
        if dtype not in _FLOATS:
            raise CompileError(f"{dtype.name} reached the LLVM renderer: nothing computes in it")
        return vector(_FLOATS[dtype], count)
    return vector(f"i{dtype.bits or 64}", count)


def memory_type(dtype: DType, count: int = 0) -> str:
    """Type of a value in memory: bool takes a byte."""
    return vector("i8", count) if dtype.kind == "bool" else register_type(dtype, count)


def suffix(dtype: DType, count: int = 0) -> str:
    """How the name of an overloaded intrinsic ends: ``v8f32``."""
    kind = "f" if dtype.is_float else "i"
    return f"{f'v{count}' if count else ''}{kind}{dtype.bits}"


def number_text(value: float, dtype: DType) -> str:
    """A constant number without its type.

    Floats are written as the 64 bits of the double, which are exact for float and half too (a
    half has its own form, 0xH, in which only 16 bits are written).
    """
    if dtype.kind == "bool":
        return "true" if value else "false"
    if dtype is dtypes.float16:
        return f"0xH{_half_bits(float(value)):04X}"
    if dtype.is_float:
        return f"0x{float_bits(float(value)):016X}"
    if dtype.kind == "unsigned":
        return str(wrap_integer(int(value), _SIGNED_OF_BITS[dtype.bits]))
    return str(value)


def _half_bits(value: float) -> int:
    """The 16 bits of a double that is a value of float16."""
    bits = float_bits(value)
    sign, exponent, mantissa = bits >> 63, (bits >> 52) & 0x7FF, bits & ((1 << 52) - 1)
    if exponent == 0x7FF:
        return sign << 15 | 0x7C00 | (0x200 if mantissa else 0)
    if exponent < 1023 - 14:
        return sign << 15 | int(abs(value) * 2.0**24)
    return sign << 15 | (exponent - 1023 + 15) << 10 | mantissa >> 42


def constant_text(value: float, dtype: DType, count: int = 0) -> str:
    """A constant without its type, the same in every lane."""
    number = number_text(value, dtype)
    return f"splat ({register_type(dtype)} {number})" if count else number


class FunctionText:
    """The text of one function: an entry block, the blocks after it, and what they need declared.

    Attributes:
        entry: Lines of the entry block: arguments and private arrays.
        lines: Lines after it, the first of them in a block of their own.
        block: Label of the block that is open.
        declarations: Intrinsics used, by their declaration.
        zeros: Bytes of the constant that gated-off loads read; 0 where none does.
    """

    def __init__(self) -> None:
        self.entry: list[str] = []
        self.lines: list[str] = []
        self.block = "body"
        self.declarations: dict[str, None] = {}
        self.zeros = 0
        self._names = 0

    def name(self) -> str:
        """A register that nothing else has."""
        self._names += 1
        return f"%v{self._names}"

    def let(self, expression: str) -> str:
        """Name the value of an instruction."""
        name = self.name()
        self.lines.append(f"  {name} = {expression}")
        return name

    def say(self, instruction: str) -> None:
        """An instruction without a value."""
        self.lines.append(f"  {instruction}")

    def label(self) -> str:
        """A label that nothing else has."""
        self._names += 1
        return f"b{self._names}"

    def open(self, label: str) -> None:
        """Start a block."""
        self.lines.append(f"{label}:")
        self.block = label

    def intrinsic(self, name: str, result: str, *arguments: tuple[str, str]) -> str:
        """A call of an intrinsic, each argument as (type, value)."""
        types = ", ".join(kind for kind, _ in arguments)
        self.declarations[f"declare {result} @{name}({types})"] = None
        values = ", ".join(f"{kind} {value}" for kind, value in arguments)
        call = f"call {result} @{name}({values})"
        if result == "void":
            self.say(call)
            return ""
        return self.let(call)

    def text(self, name: str) -> str:
        """The module of this one function."""
        head = f"define void @{name}(ptr noalias readonly %args, i64 %lo, i64 %hi, i64 %tid)"
        parts = []
        if self.zeros:
            parts.append(f"@zeros = private unnamed_addr constant [{self.zeros} x i8] "
                         f"zeroinitializer, align 64")
        parts.append(f"{head} nounwind {{\nentry:")
        parts.extend([*self.entry, "  br label %body", "body:", *self.lines, "  ret void", "}"])
        parts.extend(self.declarations)
        if any("!nontemporal" in line for line in self.lines):
            parts.append("!0 = !{i32 1}")
        return "\n".join(parts) + "\n"
