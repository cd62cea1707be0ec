"""Lower and upper bound of a value: one interval rule per op.

Weak integers are exact, so are their intervals. A machine integer op that may overflow has its
dtype's range. A float's bounds say that the value is inside them or NaN; only constants have
bounds other than (-inf, inf), and those are used only where the value cannot be NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from core.ir.dtype import DType
from core.ir.operation import Op
from core.ir.traversal import derive
from core.ir.uop import UOp

Interval = tuple[Any, Any]


def _full(dtype: DType) -> Interval:
    return dtype.minimum, dtype.maximum


def _fit(low: Any, high: Any, dtype: DType) -> Interval:
    """The interval, or the dtype's range where a machine integer may wrap."""
    if low < dtype.minimum or high > dtype.maximum:
        return _full(dtype)
    return low, high


def _product(a: Any, b: Any) -> Any:
    """a * b of bounds, where 0 times an unbounded integer is 0."""
    return 0 if a == 0 or b == 0 else a * b


def _corners(op: Callable[[Any, Any], Any], a: Interval, b: Interval) -> Interval:
    values = [op(x, y) for x in a for y in b]
    return min(values), max(values)


def _floor_quotient(a: Any, b: Any) -> Any:
    if math.isinf(a):
        return a if b > 0 else -a
    if math.isinf(b):
        return -1 if (a < 0) != (b < 0) and a != 0 else 0
    return a // b


def _trunc_quotient(a: Any, b: Any) -> Any:
    if math.isinf(a):
        return a if b > 0 else -a
    if math.isinf(b):
        return 0
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _divide(quotient: Callable[[Any, Any], Any], node: UOp) -> Interval:
    a, b = node.src[0]._bounds, node.src[1]._bounds
    if b[0] > 0 or b[1] < 0:
        return _fit(*_corners(quotient, a, b), node.dtype)
    if a[0] >= 0 and b[0] >= 0:
        return 0, a[1]
    return _full(node.dtype)


def _floor_remainder(node: UOp) -> Interval:
    a: Interval = node.src[0]._bounds
    b: Interval = node.src[1]._bounds
    if b[0] > 0:
        if a[0] >= 0 and a[1] < b[0]:
            return a
        if b[0] == b[1] and not math.isinf(a[0]) and a[0] // b[0] == _floor_quotient(a[1], b[0]):
            return a[0] % b[0], a[1] % b[0]
        return 0, min(b[1] - 1, a[1]) if a[0] >= 0 else b[1] - 1
    if b[1] < 0:
        return b[0] + 1, 0
    return _full(node.dtype)


def _trunc_remainder(node: UOp) -> Interval:
    a, b = node.src[0]._bounds, node.src[1]._bounds
    if b[0] <= 0 <= b[1]:
        return _full(node.dtype)
    largest = max(abs(b[0]), abs(b[1])) - 1
    low = 0 if a[0] >= 0 else max(a[0], -largest)
    return low, 0 if a[1] <= 0 else min(a[1], largest)


def _less(node: UOp) -> Interval:
    a, b = (s._bounds for s in node.src)
    if node.src[0].dtype.is_float:
        return False, True
    return a[1] < b[0], a[0] < b[1]


def _equal(node: UOp) -> Interval:
    a, b = (s._bounds for s in node.src)
    if node.src[0].dtype.is_float:
        return False, True
    if a[1] < b[0] or b[1] < a[0]:
        return False, False
    same = a[0] == a[1] == b[0] == b[1] or node.src[0] is node.src[1]
    return same, True


def _unequal(node: UOp) -> Interval:
    low, high = _equal(node)
    return not high, not low


def _mask(value: Any) -> int:
    return (1 << int(value).bit_length()) - 1


def _bitwise(node: UOp) -> Interval:
    a, b = (s._bounds for s in node.src)
    if node.dtype.kind == "bool":
        if node.op is Op.AND:
            return a[0] and b[0], a[1] and b[1]
        if node.op is Op.OR:
            return a[0] or b[0], a[1] or b[1]
        return False, True
    if node.op is Op.AND and (a[0] >= 0 or b[0] >= 0):
        return 0, min(v[1] for v in (a, b) if v[0] >= 0)
    if a[0] >= 0 and b[0] >= 0 and not (math.isinf(a[1]) or math.isinf(b[1])):
        low = max(a[0], b[0]) if node.op is Op.OR else 0
        return low, max(_mask(a[1]), _mask(b[1]))
    return _full(node.dtype)


def _shift(node: UOp) -> Interval:
    a, b = (s._bounds for s in node.src)
    width = node.dtype.bits or math.inf
    if not 0 <= b[0] <= b[1] < width or math.isinf(b[1]):
        return _full(node.dtype)
    if node.op is Op.SHL:
        return _fit(*_corners(lambda x, y: _product(x, 1 << y), a, b), node.dtype)
    return _corners(lambda x, y: x if math.isinf(x) else x >> y, a, b)


def _cast(node: UOp) -> Interval:
    source = node.src[0]
    low, high = source._bounds
    if node.dtype.kind == "bool":
        return (False, True) if low <= 0 <= high else (True, True)
    if source.dtype.is_float or node.dtype.is_float:
        return _full(node.dtype)
    return _fit(int(low) if source.dtype.kind == "bool" else low,
                int(high) if source.dtype.kind == "bool" else high, node.dtype)


def _where(node: UOp) -> Interval:
    gate, yes, no = node.src
    low, high = gate._bounds
    chosen: Interval = yes._bounds
    other: Interval = no._bounds
    if low or no.is_invalid:
        return chosen
    if not high or yes.is_invalid:
        return other
    return min(chosen[0], other[0]), max(chosen[1], other[1])


def _leaf(node: UOp) -> Interval:
    low, high = _full(node.dtype)
    arg = node.arg
    if node.op is Op.PARAM and arg.minimum is not None:
        return arg.minimum, arg.maximum
    return low, high


def _range(node: UOp) -> Interval:
    return (0, node.src[0]._bounds[1] - 1) if node.src else (0, 0)


def _constant(node: UOp) -> Interval:
    if node.is_invalid:
        return _full(node.dtype)
    return node.value, node.value


def _first(node: UOp) -> Interval:
    bounds: Interval = node.src[0]._bounds
    return bounds


def _stack(node: UOp) -> Interval:
    if not node.src:
        return 0, 0
    return min(s._bounds[0] for s in node.src), max(s._bounds[1] for s in node.src)


def _add(node: UOp) -> Interval:
    a, b = (s._bounds for s in node.src)
    return _fit(a[0] + b[0], a[1] + b[1], node.dtype)


def _subtract(node: UOp) -> Interval:
    a, b = (s._bounds for s in node.src)
    return _fit(a[0] - b[1], a[1] - b[0], node.dtype)


def _multiply(node: UOp) -> Interval:
    a, b = (s._bounds for s in node.src)
    return _fit(*_corners(_product, a, b), node.dtype)


def _maximum(node: UOp) -> Interval:
    a, b = (s._bounds for s in node.src)
    return max(a[0], b[0]), max(a[1], b[1])


def _negate(node: UOp) -> Interval:
    low, high = node.src[0]._bounds
    return _fit(-high, -low, node.dtype)


_INTEGER_RULES: Final[dict[Op, Callable[[UOp], Interval]]] = {
    Op.ADD: _add, Op.SUB: _subtract, Op.MUL: _multiply, Op.MAX: _maximum, Op.NEG: _negate,
    Op.FLOORDIV: lambda n: _divide(_floor_quotient, n),
    Op.TRUNCDIV: lambda n: _divide(_trunc_quotient, n),
    Op.FLOORMOD: _floor_remainder, Op.TRUNCMOD: _trunc_remainder,
    Op.SHL: _shift, Op.SHR: _shift,
}
_RULES: Final[dict[Op, Callable[[UOp], Interval]]] = {
    Op.CONST: _constant, Op.PARAM: _leaf, Op.BUFFER: _leaf, Op.RANGE: _range, Op.SPECIAL: _range,
    Op.CMPLT: _less, Op.CMPEQ: _equal, Op.CMPNE: _unequal, Op.AND: _bitwise, Op.OR: _bitwise,
    Op.XOR: _bitwise, Op.CAST: _cast, Op.WHERE: _where, Op.STACK: _stack,
    **dict.fromkeys((
        Op.RESHAPE, Op.PERMUTE, Op.EXPAND, Op.FLIP, Op.SHRINK, Op.STAGE, Op.AFTER, Op.CONTIGUOUS,
        Op.DETACH, Op.CONTIGUOUS_BACKWARD, Op.COPY, Op.INDEX), _first),
}


def _bounds_rule(node: UOp) -> Interval:
    if node.dtype.is_float and node.op is not Op.CONST:
        return -math.inf, math.inf
    rule = _RULES.get(node.op)
    if rule is None and node.dtype.is_integer:
        rule = _INTEGER_RULES.get(node.op)
    return rule(node) if rule is not None else _full(node.dtype)


bounds: Final[Callable[[UOp], Interval]] = derive("_bounds", _bounds_rule)


def minimum_of(node: UOp) -> Any:
    """Smallest value a node can have; -inf where unbounded."""
    return bounds(node)[0]


def maximum_of(node: UOp) -> Any:
    """Largest value a node can have; inf where unbounded."""
    return bounds(node)[1]


def largest_dimension(dimension: Any) -> int:
    """A dimension, at its maximum where symbolic."""
    return dimension if isinstance(dimension, int) else int(maximum_of(dimension))


def largest_bytes(value: UOp) -> int:
    """Bytes of a value, at their maximum where its shape is symbolic."""
    return math.prod(map(largest_dimension, value.shape)) * value.dtype.itemsize


