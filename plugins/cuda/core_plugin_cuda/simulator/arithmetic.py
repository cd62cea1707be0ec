"""Arithmetic of PTX on arrays, where numpy's own differs or has none.

Operands are arrays or scalars of the instruction's type; results have it too.
"""

from __future__ import annotations

import ctypes
import ctypes.util
from typing import Any, Final

import numpy as np

#: numpy's dtype for each type of PTX.
DTYPES: Final[dict[str, Any]] = {
    "pred": np.bool_, "b8": np.uint8, "u8": np.uint8, "s8": np.int8, "b16": np.uint16,
    "u16": np.uint16, "s16": np.int16, "f16": np.float16, "bf16": np.uint16, "b32": np.uint32,
    "u32": np.uint32, "s32": np.int32, "f32": np.float32, "b64": np.uint64, "u64": np.uint64,
    "s64": np.int64, "f64": np.float64, "tf32": np.uint32,
}
#: The unsigned dtype of a number of bytes.
UNSIGNED: Final[dict[int, Any]] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_WIDER: Final = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64", "u8": "u16", "s8": "s16"}
_ROUNDINGS: Final = {
    "rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
_SPLIT: Final = float(2**27 + 1)
# Beyond these, the error terms of an exact product may overflow or vanish.
_SAFE_LOW, _SAFE_HIGH = 1e-140, 1e140


def _round_to_odd(total: Any, error: Any) -> Any:
    """A float64 sum that was rounded, with its last bit set where something was lost."""
    total, error = np.array(total, np.float64, ndmin=1), np.asarray(error)
    bits = total.view(np.int64)
    fix = (error != 0) & (bits & 1 == 0) & np.isfinite(total)
    if fix.any():
        step = np.where((error > 0) == (total > 0), 1, -1)
        bits += np.where(fix, step, 0)
    return total


def _exact_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """(rounded sum, its error): Knuth's two-sum."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def fused_multiply_add_32(a: Any, b: Any, c: Any) -> Any:
    """a * b + c in float32, rounded once.

    The product is exact in float64, the sum is rounded to odd there, and then to float32
    (S. Boldo, G. Melquiond, Emulation of a FMA and correctly rounded sums, 2008).
    """
    total, error = _exact_sum(np.multiply(a, b, dtype=np.float64), np.asarray(c, np.float64))
    return _shaped(_round_to_odd(total, error).astype(np.float32), total)


def fused_multiply_add_16(a: Any, b: Any, c: Any) -> Any:
    """a * b + c in float16, rounded once."""
    total, error = _exact_sum(np.multiply(a, b, dtype=np.float64), np.asarray(c, np.float64))
    return _shaped(_round_to_odd(total, error).astype(np.float16), total)


def _shaped(value: Any, like: Any) -> Any:
    return value if np.ndim(like) else value[0]


def _halves(a: Any) -> tuple[Any, Any]:
    high = a * _SPLIT
    high -= high - a
    return high, a - high


def fused_multiply_add_64(a: Any, b: Any, c: Any) -> Any:
    """a * b + c in float64, rounded once: as above with products and sums in two parts.

    Where exponents are extreme the C library computes each lane.
    """
    shape = np.broadcast_shapes(np.shape(a), np.shape(b), np.shape(c))
    a, b, c = (np.array(np.broadcast_to(x, shape or (1,)), np.float64) for x in (a, b, c))
    product = a * b
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    low = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    first, first_low = _exact_sum(c, low)
    second, second_low = _exact_sum(product, first)
    result = second + _round_to_odd(*_exact_sum(first_low, second_low))
    # A sum with a zero is rounded as it is, and has its own sign where it is zero too.
    alone = (a == 0) | (b == 0) | ((c == 0) & (product != 0))
    result = np.where(alone, product + c, result)
    magnitudes = [np.abs(x) for x in (a, b, product, c)]
    plain = [(m < _SAFE_HIGH) & ((m > _SAFE_LOW) | (m == 0)) for m in magnitudes]
    plain[2] &= alone | (product != 0)
    for lane in np.flatnonzero(~(plain[0] & plain[1] & plain[2] & plain[3])):
        result[lane] = _library_fma(float(a[lane]), float(b[lane]), float(c[lane]))
    return result if shape else result[0]


_mathematics: Final = ctypes.CDLL(ctypes.util.find_library("m") or "libm.so.6")
_mathematics.fma.restype = ctypes.c_double
_mathematics.fma.argtypes = [ctypes.c_double] * 3


def _library_fma(a: float, b: float, c: float) -> float:
    return float(_mathematics.fma(a, b, c))


FUSED: Final = {"f16": fused_multiply_add_16, "f32": fused_multiply_add_32,
                "f64": fused_multiply_add_64}


def divide(a: Any, b: Any) -> Any:
    """Integer division toward zero; by zero gives all ones, as processors were seen to do."""
    zero = b == 0
    one = np.where(zero, np.ones_like(b), b)
    if np.dtype(one.dtype).kind == "u":
        return np.where(zero, ~np.zeros_like(b), a // one)
    # Magnitudes as unsigned integers: that of the least integer is right there.
    unsigned = UNSIGNED[one.dtype.itemsize]
    quotient = _magnitude(a, unsigned) // _magnitude(one, unsigned)
    signed = np.where((a < 0) != (one < 0), np.zeros_like(quotient) - quotient, quotient)
    return np.where(zero, ~np.zeros_like(b), signed.astype(one.dtype))


def _magnitude(a: Any, unsigned: Any) -> Any:
    bits = np.asarray(a).astype(unsigned)
    return np.where(a < 0, np.zeros_like(bits) - bits, bits)


def remainder(a: Any, b: Any) -> Any:
    """What division toward zero leaves."""
    return np.where(b == 0, a, a - divide(a, b) * b)


def multiply_wide(a: Any, b: Any, kind: str) -> Any:
    """The product in twice the bits."""
    wide = DTYPES[_WIDER[kind]]
    return np.asarray(a).astype(wide) * np.asarray(b).astype(wide)


def multiply_high(a: Any, b: Any, kind: str) -> Any:
    """The upper half of the product."""
    if kind[1:] != "64":
        bits = int(kind[1:])
        return (multiply_wide(a, b, kind) >> DTYPES[_WIDER[kind]](bits)).astype(DTYPES[kind])
    mask = np.uint64(0xFFFFFFFF)
    x, y = np.asarray(a).astype(np.uint64), np.asarray(b).astype(np.uint64)
    half = np.uint64(32)
    low = (x & mask) * (y & mask)
    one = (x >> half) * (y & mask) + (low >> half)
    two = (x & mask) * (y >> half) + (one & mask)
    high = (x >> half) * (y >> half) + (one >> half) + (two >> half)
    if kind == "s64":
        zero = np.uint64(0)
        high = high - np.where(a < 0, y, zero) - np.where(b < 0, x, zero)
    return high.astype(DTYPES[kind])


def shift(a: Any, amount: Any, *, left: bool) -> Any:
    """Shifts; an amount beyond the bits gives 0, or copies of the sign."""
    a, amount = np.asarray(a), np.asarray(amount)
    bits = a.dtype.itemsize * 8
    beyond = amount >= bits
    arithmetic = a.dtype.kind == "i" and not left
    inside = np.where(beyond, bits - 1 if arithmetic else 0, amount).astype(a.dtype)
    result = a << inside if left else a >> inside
    return result if arithmetic else np.where(beyond, np.zeros_like(a), result)


def least(a: Any, b: Any, *, keep_nan: bool = False) -> Any:
    """min of floats: a number where there is one, -0 below +0."""
    result = np.minimum(a, b) if keep_nan else np.fmin(a, b)
    return np.where((a == b) & np.signbit(a), a, np.where(a == b, b, result))


def greatest(a: Any, b: Any, *, keep_nan: bool = False) -> Any:
    """max of floats: a number where there is one, +0 above -0."""
    result = np.maximum(a, b) if keep_nan else np.fmax(a, b)
    return np.where((a == b) & np.signbit(a), b, np.where(a == b, a, result))


def convert(x: Any, new: str, old: str, modifiers: tuple[str, ...]) -> Any:
    """cvt: rounding as the modifiers say; floats to integers saturate.

    NaN gives 0, or the least integer where the source or the result has 64 bits.
    """
    rounding = next((_ROUNDINGS[m] for m in modifiers if m in _ROUNDINGS), None)
    if old == "bf16":
        x, old = widen_bfloat16(x), "f32"
    if old[0] == "f" and new[0] in "us":
        assert rounding is not None
        return _float_to_integer(x, new, old, rounding)
    if old[0] == "f" and rounding is not None and new[0] == "f":
        x = rounding(x)
    if new == "bf16":
        return round_bfloat16(x)
    if new == "tf32":
        return round_tf32(x)
    if new[0] == "f" and old[0] == "f" and "rz" in modifiers:
        raise NotImplementedError("conversions of floats that round to zero")
    if "sat" in modifiers:
        x = _saturated(x, new)
    return np.asarray(x).astype(DTYPES[new])


def _saturated(x: Any, new: str) -> Any:
    if new[0] == "f":
        return np.where(np.isnan(x), np.zeros_like(x), np.clip(x, 0, 1))
    limits, own = np.iinfo(DTYPES[new]), np.iinfo(x.dtype)
    return np.clip(x, max(limits.min, own.min), min(limits.max, own.max))


def _float_to_integer(x: Any, new: str, old: str, rounding: Any) -> Any:
    dtype = DTYPES[new]
    limits = np.iinfo(dtype)
    whole = rounding(np.asarray(x).astype(np.float64))
    over, under = whole >= float(limits.max), whole <= float(limits.min)
    wide = "64" in (old[1:], new[1:])
    nothing = dtype(1 << 63) if new == "u64" else dtype(limits.min) if new[0] == "s" else (
        dtype(1 << (limits.bits - 1)))
    inside = np.where(over | under | np.isnan(whole), 0.0, whole).astype(dtype)
    result = np.where(over, dtype(limits.max), np.where(under, dtype(limits.min), inside))
    return np.where(np.isnan(whole), nothing if wide else dtype(0), result)


def widen_bfloat16(x: Any) -> Any:
    """Codes of bfloat16 as float32."""
    return (np.asarray(x).astype(np.uint32) << np.uint32(16)).view(np.float32)


def round_bfloat16(x: Any) -> Any:
    """float32 as codes of bfloat16, ties to even; NaN is 0x7fff."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    rounded = bits + (((bits >> np.uint32(16)) & np.uint32(1)) + np.uint32(0x7FFF))
    return np.where(np.isnan(x), np.uint16(0x7FFF), (rounded >> np.uint32(16)).astype(np.uint16))


def round_tf32(x: Any) -> Any:
    """float32 with 10 bits of fraction, ties away from zero; as bits."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(x), rounded, bits)


def count_leading_zeros(x: Any) -> Any:
    """clz, in 32 bits."""
    x = np.asarray(x)
    bits, found, result = x.dtype.itemsize * 8, x, np.zeros(x.shape, np.uint32)
    step = bits // 2
    while step:
        empty = (found >> x.dtype.type(bits - step)) == 0
        result = result + np.where(empty, np.uint32(step), np.uint32(0))
        found = np.where(empty, found << x.dtype.type(step), found)
        step //= 2
    return result + (x == 0).astype(np.uint32)


def reverse_bits(x: Any) -> Any:
    """brev."""
    x = np.asarray(x)
    one, result = x.dtype.type(1), np.zeros_like(x)
    for _ in range(x.dtype.itemsize * 8):
        result, x = (result << one) | (x & one), x >> one
    return result


def extract_field(x: Any, start: Any, length: Any) -> Any:
    """bfe: `length` bits from `start` on, extended by sign where the type has one."""
    x = np.asarray(x)
    bits = x.dtype.itemsize * 8
    start, length = np.asarray(start) & 255, np.asarray(length) & 255
    top = np.minimum(start + length, bits)
    up = shift(x, bits - top, left=True)
    return np.where(length == 0, np.zeros_like(x), shift(up, bits - top + start, left=False))


def insert_field(x: Any, into: Any, start: Any, length: Any) -> Any:
    """bfi: the low bits of `x` put into `into`."""
    ones = ~np.zeros_like(np.asarray(into))
    mask = shift(~shift(ones, np.asarray(length) & 255, left=True),
                 np.asarray(start) & 255, left=True)
    return (into & ~mask) | (shift(x, np.asarray(start) & 255, left=True) & mask)


def permute_bytes(a: Any, b: Any, selector: Any) -> Any:
    """prmt in its plain mode: four bytes chosen out of eight, or copies of their signs."""
    both = np.asarray(a).astype(np.uint64) | (np.asarray(b).astype(np.uint64) << np.uint64(32))
    result = np.zeros(np.broadcast_shapes(np.shape(both), np.shape(selector)), np.uint64)
    for k in range(4):
        chosen = (np.asarray(selector).astype(np.uint64) >> np.uint64(4 * k)) & np.uint64(15)
        byte = (both >> ((chosen & np.uint64(7)) * np.uint64(8))) & np.uint64(255)
        sign = np.where(byte & np.uint64(128), np.uint64(255), np.uint64(0))
        byte = np.where(chosen & np.uint64(8), sign, byte)
        result = result | (byte << np.uint64(8 * k))
    return result.astype(np.uint32)


def funnel_shift(low: Any, high: Any, amount: Any, *, left: bool, clamp: bool) -> Any:
    """shf: 64 bits shifted, of which 32 remain."""
    both = (np.asarray(high).astype(np.uint64) << np.uint64(32)) | low
    count = np.asarray(amount).astype(np.uint64)
    count = np.minimum(count, np.uint64(32)) if clamp else count & np.uint64(31)
    if left:
        return ((both << count) >> np.uint64(32)).astype(np.uint32)
    return (both >> count).astype(np.uint32)


def dot_of_bytes(a: Any, b: Any, c: Any, kinds: tuple[str, str]) -> Any:
    """dp4a: products of four bytes each, added to `c`; modulo 2^32."""
    total = np.asarray(c).astype(np.uint32)
    for k in range(4):
        left, right = (
            (np.asarray(x) >> np.uint32(8 * k)).astype(np.uint8).view(DTYPES[kind[0] + "8"])
            .astype(np.int32) for x, kind in zip((a, b), kinds, strict=True))
        total = total + (left * right).view(np.uint32)
    return total


def three_input_logic(a: Any, b: Any, c: Any, table: int) -> Any:
    """lop3: bit k of the table for each combination of three bits."""
    result = np.zeros_like(np.asarray(a | b | c))
    for k in range(8):
        if table >> k & 1:
            result = result | ((a if k & 4 else ~a) & (b if k & 2 else ~b) & (c if k & 1 else ~c))
    return result
