"""Evaluate elementwise graphs of primitives on numpy arrays, apart from `core.reference`.

It knows only the operations that decompositions may use, so an operation that should have been
decomposed is a KeyError. MULACC rounds once in float32 (through float64 rounded to odd) and but
for rare ties in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from core.codegen.decompose import decompose
from core.ir import Op, UOp, dtypes, toposort
from core.plugin.target import Target

NUMPY: Final = {
    getattr(dtypes, name): np.dtype(name)
    for name in (
        "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
        "float16", "float32", "float64",
    )
}
EVERYTHING: Final = frozenset(NUMPY)
PLAIN: Final = frozenset({
    Op.ADD, Op.SUB, Op.MUL, Op.FDIV, Op.NEG, Op.SQRT, Op.TRUNC, Op.CMPLT, Op.CMPNE, Op.CMPEQ,
    Op.AND, Op.OR, Op.XOR, Op.SHL, Op.SHR, Op.WHERE, Op.CAST, Op.BITCAST, Op.MULACC, Op.TRUNCDIV,
    Op.TRUNCMOD,
})


def _two_sum(a: Any, b: Any) -> Any:
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _fused(a: Any, b: Any, c: Any) -> Any:
    if a.dtype == np.float64:
        (a1, a2), (b1, b2), high = _halves(a), _halves(b), a * b
        total, error = _two_sum(high, c)
        error = error + (((a1 * b1 - high) + a1 * b2 + a2 * b1) + a2 * b2)
        # Adding an error of 0 would lose the sign of -0, an infinite one the result.
        return np.where(np.isfinite(error) & (error != 0), total + error, high + c)
    total, error = _two_sum(a.astype(np.float64) * b, c.astype(np.float64))
    bits = np.asarray(total).view(np.int64)
    inexact = (error != 0) & np.isfinite(total) & (bits & 1 == 0)
    odd = np.where(inexact, bits + np.where((error > 0) == (total > 0), 1, -1), bits)
    return odd.view(np.float64).astype(np.float32)


def _halves(a: Any) -> Any:
    wide = a * (2.0**27 + 1)
    high = wide - (wide - a)
    return high, a - high


def _cast(x: Any, dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "b":
        return x != 0
    if x.dtype.kind == "f" and dtype.kind in "iu":
        info = np.iinfo(dtype)
        y = np.trunc(np.nan_to_num(x.astype(np.float64), nan=0.0))
        inside = (y > info.min) & (y < info.max)
        y_safe = np.where(inside, y, 0).astype(dtype)
        return np.where(inside, y_safe, np.where(y > 0, info.max, info.min).astype(dtype))
    return x.astype(dtype)


def _shift(a: Any, b: Any) -> Any:
    return b & b.dtype.type(a.dtype.itemsize * 8 - 1)


def _divide(a: Any, b: Any) -> Any:
    """Truncating; 0 where b is 0; INT_MIN / -1 wraps, as numpy's floor division does."""
    quotient = np.floor_divide(a, np.where(b == 0, a.dtype.type(1), b))
    inexact = (quotient * b != a) & ((a < 0) != (b < 0))
    return np.where(b == 0, a.dtype.type(0), quotient + inexact.astype(a.dtype))


_PRIMITIVES: Final[dict[Op, Callable[..., Any]]] = {
    Op.ADD: np.add, Op.SUB: np.subtract, Op.MUL: np.multiply, Op.FDIV: np.divide,
    Op.NEG: np.negative, Op.SQRT: np.sqrt, Op.TRUNC: np.trunc, Op.CMPLT: np.less,
    Op.CMPNE: np.not_equal, Op.CMPEQ: np.equal, Op.AND: np.bitwise_and, Op.OR: np.bitwise_or,
    Op.XOR: np.bitwise_xor, Op.WHERE: np.where, Op.MULACC: _fused,
    Op.SHL: lambda a, b: np.left_shift(a, _shift(a, b)),
    Op.SHR: lambda a, b: np.right_shift(a, _shift(a, b)),
    Op.TRUNCDIV: _divide, Op.TRUNCMOD: lambda a, b: np.where(b == 0, b, a - _divide(a, b) * b),
}


def evaluate(root: UOp, values: dict[UOp, Any]) -> Any:
    """The value of a graph of primitives, given those of its leaves."""
    done: dict[UOp, Any] = dict(values)
    with np.errstate(all="ignore"):
        for node in toposort(root, enter=lambda n: n.op is not Op.PARAM):
            if node in done:
                continue
            sources = [done[s] for s in node.src]
            if node.op is Op.CONST:
                result = np.array(node.value, NUMPY[node.dtype])
            elif node.op is Op.CAST:
                result = _cast(sources[0], NUMPY[node.dtype])
            elif node.op is Op.BITCAST:
                result = sources[0].view(NUMPY[node.dtype])
            else:
                result = np.asarray(_PRIMITIVES[node.op](*sources))
            assert result.dtype == NUMPY[node.dtype], node
            done[node] = result
    return done[root]


def target_with(fma: bool = True, **changes: Any) -> Target:
    """A target that computes in everything but the small floats."""
    settings: dict[str, Any] = {
        "dtypes": EVERYTHING - {dtypes.float16}, "name": "TEST", "architecture": "test", **changes,
    }
    return Target(fma=fma, **settings)


def lower(graph: UOp, fma: bool = True, ops: Any = PLAIN, target: Any = None) -> UOp:
    """`decompose` for a target that computes in everything but the small floats."""
    return decompose(graph, target or target_with(fma), ops)


def apply_op(op: Op, *operands: Any, fma: bool = True, ops: Any = PLAIN, target: Any = None) -> Any:
    """op(operands) through its decomposition, which must use `ops` alone."""
    by_numpy = {v: k for k, v in NUMPY.items()}
    leaves = [UOp.param(k, by_numpy[x.dtype], x.shape) for k, x in enumerate(operands)]
    graph = lower(UOp(op, tuple(leaves)), fma, ops, target)
    missing = {n.op for n in toposort(graph)} - set(ops) - {Op.CONST, Op.PARAM, Op.STACK}
    assert not missing, f"{missing} left"
    return evaluate(graph, dict(zip(leaves, operands, strict=True)))


def units(got: Any, wanted: Any) -> Any:
    """Errors in units in the last place of `got`'s dtype; inf where a special value is wrong.

    Args:
        got: Results.
        wanted: What they should be, in a longer format.
    """
    with np.errstate(all="ignore"):
        rounded = wanted.astype(got.dtype)
        distance = np.abs(got.astype(wanted.dtype) - wanted) / np.spacing(np.abs(rounded))
    finite = np.isfinite(got) & np.isfinite(rounded)
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    wrong_zero = (got == 0) & (rounded == 0) & (np.signbit(got) != np.signbit(rounded))
    return np.where(wrong_zero | ~(finite | same), np.inf, np.where(finite, distance, 0))
