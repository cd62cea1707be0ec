"""Building blocks of the decompositions: formats, polynomials, sums and products in two parts.

Nothing here branches and nothing depends on the shape: constants have rank 0, values any shape.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Final

from core.codegen.decompose.coefficients import COEFFICIENTS, Coefficients
from core.ir import DType, Op, UOp, dtypes
from core.plugin.target import Target


@dataclass(frozen=True)
class Format:
    """The bits of a float dtype.

    Attributes:
        dtype: The dtype.
        signed: Signed integers of its width.
        unsigned: Unsigned integers of its width.
        mantissa: Stored mantissa bits.
        bias: Exponent bias.
    """

    dtype: DType
    signed: DType
    unsigned: DType
    mantissa: int
    bias: int

    @property
    def width(self) -> int:
        """Bits of the whole number."""
        return self.dtype.bits

    @property
    def sign_bit(self) -> int:
        """The sign as an integer."""
        return 1 << (self.width - 1)

    @property
    def infinity_bits(self) -> int:
        """Infinity as an integer; bits above it, without the sign, are NaN."""
        return (2 * self.bias + 1) << self.mantissa

    @property
    def shifter(self) -> float:
        """1.5 * 2^mantissa: adding it rounds to an integer, which then stands in the low bits."""
        return 1.5 * 2.0**self.mantissa

    def bits_of_power(self, exponent: int) -> int:
        """2^exponent as an integer."""
        return (exponent + self.bias) << self.mantissa


FORMATS: Final[dict[DType, Format]] = {
    dtypes.float32: Format(dtypes.float32, dtypes.int32, dtypes.uint32, 23, 127),
    dtypes.float64: Format(dtypes.float64, dtypes.int64, dtypes.uint64, 52, 1023),
}


@dataclass(frozen=True)
class Context:
    """For whom is decomposed.

    Attributes:
        target: The device's numbers.
        ops: Operations its renderer has.
    """

    target: Target
    ops: Container[Op]

    @property
    def fused(self) -> bool:
        """Whether MULACC rounds once."""
        return self.target.fma and Op.MULACC in self.ops


@dataclass(frozen=True)
class Arithmetic:
    """Float arithmetic of one dtype on one target."""

    format: Format
    fused: bool

    @property
    def coefficients(self) -> Coefficients:
        """The polynomials of this dtype."""
        return COEFFICIENTS[self.format.dtype]

    def multiply_add(self, x: UOp, y: UOp | float, z: UOp | float) -> UOp:
        """X * y + z, rounded once where the target can."""
        y = y if isinstance(y, UOp) else x.const_like(y)
        z = z if isinstance(z, UOp) else x.const_like(z)
        return x.alu(Op.MULACC, y, z) if self.fused else x * y + z

    def polynomial(self, x: UOp, coefficients: Sequence[float]) -> UOp:
        """Sum c_i x^i by Horner's rule."""
        result = x.const_like(coefficients[-1])
        for c in reversed(coefficients[:-1]):
            result = self.multiply_add(x, result, c)
        return result

    def bits(self, x: UOp) -> UOp:
        """The bits of a float as an unsigned integer."""
        return x.bitcast(self.format.unsigned)

    def from_bits(self, bits: UOp) -> UOp:
        """The float with these bits."""
        return bits.bitcast(self.format.dtype)

    def absolute_bits(self, x: UOp) -> UOp:
        """The bits of |x|."""
        return self.bits(x) & (self.format.sign_bit - 1)

    def clamp(self, x: UOp, low: float, high: float) -> UOp:
        """X within [low, high]; NaN stays NaN."""
        below = (x > high).where(x.const_like(high), x)
        return (below < low).where(x.const_like(low), below)

    def scale(self, p: UOp, shifted: UOp) -> UOp:
        """P * 2^n, rounded once even where the result is denormal or overflows.

        `shifted` is n + `format.shifter`. The power is applied in two halves, each a normal
        number; with twice the bias added no intermediate integer is negative.
        """
        form = self.format
        base = form.bits_of_power(form.mantissa) + (1 << (form.mantissa - 1))  # the shifter's bits
        total = self.bits(shifted) - (base - 2 * form.bias)
        half = total >> 1
        first = self.from_bits(half << form.mantissa)
        second = self.from_bits((total - half) << form.mantissa)
        return p * first * second

    def fast_two_sum(self, a: UOp, b: UOp) -> tuple[UOp, UOp]:
        """A + b in two parts, exactly, for |a| >= |b| or a = 0 (Dekker 1971)."""
        total = a + b
        return total, b - (total - a)

    def two_sum(self, a: UOp, b: UOp) -> tuple[UOp, UOp]:
        """A + b in two parts, exactly (Knuth)."""
        total = a + b
        part = total - a
        return total, (a - (total - part)) + (b - part)

    def two_product(self, a: UOp, b: UOp) -> tuple[UOp, UOp]:
        """A * b in two parts, exactly: by a fused product, else by Veltkamp's splitting."""
        product = a * b
        if self.fused:
            return product, self.multiply_add(a, b, -product)
        a_high, a_low = self._halves(a)
        b_high, b_low = self._halves(b)
        error = a_high * b_high - product
        error = error + a_high * b_low + a_low * b_high
        return product, error + a_low * b_low

    def _halves(self, a: UOp) -> tuple[UOp, UOp]:
        """A as a sum of two numbers of half the digits."""
        digits = self.format.mantissa + 1
        wide = a * (2.0 ** (digits - digits // 2) + 1)
        high = wide - (wide - a)
        return high, a - high


def arithmetic(x: UOp, context: Context) -> Arithmetic:
    """The arithmetic of a float32 or float64 value."""
    return Arithmetic(FORMATS[x.dtype], context.fused)
