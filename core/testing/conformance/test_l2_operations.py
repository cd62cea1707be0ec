"""L2: every op in every dtype against REFERENCE, bit for bit where the IR says exact."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import numpy as np
import pytest

from core.ir import ELEMENTWISE, STORED_DTYPES, DType, Op, UOp, dtypes
from core.reference.elementwise import is_defined
from core.reference.evaluate import evaluate, evaluate_all
from core.reference.formats import Array
from core.testing.conformance.bench import Bench, compare, distance, is_denormal
from core.testing.conformance.samples import operands, singles

#: Largest error of a function in float32, in units of the last place (DESIGN, Numbers).
_BOUND: Final = {Op.EXP: 2, Op.EXP2: 2, Op.LOG: 2, Op.LOG2: 2, Op.SIN: 2, Op.COS: 2, Op.POW: 4}
_DOUBLE: Final = 4  # times as much in float64
_ORACLE: Final = 1  # what the reference itself may be off, where it computes in float64
_FLOATS: Final = tuple(d for d in STORED_DTYPES if d.is_float)
_SIZED: Final = tuple(d for d in STORED_DTYPES if d is not dtypes.bool)

Case = tuple[Op, DType, DType]


def _ulps(op: Op, dtype: DType) -> int:
    bound = _BOUND.get(op, 0) if dtype.is_float else 0
    if op is Op.MULACC and dtype.is_float and dtype.bits < 32:
        return 1  # fused in float32, then rounded again
    if dtype is dtypes.float64 and bound:
        return bound * _DOUBLE + _ORACLE
    # Formats below float32 are computed in it and rounded once more: the neighbour at most.
    return bound if dtype.bits >= 32 else min(bound, 1)


def _cases() -> Iterator[Case]:
    """(op, dtype of its last source, dtype of its result)."""
    for op in sorted(ELEMENTWISE):
        if op is Op.CAST:
            yield from ((op, a, b) for a in STORED_DTYPES for b in STORED_DTYPES if a is not b)
        else:
            yield from ((op, dtype, dtype) for dtype in STORED_DTYPES if is_defined(op, dtype))


def _identifier(case: Case) -> str:
    op, source, target = case
    return f"{op.name}/{source.name}" + f"-{target.name}" * (op in (Op.CAST, Op.BITCAST))


@lru_cache(maxsize=2)
def _computed(bench: Bench, case: Case) -> tuple[Array, list[Array], list[Array], DType]:
    """(what the device gave, what is right: one or two answers, operands, dtype of the result)."""
    op, source, target = case
    given = list(operands(op, source))
    kinds = [dtypes.bool if op is Op.WHERE and not k else source for k in range(len(given))]
    leaves = [bench.place(x, d) for x, d in zip(given, kinds, strict=True)]
    value = UOp(op, tuple(leaves), target if op is Op.CAST else None)
    values = dict(zip(leaves, given, strict=True))
    right = [evaluate(value, values)]
    if op is Op.MULACC and source.is_float and not bench.opened.target.fma:
        a, b, c = leaves
        right.append(evaluate(a * b + c, values))
    return bench.run([value])[0], right, given, value.dtype


def _compare(bench: Bench, case: Case, *, denormal: bool) -> None:
    found, right, given, dtype = _computed(bench, case)
    op, source, _ = case
    tiny = is_denormal(right[0], dtype)
    for k, x in enumerate(given):
        if op is not Op.WHERE or k:
            tiny = tiny | is_denormal(x, source)
    expected = right[0]
    if len(right) == 2:  # without a fused instruction either rounding will do
        expected = np.where(distance(found, right[1], dtype) == 0, right[1], expected)
    compare(found, expected, dtype, ulps=_ulps(op, source), operands=given,
            where=tiny if denormal else ~tiny, what=op.name)


_CASES: Final = tuple(_cases())


@pytest.mark.parametrize("case", _CASES, ids=_identifier)
def test_elementwise(bench: Bench, case: Case) -> None:
    """Normal numbers and special ones."""
    _compare(bench, case, denormal=False)


@pytest.mark.parametrize(
    "case", [c for c in _CASES if c[1].is_float or c[2].is_float], ids=_identifier)
def test_denormals(bench: Bench, case: Case) -> None:
    """Where an operand or the result is below the normal numbers."""
    _compare(bench, case, denormal=True)


def _bitcasts() -> Iterator[Case]:
    for source in _SIZED:
        for target in _SIZED:
            same = source.itemsize == target.itemsize
            if source is not target and (same or dtypes.uint8 in (source, target)):
                yield Op.BITCAST, source, target


@pytest.mark.parametrize("case", list(_bitcasts()), ids=_identifier)
def test_bitcast(bench: Bench, case: Case) -> None:
    """The same bytes, of the same and of other sizes."""
    _, source, target = case
    values = singles(source)
    values = values[:values.size // 8 * 8]
    if source.is_float:
        values = values[~np.isnan(values)][:values.size // 16 * 8]  # the bits of a NaN are free
    leaf = bench.place(values, source)
    bench.check([leaf.bitcast(target)], {leaf: values})


_REDUCTIONS: Final = tuple(
    (op, dtype) for op in (Op.ADD, Op.MAX, Op.MUL) for dtype in STORED_DTYPES)
_ROWS: Final = 37


@pytest.mark.parametrize(
    ("op", "dtype"), _REDUCTIONS, ids=[f"{op.name}/{d.name}" for op, d in _REDUCTIONS])
def test_reduce(bench: Bench, op: Op, dtype: DType) -> None:
    """Reductions whose result does not depend on their order."""
    draw = np.random.default_rng(int(op))
    if op is Op.MAX:
        every = singles(dtype)
        values = every[np.arange(_ROWS * 41) * 7919 % every.size].reshape(_ROWS, 41)
    elif dtype.is_float:
        numbers = [-2.0, -1.0, 0.0, 1.0, 2.0] if op is Op.ADD else [-1.0, 1.0]
        values = draw.choice(numbers, (_ROWS, 41))
        if op is Op.MUL:
            values[::9] = draw.choice([2.0, 0.5], values[::9].shape)
        elif dtype.bits == 8:  # three numbers along either axis: their sums are exact in any order
            values[3:] = values[:, 3:] = 0
        values = values.astype(singles(dtype).dtype)
    else:
        every = singles(dtype)
        values = every[draw.integers(0, every.size, (_ROWS, 41))]
    leaf = bench.place(values, dtype)
    graphs = [leaf.reduce(op, axes=1), leaf.permute((1, 0)).reduce(op, axes=1)]
    for found, right in zip(bench.run(graphs), evaluate_all(graphs, {leaf: values}), strict=True):
        compare(found, right, dtype, what=op.name)
