"""Random graphs that a pattern may match, and values for their leaves.

Used by the test of every rewrite row: sources are leaves, constants at the edges of their dtype,
small expressions, and values that are not there everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final

from core.foundation.errors import DTypeError, ShapeError
from core.ir import (
    COMMUTATIVE,
    ELEMENTWISE,
    DType,
    Op,
    Pattern,
    Rule,
    UOp,
    dtypes,
    open_ranges,
    toposort,
)
from core.ir.operation import COMPARISON, TERNARY, UNARY

_MOVEMENT: Final = frozenset({
    Op.PERMUTE, Op.FLIP, Op.RESHAPE, Op.EXPAND, Op.PAD, Op.SHRINK, Op.INDEX, Op.STACK, Op.BITCAST,
})
SAMPLED: Final = (
    dtypes.int8, dtypes.uint8, dtypes.int32, dtypes.uint64, dtypes.float16, dtypes.bfloat16,
    dtypes.float32, dtypes.float64, dtypes.bool, dtypes.weak_int,
)
_WEAK_CONSTANTS: Final = (-4, -3, -1, 0, 1, 2, 3, 4, 6, 8)
_INTEGER_OPS: Final = frozenset({
    Op.FLOORDIV, Op.FLOORMOD, Op.TRUNCDIV, Op.TRUNCMOD, Op.SHL, Op.SHR,
})
_FLOAT_OPS: Final = frozenset({
    Op.FDIV, Op.SQRT, Op.RECIPROCAL, Op.EXP, Op.EXP2, Op.LOG, Op.LOG2, Op.SIN, Op.COS, Op.POW,
    Op.TRUNC,
})
_BITS: Final = frozenset({Op.AND, Op.OR, Op.XOR})
_RANGE_NUMBERS: Final = 20


class MismatchError(Exception):
    """The choices made so far fit no graph; choose again."""


def edges(dtype: DType) -> tuple[Any, ...]:
    """Values at which a rule of a dtype is most likely to be wrong."""
    if dtype.kind == "bool":
        return False, True
    if dtype.is_float:
        tiny = {dtypes.float64: 5e-324, dtypes.float32: 1e-45, dtypes.float16: 6e-8}
        return (0.0, -0.0, 1.0, -1.0, 0.1, 2.0, -3.5, 0.5, math.inf, -math.inf, math.nan,
                tiny.get(dtype, 1e-40), 3e4)
    if dtype.kind == "weak_int":
        return _WEAK_CONSTANTS
    low, high = int(dtype.minimum), int(dtype.maximum)
    return tuple(sorted({low, low + 1, max(-1, low), 0, 1, 2, 3, 7, high - 1, high}))


class Instances:
    """A source of random instances of one pattern's nodes."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.bound: dict[str, UOp] = {}
        self.shape: tuple[int, ...] = ()

    def of(self, rule: Rule) -> UOp:
        """A node for a rule to be tried at.

        Raises:
            MismatchError: These choices fit no graph.
        """
        self.bound = {}
        self.shape = self.random.choice([(), (), (), (2,), (2, 3)])
        kinds = rule.kinds
        dtype = self.random.choice([d for d in SAMPLED if kinds is None or d.kind in kinds])
        try:
            return self.build(rule.pattern, dtype)
        except (ShapeError, DTypeError) as error:
            raise MismatchError from error

    def build(self, pattern: Pattern | None, dtype: DType) -> UOp:
        """An instance of a pattern in a dtype; of None, any value."""
        if pattern is None:
            return self.leaf(dtype)
        if pattern.name in self.bound:
            if self.bound[pattern.name].dtype is not dtype:
                raise MismatchError
            return self.bound[pattern.name]
        if pattern.kinds is not None and dtype.kind not in pattern.kinds:
            raise MismatchError
        result = self._of_kind(pattern, dtype)
        if pattern.name is not None:
            self.bound[pattern.name] = result
        return result

    def _of_kind(self, pattern: Pattern, dtype: DType) -> UOp:
        if pattern.literal is not None:
            if dtype.kind == "bool" and not isinstance(pattern.literal, bool):
                raise MismatchError
            return UOp.const(pattern.literal, dtype)
        if pattern.ops is None:
            return self.leaf(dtype)
        op = self.random.choice(sorted(pattern.ops))
        if op is Op.CONST:
            return self.constant(dtype)
        if op in ELEMENTWISE:
            return self._elementwise(op, pattern, dtype)
        return self._structure(op, pattern, dtype)

    def constant(self, dtype: DType) -> UOp:
        """A constant at an edge of its dtype; now and then Invalid."""
        if self.random.random() < 0.15:
            return UOp.invalid(dtype)
        return UOp.const(self.random.choice(edges(dtype)), dtype)

    def leaf(self, dtype: DType) -> UOp:
        """A variable, a constant, a small expression, or a value with a gate."""
        draw = self.random.random()
        if draw < 0.15:
            return self.constant(dtype).expand(self.shape if draw < 0.05 else ())
        if draw < 0.25:
            return self.variable(dtype).valid(self.variable(dtypes.bool))
        if draw < 0.65:
            return self.variable(dtype)
        a, b = self.variable(dtype), self.variable(dtype)
        if dtype.kind == "bool":
            i, j = self.variable(dtypes.weak_int), self.variable(dtypes.weak_int)
            f, h = self.variable(dtypes.float32), self.variable(dtypes.float32)
            limit = self.random.choice(_WEAK_CONSTANTS)
            return self.random.choice([
                a & b, a | b, a.logical_not(), i.eq(j), self.leaf(dtypes.weak_int) < limit, f < h])
        if dtype.kind == "weak_int":
            k = self.random.choice([2, 3, 4, 8])
            return self.random.choice([
                a * k, a * k + b, a // k, a % k, b * -1, a + b, (a * k + b) // 2, a + k, a % 4 + b,
                (a < 3).where(a, b)])
        return self.random.choice([a + b, -a, a * 2, a.maximum(b)])

    def variable(self, dtype: DType) -> UOp:
        """One of three leaves of a dtype."""
        number = self.random.randrange(3)
        if dtype.kind == "weak_int":
            if self.random.random() < 0.6:
                return UOp.range((4, 6, 1)[number], number)
            return UOp.variable("abc"[number], (-3, 0, 1)[number], (4, 7, 3)[number], slot=number)
        return UOp.param(10 * dtype.order + number, dtype, self.random.choice([(), self.shape]))

    def _elementwise(self, op: Op, pattern: Pattern, dtype: DType) -> UOp:
        count = 1 if op in UNARY else 3 if op in TERNARY else 2
        patterns: list[Pattern | None] = list(pattern.src or [None] * count)
        patterns += [None] * (count - len(patterns))
        kinds = [self._operand_dtype(op, dtype, position) for position in range(count)]
        if op in COMPARISON:
            if dtype.kind != "bool":
                raise MismatchError
            kinds = [self._comparable(patterns)] * 2
        self._check(op, kinds[-1])
        src = [self.build(p, kind) for p, kind in zip(patterns, kinds, strict=True)]
        if op in COMMUTATIVE and self.random.random() < 0.5:
            src.reverse()
        return UOp(op, tuple(src), dtype if op is Op.CAST else None)

    def _comparable(self, patterns: list[Pattern | None]) -> DType:
        allowed = [
            d for d in SAMPLED
            if all(p is None or p.kinds is None or d.kind in p.kinds for p in patterns)
        ]
        boolean = any(p is not None and p.ops is not None and p.ops <= COMPARISON for p in patterns)
        return dtypes.bool if boolean else self.random.choice(allowed)

    def _operand_dtype(self, op: Op, dtype: DType, position: int) -> DType:
        if op is Op.CAST:
            return self.random.choice([
                d for d in SAMPLED if not (d.is_float and dtype.kind == "weak_int")])
        return dtypes.bool if op is Op.WHERE and position == 0 else dtype

    @staticmethod
    def _check(op: Op, dtype: DType) -> None:
        """Operations that a dtype does not have."""
        wrong = (
            (op in _INTEGER_OPS and not dtype.is_integer)
            or (op in _FLOAT_OPS and not dtype.is_float)
            or (op in _BITS and dtype.is_float)
            or (op in _BITS | {Op.SHL, Op.SHR} and dtype.kind == "weak_int" and op in _BITS)
            or (op is Op.THREEFRY and dtype is not dtypes.uint64)
            or (op in (Op.SUB, Op.NEG, Op.MULACC) and dtype.kind == "bool")
        )
        if wrong:
            raise MismatchError

    def _structure(self, op: Op, pattern: Pattern, dtype: DType) -> UOp:
        if op is Op.RANGE:
            return UOp.range(self.random.choice([1, 2]), 9)
        sources = pattern.src or (None,)
        if op is Op.STACK:
            return UOp.stack(*(self.constant(dtype) for _ in range(self.random.choice([2, 3]))))
        value = self.build(sources[0], dtype)
        if op is Op.REDUCE:
            return self._reduce(value)
        if op is Op.INDEX:
            if len(sources) > 1:
                return UOp(op, (value, *(self.build(p, dtypes.weak_int) for p in sources[1:])))
            return self._index(value)
        if op is Op.LOAD:
            return value.load()
        if op not in _MOVEMENT:
            raise MismatchError
        return self._move(op, value)

    def _reduce(self, value: UOp) -> UOp:
        op = self.random.choice([Op.ADD, Op.MAX, Op.MUL])
        if value.dtype.kind == "bool":
            raise MismatchError
        if value.shape and self.random.random() < 0.6:
            return value.reduce(op, axes=self.random.randint(1, len(value.shape)))
        opened = sorted(open_ranges(value), key=lambda r: r.arg.id)
        loops = [r for r in opened if self.random.random() < 0.7]
        if self.random.random() < 0.4:
            loops.append(UOp.range(2, _RANGE_NUMBERS))
        if self.random.random() < 0.2:
            loops.append(UOp.const(0))
        return value.reduce(op, *loops)

    def _index(self, value: UOp) -> UOp:
        if not value.shape:
            raise MismatchError
        count = self.random.randint(1, len(value.shape))
        choices = (UOp.const(self.random.randint(-3, 3)), UOp.invalid(), UOp.range(2, 1))
        return value.index(*(self.random.choice(choices) for _ in range(count)))

    def _move(self, op: Op, value: UOp) -> UOp:
        shape, random = value.shape, self.random
        if op is Op.PERMUTE:
            return UOp(op, (value,), tuple(random.sample(range(len(shape)), len(shape))))
        if op is Op.FLIP:
            return UOp(op, (value,), tuple(random.random() < 0.5 for _ in shape))
        if op is Op.EXPAND:
            return UOp(op, (value, UOp.dims(random.choice([(), (2,), (3, 1)]))))
        if op is Op.RESHAPE:
            size = math.prod(shape)
            other = random.choice([(size,), shape, (1, *shape), tuple(reversed(shape))])
            return UOp(op, (value, UOp.dims(other)))
        new: Sequence[int]
        if op is Op.SHRINK:
            at = [random.randint(0, n - 1) for n in shape]
            new = [random.randint(1, n - o) for n, o in zip(shape, at, strict=True)]
        else:
            at = [random.randint(0, 1) for _ in shape]
            new = [n + o + random.randint(0, 1) for n, o in zip(shape, at, strict=True)]
        return UOp(op, (value, UOp.dims(at), UOp.dims(new)))


def leaves_of(*roots: UOp) -> list[UOp]:
    """PARAMs and RANGEs of graphs, in order."""
    return [n for n in toposort(*roots) if n.op in (Op.PARAM, Op.RANGE)]


def assignment(leaves: list[UOp], random: Random) -> tuple[dict[UOp, Any], Mapping[UOp, int]]:
    """Random values of the PARAMs, and positions of the RANGEs."""
    values: dict[UOp, Any] = {}
    ranges: dict[UOp, int] = {}
    for leaf in leaves:
        if leaf.op is Op.RANGE:
            ranges[leaf] = random.randrange(leaf.src[0].value)
        elif leaf.arg.minimum is not None:
            values[leaf] = random.randint(leaf.arg.minimum, leaf.arg.maximum)
        else:
            count = math.prod(leaf.shape)
            drawn = [UOp.const(random.choice(edges(leaf.dtype)), leaf.dtype).value
                     for _ in range(count)]
            values[leaf] = drawn
    return values, ranges
