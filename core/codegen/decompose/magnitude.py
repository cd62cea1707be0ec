"""How large a float can be, where that is provable: it spares SIN and COS the long reduction.

    CAST(uint32 in [0, 2^24)) * 2^-24 * 6.28…  → at most 6.28…, never NaN

Random normal numbers take the sine of such values. Everything else is unbounded: inf.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from core.codegen.decompose.arithmetic import FORMATS
from core.ir import Op, UOp, bounds, toposort

_INFINITY: Final = math.inf


def _cast(node: UOp, sources: list[float]) -> float:
    source = node.src[0]
    if source.dtype.is_float:
        return sources[0]
    low, high = bounds(source)
    return float(max(abs(low), abs(high)))


def _bitcast(node: UOp, sources: list[float]) -> float:
    """Positive floats are ordered as their bits."""
    form = FORMATS.get(node.dtype)
    if form is None or node.src[0].dtype is not form.unsigned:
        return _INFINITY
    exponent = (int(bounds(node.src[0])[1]) >> form.mantissa) - form.bias
    return 2.0 ** (exponent + 1) if exponent < form.bias else _INFINITY


_RULES: Final[dict[Op, Callable[[UOp, list[float]], float]]] = {
    Op.CONST: lambda node, s: _INFINITY if node.is_invalid else abs(float(node.value)),
    Op.CAST: _cast,
    Op.BITCAST: _bitcast,
    Op.NEG: lambda node, s: s[0],
    Op.ADD: lambda node, s: s[0] + s[1],
    Op.SUB: lambda node, s: s[0] + s[1],
    Op.MUL: lambda node, s: s[0] * s[1] if max(s) < _INFINITY else _INFINITY,
    Op.WHERE: lambda node, s: max(s[1:]),
}


def largest_magnitude(x: UOp) -> float:
    """A bound of |x|, up to rounding; inf where none is known or x may be NaN."""
    found: dict[UOp, float] = {}
    for node in toposort(x, enter=lambda n: n.op in _RULES and n.dtype.is_float):
        rule = _RULES.get(node.op) if node.dtype.is_float else None
        value = _INFINITY if rule is None else rule(node, [found[s] for s in node.src])
        found[node] = value if value == value else _INFINITY
    return found[x]
