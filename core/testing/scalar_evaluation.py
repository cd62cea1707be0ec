"""Evaluate small graphs in plain Python, one element at a time: a second opinion on meaning.

It shares nothing with `core.reference` but the scalar semantics of
`core.simplify.constant_folding`. Arrays are flat lists in row-major order; Invalid is a value.
Effects are not evaluated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any, Final

from core.ir import ELEMENTWISE, DType, Invalid, Op, UOp, broadcast_shapes, constant, toposort
from core.simplify.constant_folding import cast_value, fold

Values = list[Any]
_FUNCTIONS: Final[dict[Op, Callable[..., float]]] = {
    Op.EXP: math.exp, Op.EXP2: math.exp2, Op.LOG: math.log, Op.LOG2: math.log2, Op.SIN: math.sin,
    Op.COS: math.cos, Op.POW: math.pow,
}


def _fused(a: float, b: float, c: float) -> float:
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        return a * b + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c if a * b == 0 else 0.0
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def scalar(op: Op, values: Sequence[Any], source: DType, target: DType) -> Any:
    """Value of an elementwise op; Invalid where an operand is, but for WHERE's other branch."""
    if op is Op.WHERE and values[0] is not Invalid:
        return values[1] if values[0] else values[2]
    if any(v is Invalid for v in values):
        return Invalid
    if op is Op.CAST:
        result = cast_value(values[0], source, target)
    elif op is Op.MULACC and source.is_float:
        result = _fused(*values)
    else:
        result = fold(op, values, source)
    if result is None and op in _FUNCTIONS and source.is_float:
        try:
            result = _FUNCTIONS[op](*values)
        except (ValueError, OverflowError):
            result = math.nan
    if result is None:
        raise NotImplementedError(f"{op.name} of {values} in {source}")
    return constant(result, target).value


def offset_of(index: Sequence[int], shape: Sequence[int]) -> int:
    """Row-major position of an index."""
    position = 0
    for i, n in zip(index, shape, strict=True):
        position = position * n + i
    return position


def indices(shape: Sequence[int]) -> list[tuple[int, ...]]:
    """Every index of a shape, row-major."""
    return list(product(*map(range, shape)))


def _combine(op: Op, values: Sequence[Any], dtype: DType) -> Any:
    """A reduction in order; what is Invalid is skipped, the first value starts it."""
    there = [v for v in values if v is not Invalid]
    if not there:
        start = {Op.ADD: 0, Op.MUL: 1}.get(op, dtype.minimum)
        return constant(start, dtype).value if not math.isinf(start) or dtype.is_float else start
    total = there[0]
    for value in there[1:]:
        total = scalar(op, (total, value), dtype, dtype)
    return total


class _Evaluation:
    def __init__(self, leaves: Mapping[UOp, Any]) -> None:
        self.leaves = leaves

    def value(self, root: UOp, ranges: Mapping[UOp, int]) -> Values:
        """All elements of a node; only nested reductions call this again."""
        done: dict[UOp, Values] = {}
        for node in toposort(root, enter=lambda n: not self._closes(n) and n not in self.leaves):
            if node in self.leaves:
                given = self.leaves[node]
                done[node] = list(given) if isinstance(given, (list, tuple)) else [given]
            elif node.op is Op.RANGE:
                done[node] = [ranges[node]]
            elif self._closes(node):
                done[node] = self._closed(node, ranges)
            else:
                done[node] = self._node(node, [done[s] for s in node.src])
        return done[root]

    @staticmethod
    def _closes(node: UOp) -> bool:
        return node.op in (Op.REDUCE, Op.STAGE) and len(node.src) > 1

    def _closed(self, node: UOp, ranges: Mapping[UOp, int]) -> Values:
        loops = [r for r in node.src[1:] if r.op is Op.RANGE]
        extents = [self.value(r.src[0], ranges)[0] for r in loops]
        parts = [
            self.value(node.src[0], {**ranges, **dict(zip(loops, at, strict=True))})
            for at in product(*map(range, extents))
        ]
        if node.op is Op.STAGE:
            return [v for part in parts for v in part]
        return [_combine(node.arg.op, column, node.dtype) for column in zip(*parts, strict=True)]

    def _node(self, node: UOp, src: list[Values]) -> Values:
        if node.op in ELEMENTWISE:
            count = math.prod(node.shape)
            wide = [v if len(v) == count and s.shape else v * count
                    for v, s in zip(src, node.src, strict=True)]
            return [scalar(node.op, lane, node.src[-1].dtype, node.dtype)
                    for lane in zip(*wide, strict=True)]
        return _MOVES[node.op](node, src)


def _constant(node: UOp, src: list[Values]) -> Values:
    return [node.value]


def _same(node: UOp, src: list[Values]) -> Values:
    return src[0]


def _load(node: UOp, src: list[Values]) -> Values:
    return [constant(0, node.dtype).value if v is Invalid else v for v in src[0]]


def _stack(node: UOp, src: list[Values]) -> Values:
    return [v for part in src for v in part]


def _expand(node: UOp, src: list[Values]) -> Values:
    return src[0] * (math.prod(node.shape) // max(len(src[0]), 1))


def _reduce(node: UOp, src: list[Values]) -> Values:
    count = math.prod(node.shape)
    if not node.arg.axes:
        return src[0]
    return [_combine(node.arg.op, src[0][k::count], node.dtype) for k in range(count)]


def _moved(source: Callable[[UOp, tuple[int, ...], list[Values]], tuple[int, ...] | None]) -> Any:
    """A movement op from the index into its source of an index into the result."""
    def move(node: UOp, src: list[Values]) -> Values:
        shape, result = node.src[0].shape, []
        for index in indices(node.shape):
            at = source(node, index, src)
            result.append(Invalid if at is None else src[0][offset_of(at, shape)])
        return result

    return move


def _permuted(node: UOp, index: tuple[int, ...], src: list[Values]) -> tuple[int, ...]:
    return tuple(index[node.arg.index(axis)] for axis in range(len(index)))


def _flipped(node: UOp, index: tuple[int, ...], src: list[Values]) -> tuple[int, ...]:
    return tuple(n - 1 - i if f else i
                 for i, n, f in zip(index, node.shape, node.arg, strict=True))


def _shrunk(node: UOp, index: tuple[int, ...], src: list[Values]) -> tuple[int, ...]:
    return tuple(i + at for i, at in zip(index, src[1], strict=True))


def _padded(node: UOp, index: tuple[int, ...], src: list[Values]) -> tuple[int, ...] | None:
    at = tuple(i - offset for i, offset in zip(index, src[1], strict=True))
    inside = all(0 <= i < n for i, n in zip(at, node.src[0].shape, strict=True))
    return at if inside else None


def _indexed(node: UOp, index: tuple[int, ...], src: list[Values]) -> tuple[int, ...] | None:
    operands = node.src[1:]
    common: tuple[int, ...] = ()
    for operand in operands:
        common = broadcast_shapes(common, operand.shape)
    front, rest = index[:len(common)], index[len(common):]
    chosen = []
    for operand, values, extent in zip(operands, src[1:], node.src[0].shape, strict=False):
        at = [0 if n == 1 else i
              for i, n in zip(front[len(front) - len(operand.shape):], operand.shape, strict=True)]
        value = values[offset_of(at, operand.shape)]
        if value is Invalid or not -extent <= value < extent:
            return None
        chosen.append(value + extent if value < 0 else value)
    return (*chosen, *rest)


_MOVES: Final[dict[Op, Callable[[UOp, list[Values]], Values]]] = {
    Op.CONST: _constant, Op.STACK: _stack, Op.EXPAND: _expand, Op.LOAD: _load, Op.REDUCE: _reduce,
    Op.RESHAPE: _same, Op.DETACH: _same, Op.CONTIGUOUS: _same, Op.CONTIGUOUS_BACKWARD: _same,
    Op.PERMUTE: _moved(_permuted), Op.FLIP: _moved(_flipped), Op.SHRINK: _moved(_shrunk),
    Op.PAD: _moved(_padded), Op.INDEX: _moved(_indexed),
}


def evaluate_scalars(
    root: UOp, leaves: Mapping[UOp, Any], ranges: Mapping[UOp, int] | None = None
) -> Values:
    """Elements of a value, row-major.

    Args:
        root: A value of known shape.
        leaves: A number, or a flat list, by leaf.
        ranges: The position of each open RANGE.
    """
    return _Evaluation(leaves).value(root, ranges or {})


def same_values(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Equal element by element: any NaN is any NaN, -0.0 is not 0.0, Invalid is Invalid."""
    return len(a) == len(b) and all(map(_same_value, a, b))


def _same_value(a: Any, b: Any) -> bool:
    if a is Invalid or b is Invalid:
        return a is b
    if isinstance(a, float) and isinstance(b, float):
        if a != a or b != b:
            return a != a and b != b
        return a == b and math.copysign(1.0, a) == math.copysign(1.0, b)
    return type(a) is type(b) and bool(a == b)
