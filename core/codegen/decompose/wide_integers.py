"""64-bit integers as two words of 32 bits, low and high, where a target has no wider ones.

Branch-free; all functions take and give `Pair`s of uint32, scalars or vectors.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from core.codegen.decompose.arithmetic import Context
from core.codegen.decompose.wide_multiply import multiply_high
from core.ir import DType, Op, UOp, dtypes

_SIGN: Final = 1 << 31
_HALF: Final = 1 << 16


class Pair(NamedTuple):
    """The two halves of a 64-bit integer, uint32."""

    low: UOp
    high: UOp


def word(value: int) -> UOp:
    """A constant, modulo 2^32."""
    return UOp.const(value % (1 << 32), dtypes.uint32)


def constant_pair(value: int) -> Pair:
    """A constant, modulo 2^64."""
    return Pair(word(value), word(value >> 32))


def extended(x: UOp) -> Pair:
    """An int32 or uint32 with its sign, or zeros, before it."""
    high = (x >> 31).bitcast(dtypes.uint32) if x.dtype is dtypes.int32 else word(0)
    return Pair(x.bitcast(dtypes.uint32), high)


def choose(condition: UOp, yes: Pair, no: Pair) -> Pair:
    """One of two."""
    return Pair(*(condition.where(a, b) for a, b in zip(yes, no, strict=True)))


def add(a: Pair, b: Pair) -> Pair:
    """The sum, modulo 2^64."""
    low = a.low + b.low
    return Pair(low, a.high + b.high + (low < a.low).cast(dtypes.uint32))


def subtract(a: Pair, b: Pair) -> Pair:
    """The difference, modulo 2^64."""
    return Pair(a.low - b.low, a.high - b.high - (a.low < b.low).cast(dtypes.uint32))


def negate(a: Pair) -> Pair:
    """0 - a."""
    return subtract(constant_pair(0), a)


def multiply(a: Pair, b: Pair, context: Context) -> Pair:
    """The product, modulo 2^64."""
    cross = a.low * b.high + a.high * b.low
    return Pair(a.low * b.low, multiply_high(a.low, b.low, context) + cross)


def _beyond_a_word(count: UOp) -> tuple[UOp, UOp]:
    """(count modulo 32, whether it is 32 or more)."""
    return count & 31, (count & 32).ne(0)


def shift_left(a: Pair, count: UOp) -> Pair:
    """A << (count mod 64); count is uint32."""
    near, far = _beyond_a_word(count)
    low = a.low << near
    high = (a.high << near) | ((a.low >> 1) >> (31 - near))
    return Pair(far.where(word(0), low), far.where(low, high))


def shift_right(a: Pair, count: UOp, *, signed: bool) -> Pair:
    """A >> (count mod 64), arithmetic where `signed`; count is uint32."""
    near, far = _beyond_a_word(count)
    top = a.high.bitcast(dtypes.int32) if signed else a.high
    near_of_top = near.bitcast(dtypes.int32) if signed else near
    high = (top >> near_of_top).bitcast(dtypes.uint32)
    low = (a.low >> near) | ((a.high << 1) << (31 - near))
    above = (top >> 31).bitcast(dtypes.uint32) if signed else word(0)
    return Pair(far.where(high, low), far.where(above, high))


def equal(a: Pair, b: Pair) -> UOp:
    """Whether all bits are the same."""
    return ((a.low ^ b.low) | (a.high ^ b.high)).eq(0)


def less(a: Pair, b: Pair, *, signed: bool) -> UOp:
    """A < b."""
    first, second = (x.high ^ _SIGN if signed else x.high for x in (a, b))
    return (first < second) | (first.eq(second) & (a.low < b.low))


def leading_zeros(x: UOp) -> UOp:
    """Zero digits before the first one; of 0 it is 31."""
    count = word(0)
    for step in (16, 8, 4, 2, 1):
        small = x < 1 << (32 - step)
        count = count + small.where(word(step), word(0))
        x = small.where(x << step, x)
    return count


def _divide_by_word(high: UOp, low: UOp, divisor: UOp) -> tuple[UOp, UOp]:
    """(quotient, remainder) of high, low by a divisor above `high` whose first digit is 1.

    Two digits of 16 bits, each estimated and corrected twice (Knuth, TAOCP 4.3.1, algorithm D).
    """
    first, second = divisor >> 16, divisor & (_HALF - 1)
    rest, digits = high, []
    for following in (low >> 16, low & (_HALF - 1)):
        digit = rest.alu(Op.TRUNCDIV, first)
        left = rest - digit * first
        for _ in range(2):
            large = (left < _HALF) & ((digit > _HALF - 1) | (
                digit * second > ((left << 16) | following)))
            digit = large.where(digit - 1, digit)
            left = large.where(left + first, left)
        rest = ((rest << 16) | following) - digit * divisor
        digits.append(digit)
    return (digits[0] << 16) + digits[1], rest


def _divide_unsigned(a: Pair, b: Pair, context: Context) -> tuple[Pair, Pair]:
    """(quotient, remainder); of a division by 0 anything.

    A divisor of one word: two divisions of two words by one. Of two words: one division by its
    first word, at most one too large (Warren, Hacker's Delight, 9-5).
    """
    short = b.high.eq(0)
    count = leading_zeros(short.where(b.low, b.high))
    shifted = shift_left(b, count)
    divisor = short.where(shifted.low, shifted.high)
    # The dividend moved left, a word longer; for a long divisor moved right by one instead.
    above = (a.high >> 1) >> (31 - count)
    moved = shift_left(a, count)
    halved = shift_right(a, word(1), signed=False)
    top, rest = _divide_by_word(short.where(above, halved.high),
                                short.where(moved.high, halved.low), divisor)
    bottom, _ = _divide_by_word(short.where(rest, word(0)), moved.low, divisor)
    guess = top >> (31 - count)
    guess = guess - guess.ne(0).cast(dtypes.uint32)
    quotient = Pair(short.where(bottom, guess), short.where(top, word(0)))
    left = subtract(a, multiply(quotient, b, context))
    more = less(left, b, signed=False).logical_not() & short.logical_not()
    one = Pair(more.cast(dtypes.uint32), word(0))
    return add(quotient, one), choose(more, subtract(left, b), left)


def divide(a: Pair, b: Pair, context: Context, *, signed: bool) -> tuple[Pair, Pair]:
    """(TRUNCDIV, TRUNCMOD): 0 where b is 0."""
    zero, nothing = (b.low | b.high).eq(0), constant_pair(0)
    if not signed:
        quotient, rest = _divide_unsigned(a, b, context)
    else:
        a_negative, b_negative = a.high > _SIGN - 1, b.high > _SIGN - 1
        quotient, rest = _divide_unsigned(choose(a_negative, negate(a), a),
                                          choose(b_negative, negate(b), b), context)
        quotient = choose(a_negative ^ b_negative, negate(quotient), quotient)
        rest = choose(a_negative, negate(rest), rest)
    return choose(zero, nothing, quotient), choose(zero, nothing, rest)


def to_float32(a: Pair, *, signed: bool) -> UOp:
    """The nearest float32, ties to even: the first 32 digits, the last of them or-ed with the rest.

    Twice 24 digits and more are enough to round once.
    """
    negative = a.high > _SIGN - 1
    size = choose(negative, negate(a), a) if signed else a
    count = leading_zeros(size.high)
    moved = shift_left(size, count)
    digits = moved.high | moved.low.ne(0).cast(dtypes.uint32)
    power = ((127 + 32 - count) << 23).bitcast(dtypes.float32)
    result = size.high.eq(0).where(
        size.low.cast(dtypes.float32), digits.cast(dtypes.float32) * power)
    return negative.where(-result, result) if signed else result


def from_float32(x: UOp, dtype: DType) -> Pair:
    """Toward zero, saturating, NaN gives 0; every step is exact."""
    signed = dtype is dtypes.int64
    size = (x < 0.0).where(-x, x)
    high = (size * 2.0**-32).cast(dtypes.uint32)
    low = (size - high.cast(dtypes.float32) * 2.0**32).cast(dtypes.uint32)
    found = Pair(low, high)
    largest, least = constant_pair(int(dtype.maximum)), constant_pair(int(dtype.minimum))
    beyond = 2.0 ** (63 if signed else 64)
    found = choose(size < beyond, found, choose(x.eq(x), largest, constant_pair(0)))
    if not signed:
        return choose(x < 0.0, least, found)
    return choose(x < 0.0, choose(size < beyond, negate(found), least), found)
