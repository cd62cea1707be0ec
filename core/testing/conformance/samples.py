"""Operands on which ops are tried: everything where that is feasible, else the hard cases.

An 8-bit dtype is tried with every pair, a 16-bit one with every number; the others with their
special values, alone and in pairs, and with numbers drawn over their whole range.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np

from core.ir import DType, Op, dtypes
from core.ir.dtype import LARGEST_FINITE
from core.reference.formats import HELD, STORED, Array, decode, round_to
from core.testing.conformance.bench import SMALLEST_NORMAL

_RANDOM: Final = 700
#: Numbers at which conversions to integers turn.
_EDGES: Final = tuple(
    sign * (2.0**bits + step) for bits in (7, 8, 15, 16, 31, 32, 63, 64) for sign in (-1.0, 1.0)
    for step in (-1.0, -0.5, 0.0, 0.5, 1.0))
_MANTISSA: Final = {d: d.bits - 1 - d.exponent_bits for d in SMALLEST_NORMAL}


@cache
def operands(op: Op, dtype: DType) -> tuple[Array, ...]:
    """Flat arrays of equal length for the sources of an op on a dtype, all of it."""
    if op is Op.WHERE:
        value, other = _pairs(dtype)
        return np.arange(value.size) * 2654435761 % 5 < 2, value, other
    if op is Op.MULACC:
        return _triples(dtype)
    if op in _SINGLE:
        return (singles(dtype, op),)
    if op is Op.POW and dtype.is_float:
        return _powers(dtype)
    return _pairs(dtype)


_SINGLE: Final = frozenset({
    Op.RECIPROCAL, Op.TRUNC, Op.NEG, Op.SQRT, Op.EXP, Op.EXP2, Op.LOG, Op.LOG2, Op.SIN, Op.COS,
    Op.CAST, Op.BITCAST,
})


@cache
def singles(dtype: DType, op: Op = Op.CAST) -> Array:
    """Numbers of a dtype: all of them up to 16 bits."""
    if dtype is dtypes.bool:
        return np.array([False, True] * 9 + [True])
    if dtype.bits <= 16:
        codes = np.arange(1 << dtype.bits).astype(f"u{dtype.itemsize}")
        return decode(codes.view(STORED[dtype]), dtype)
    draw = np.random.default_rng(int(op) * 64 + dtype.order)
    parts = [_special(dtype), _drawn(dtype, draw, 4000)]
    if dtype.is_float:
        limit = 120.0 if dtype is dtypes.float32 else 750.0
        parts += [draw.uniform(-limit, limit, 4000), draw.normal(0, 1, 2001),
                  1 + draw.normal(0, 1e-3, 500), np.array(_EDGES)]
    return _held(np.concatenate([p.astype(HELD[dtype]) for p in parts]), dtype)


def _pairs(dtype: DType) -> tuple[Array, Array]:
    if dtype.bits == 8:
        left, right = np.meshgrid(singles(dtype), singles(dtype), indexing="ij")
        return left.ravel(), right.ravel()
    draw = np.random.default_rng(dtype.order)
    a, b = (x.ravel() for x in np.meshgrid(_special(dtype), _special(dtype), indexing="ij"))
    near = _drawn(dtype, draw, _RANDOM)  # pairs of like size: sums and quotients are not trivial
    with np.errstate(all="ignore"):
        other = (near * draw.uniform(0.2, 5, _RANDOM)).astype(near.dtype) if dtype.is_float else (
            near >> draw.integers(0, dtype.bits, _RANDOM).astype(near.dtype)
            if dtype is not dtypes.bool else ~near)
    return (_held(np.concatenate([a, _drawn(dtype, draw, _RANDOM), near, a[:3]]), dtype),
            _held(np.concatenate([b, _drawn(dtype, draw, _RANDOM), other, b[:3]]), dtype))


def _triples(dtype: DType) -> tuple[Array, Array, Array]:
    draw = np.random.default_rng(100 + dtype.order)
    chosen = _special(dtype)
    if dtype.is_float:
        tiny, largest = SMALLEST_NORMAL[dtype], LARGEST_FINITE[dtype]
        chosen = round_to(np.array([
            0.0, -0.0, 1.0, -1.5, largest, -largest, np.inf, -np.inf, np.nan, tiny, -tiny,
            tiny * 2.0 ** -_MANTISSA[dtype]]), dtype)
    elif dtype is not dtypes.bool:
        chosen = chosen[:: chosen.size // 9]
    grid = [x.ravel() for x in np.meshgrid(chosen, chosen, chosen, indexing="ij")]
    a, b, c = (_drawn(dtype, draw, _RANDOM) for _ in range(3))
    with np.errstate(all="ignore"):
        cancels = -(a * b) if dtype is not dtypes.bool else a  # a fused sum keeps the rounding
    return (_held(np.concatenate([grid[0], a, a, a[:1]]), dtype),
            _held(np.concatenate([grid[1], b, b, b[:1]]), dtype),
            _held(np.concatenate([grid[2], c, cancels, c[:1]]), dtype))


def _powers(dtype: DType) -> tuple[Array, Array]:
    draw = np.random.default_rng(200 + dtype.order)
    a, b = _pairs(dtype)
    if dtype.bits == 8:
        return a, b
    base = np.exp2(draw.uniform(-12, 12, 3000))
    exponent = draw.uniform(-1, 1, 3000) * np.log2(LARGEST_FINITE[dtype]) / np.maximum(
        np.abs(np.log2(base)), 0.05)
    whole = np.rint(draw.uniform(-20, 20, 501))
    negative = -np.exp2(draw.uniform(-3, 3, 501))
    return (_held(np.concatenate([a, base, negative]), dtype),
            _held(np.concatenate([b, exponent, whole]), dtype))


def _special(dtype: DType) -> Array:
    """What goes wrong first."""
    if dtype is dtypes.bool:
        return np.array([False, True])
    if not dtype.is_float:
        low, high = int(dtype.minimum), int(dtype.maximum)
        numbers = [low, low + 1, high, high - 1, high // 2, high // 2 + 1, *range(10), 13, 31, 32,
                   63, 64, 100, *(range(-9, 0) if low else ())]
        return np.array(sorted(set(numbers)), HELD[dtype])
    tiny, largest = SMALLEST_NORMAL[dtype], LARGEST_FINITE[dtype]
    unit = 2.0 ** -_MANTISSA[dtype]
    positive = [0.0, tiny * unit, tiny * (1 - unit), tiny, tiny * (1 + unit), 1.0, 1 + unit,
                1 - unit / 2, 0.5, 1.5, 2.0, 2.5, 3.0, 7.0, 0.1, largest, largest / 2, np.inf]
    signed = np.array([sign * x for x in positive for sign in (1, -1)] + [np.nan])
    return round_to(signed, dtype)


def _drawn(dtype: DType, draw: np.random.Generator, count: int) -> Array:
    """Numbers over the whole range, each magnitude as likely."""
    if dtype is dtypes.bool:
        return draw.integers(0, 2, count).astype(np.bool_)
    if dtype.is_float:
        top = np.log2(LARGEST_FINITE[dtype])
        exponents = draw.uniform(np.log2(SMALLEST_NORMAL[dtype]) - 3, top, count)
        half = count // 2  # one half near 1, so that most results are finite
        exponents[:half] = draw.uniform(-6, 6, half)
        return round_to(np.exp2(exponents) * draw.choice([-1.0, 1.0], count), dtype)
    codes = draw.integers(0, 1 << 64, count, np.uint64) >> draw.integers(
        64 - dtype.bits, 64, count).astype(np.uint64)
    values = codes.astype(f"u{dtype.itemsize}").view(HELD[dtype])
    return np.where(draw.random(count) < 0.5, ~values + values.dtype.type(1), values)


def _held(values: Array, dtype: DType) -> Array:
    return round_to(values, dtype) if dtype.is_float else values.astype(HELD[dtype])
