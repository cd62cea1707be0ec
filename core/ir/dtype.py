"""Scalar types and the promotion lattice.

A dtype is an interned object: compare with `is`. Weak int and weak float are the types of Python
literals and of index arithmetic: unbounded integers that never wrap, and doubles that take the
dtype of whatever they meet.
"""

from __future__ import annotations

import math
import struct
from functools import cache
from typing import Final

Scalar = bool | int | float


class DType:
    """One scalar type.

    Attributes:
        name: The name users write, e.g. "float32".
        kind: One of bool, signed, unsigned, float, weak_int, weak_float, void.
        bits: Width in bits of the stored value; 0 for weak types and void.
        itemsize: Bytes of one stored element (bool takes one byte).
        exponent_bits: Width of a float's exponent field; 0 for other kinds.
        order: Position in promotion; also a stable sort key.
    """

    __slots__ = ("bits", "exponent_bits", "itemsize", "kind", "name", "order")

    def __init__(self, name: str, kind: str, bits: int, order: int, exponent_bits: int = 0) -> None:
        self.name, self.kind, self.bits, self.order = name, kind, bits, order
        self.exponent_bits = exponent_bits
        self.itemsize = (bits + 7) // 8

    def __repr__(self) -> str:
        return f"dtypes.{self.name}"

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return dtype_named, (self.name,)

    @property
    def is_float(self) -> bool:
        """True for every floating type, weak float included."""
        return self.kind in ("float", "weak_float")

    @property
    def is_integer(self) -> bool:
        """True for signed, unsigned and weak integers; bool is not an integer."""
        return self.kind in ("signed", "unsigned", "weak_int")

    @property
    def is_signed(self) -> bool:
        """True where negative values exist."""
        return self.kind in ("signed", "weak_int", "float", "weak_float")

    @property
    def is_weak(self) -> bool:
        """True for the types of Python literals."""
        return self.kind in ("weak_int", "weak_float")

    @property
    def is_machine_integer(self) -> bool:
        """True for integers of fixed width, whose arithmetic wraps."""
        return self.kind in ("signed", "unsigned")

    @property
    def minimum(self) -> Scalar:
        """Smallest value: -inf for weak integers and for floats that have it (fp8_e4m3: -448)."""
        if self.kind == "bool":
            return False
        if self.name == "fp8_e4m3":
            return -LARGEST_FINITE[self]
        if self.kind == "signed":
            return -(1 << (self.bits - 1))
        return 0 if self.kind == "unsigned" else -math.inf

    @property
    def maximum(self) -> Scalar:
        """Largest value: inf for weak integers and for floats that have it (fp8_e4m3: 448)."""
        if self.kind == "bool":
            return True
        if self.name == "fp8_e4m3":
            return LARGEST_FINITE[self]
        if self.kind == "signed":
            return (1 << (self.bits - 1)) - 1
        return (1 << self.bits) - 1 if self.kind == "unsigned" else math.inf


class dtypes:  # noqa: N801 - the public name users of this field expect
    """Namespace of all dtypes, and of the two configurable defaults' fixed values."""

    void: Final = DType("void", "void", 0, 0)
    bool: Final = DType("bool", "bool", 1, 1)
    weak_int: Final = DType("weak_int", "weak_int", 0, 2)
    int8: Final = DType("int8", "signed", 8, 3)
    uint8: Final = DType("uint8", "unsigned", 8, 4)
    int16: Final = DType("int16", "signed", 16, 5)
    uint16: Final = DType("uint16", "unsigned", 16, 6)
    int32: Final = DType("int32", "signed", 32, 7)
    uint32: Final = DType("uint32", "unsigned", 32, 8)
    int64: Final = DType("int64", "signed", 64, 9)
    uint64: Final = DType("uint64", "unsigned", 64, 10)
    weak_float: Final = DType("weak_float", "weak_float", 0, 11)
    fp8_e4m3: Final = DType("fp8_e4m3", "float", 8, 12, exponent_bits=4)
    fp8_e5m2: Final = DType("fp8_e5m2", "float", 8, 13, exponent_bits=5)
    float16: Final = DType("float16", "float", 16, 14, exponent_bits=5)
    bfloat16: Final = DType("bfloat16", "float", 16, 15, exponent_bits=8)
    float32: Final = DType("float32", "float", 32, 16, exponent_bits=8)
    float64: Final = DType("float64", "float", 64, 17, exponent_bits=11)

    half: Final = float16
    float: Final = float32
    double: Final = float64
    int: Final = int32
    long: Final = int64
    short: Final = int16
    char: Final = int8
    uchar: Final = uint8


ALL_DTYPES: Final[tuple[DType, ...]] = tuple(
    dict.fromkeys(d for d in vars(dtypes).values() if isinstance(d, DType))
)
STORED_DTYPES: Final[tuple[DType, ...]] = tuple(d for d in ALL_DTYPES if d.bits > 0)
_BY_NAME: Final = {d.name: d for d in ALL_DTYPES}
_ALIASES: Final = {n: d for n, d in vars(dtypes).items() if isinstance(d, DType)}


def dtype_named(name: str) -> DType:
    """The dtype of a name or alias ("float32", "half").

    Raises:
        TypeError: No dtype has that name.
    """
    found = _BY_NAME.get(name) or _ALIASES.get(name)
    if found is None:
        raise TypeError(f"unknown dtype {name!r}; known: {', '.join(_BY_NAME)}")
    return found


# The lattice as data: each type and the types directly above it. After JAX's type promotion
# (docs.jax.dev, "Type promotion semantics"), with fp8 joined at float16 and bfloat16.
PROMOTES_TO: Final[dict[DType, tuple[DType, ...]]] = {
    dtypes.bool: (dtypes.weak_int,),
    dtypes.weak_int: (dtypes.int8, dtypes.uint8),
    dtypes.int8: (dtypes.int16,),
    dtypes.int16: (dtypes.int32,),
    dtypes.int32: (dtypes.int64,),
    dtypes.int64: (dtypes.weak_float,),
    dtypes.uint8: (dtypes.int16, dtypes.uint16),
    dtypes.uint16: (dtypes.int32, dtypes.uint32),
    dtypes.uint32: (dtypes.int64, dtypes.uint64),
    dtypes.uint64: (dtypes.weak_float,),
    dtypes.weak_float: (dtypes.fp8_e4m3, dtypes.fp8_e5m2),
    dtypes.fp8_e4m3: (dtypes.float16, dtypes.bfloat16),
    dtypes.fp8_e5m2: (dtypes.float16, dtypes.bfloat16),
    dtypes.float16: (dtypes.float32,),
    dtypes.bfloat16: (dtypes.float32,),
    dtypes.float32: (dtypes.float64,),
    dtypes.float64: (),
}


@cache
def _reachable(dtype: DType) -> frozenset[DType]:
    """`dtype` and everything above it in the lattice."""
    found, pending = {dtype}, [dtype]
    while pending:
        for above in PROMOTES_TO[pending.pop()]:
            if above not in found:
                found.add(above)
                pending.append(above)
    return frozenset(found)


@cache
def promote(*operands: DType) -> DType:
    """Least upper bound of the operands in the lattice.

    Where two bounds are equally low (float16 and bfloat16 above the two fp8 types) the one
    first in promotion order wins. A weak float met by machine integers stays weak: the caller
    replaces it by the default float.

    Raises:
        TypeError: An operand takes no part in arithmetic (void).
    """
    for operand in operands:
        if operand not in PROMOTES_TO:
            raise TypeError(f"{operand} takes no part in type promotion")
    shared = frozenset.intersection(*map(_reachable, operands))
    # The least element reaches all others; among ties the first in order is taken.
    return min(shared, key=lambda d: (-len(_reachable(d) & shared), d.order))


def float_bits(value: float) -> int:
    """The 64 bits of a double; every NaN is the same NaN, so that equal constants are equal."""
    if value != value:
        return 0x7FF8000000000000
    return int(struct.unpack("<Q", struct.pack("<d", value))[0])


def bits_float(bits: int) -> float:
    """The double with these 64 bits."""
    return float(struct.unpack("<d", struct.pack("<Q", bits))[0])


def round_to_float(value: float, dtype: DType) -> float:
    """Round a double to the nearest value of `dtype`, ties to even, as IEEE and ml_dtypes do.

    Overflow gives infinity, except in fp8_e4m3 (the "fn" variant without infinities), where it
    gives NaN.
    """
    if dtype.bits in (0, 64) or value == 0 or value != value:
        return value
    if dtype is dtypes.float32:
        try:
            return float(struct.unpack("<f", struct.pack("<f", value))[0])
        except OverflowError:
            return math.copysign(math.inf, value)
    mantissa = dtype.bits - 1 - dtype.exponent_bits
    bias = (1 << (dtype.exponent_bits - 1)) - 1
    largest = LARGEST_FINITE[dtype]
    if math.isinf(value):
        return math.nan if dtype is dtypes.fp8_e4m3 else value
    exponent = max(math.frexp(value)[1] - 1, 1 - bias)
    quantum = math.ldexp(1.0, exponent - mantissa)
    rounded = round(value / quantum) * quantum
    if abs(rounded) > largest:
        return math.nan if dtype is dtypes.fp8_e4m3 else math.copysign(math.inf, value)
    return math.copysign(rounded, value)


LARGEST_FINITE: Final[dict[DType, float]] = {
    dtypes.fp8_e4m3: 448.0,  # OCP 8-bit floating point specification, "fn": no infinities
    dtypes.fp8_e5m2: 57344.0,
    dtypes.float16: 65504.0,
    dtypes.bfloat16: float.fromhex("0x1.fep127"),
    dtypes.float32: float.fromhex("0x1.fffffep127"),
    dtypes.float64: float.fromhex("0x1.fffffffffffffp1023"),
}


def wrap_integer(value: int, dtype: DType) -> int:
    """The value of a machine integer type congruent to `value`; weak integers stay as they are."""
    if not dtype.is_machine_integer:
        return value
    value &= (1 << dtype.bits) - 1
    if dtype.kind == "signed" and value >> (dtype.bits - 1):
        value -= 1 << dtype.bits
    return value
