"""Text of a graph and back: parse(text(g)) is g, exactly. UOps pickle through it.

One line per node, sources first; the last line is the root:

    0 = CONST arg=Constant(int32, 3)
    1 = ADD(0, 0)

Arguments are written as Python literals and calls of the named tuples of `arguments.py`; they are
read through `ast` with a fixed set of names, so that text from elsewhere can run no code.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import Any, Final

from core.ir.arguments import (
    ARGUMENT_TYPES,
    AddressSpace,
    AxisType,
    Constant,
    Invalid,
    constant,
)
from core.ir.dtype import ALL_DTYPES, DType
from core.ir.operation import Op
from core.ir.traversal import toposort
from core.ir.uop import UOp, register_text_form

_ENUMS: Final = {"Op": Op, "AddressSpace": AddressSpace, "AxisType": AxisType}
_NAMES: Final[dict[str, Any]] = {
    **{d.name: d for d in ALL_DTYPES}, "Invalid": Invalid, "inf": float("inf"),
    "nan": float("nan"),
}
_LINE: Final = re.compile(
    r"(\d+) = ([A-Z0-9_]+)(?:\(([\d, ]*)\))?(?: arg=(.*?))?(?: tag=(.*))?$"
)


def argument_text(value: Any) -> str:
    """Text of an argument.

    Raises:
        TypeError: The value is not of a kind that a UOp may carry.
    """
    if isinstance(value, Constant):
        return f"Constant({value.dtype.name}, {value.value!r})"
    if isinstance(value, DType):
        return value.name
    if isinstance(value, (Op, AddressSpace, AxisType)):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, tuple):
        inner = ", ".join(map(argument_text, value))
        if type(value) is tuple:
            return f"({inner},)" if len(value) == 1 else f"({inner})"
        return f"{type(value).__name__}({inner})"
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return repr(value)
    raise TypeError(f"{value!r} cannot be the argument of a UOp: it has no text")


def text(*roots: UOp) -> str:
    """Text of a graph. Several roots are written as one SINK-less listing ending with the last."""
    numbers: dict[UOp, int] = {}
    lines = []
    for node in toposort(*roots):
        numbers[node] = len(numbers)
        line = f"{numbers[node]} = {node.op.name}"
        if node.src:
            line += f"({', '.join(str(numbers[s]) for s in node.src)})"
        if node.arg is not None:
            line += f" arg={argument_text(node.arg)}"
        if node.tag is not None:
            line += f" tag={argument_text(node.tag)}"
        lines.append(line)
    return "\n".join(lines)


def _read(node: ast.expr) -> Any:
    """Value of an argument's syntax tree; arguments nest a few levels, never with the graph."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name) and node.id in _NAMES:
        return _NAMES[node.id]
    if isinstance(node, ast.Tuple):
        return tuple(map(_read, node.elts))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_read(node.operand)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return _ENUMS[node.value.id][node.attr]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        values = list(map(_read, node.args))
        if node.func.id == "Constant":
            return constant(values[1], values[0])
        return ARGUMENT_TYPES[node.func.id](*values)
    raise ValueError(f"{ast.unparse(node)!r} is no argument of a UOp")


def parse_argument(source: str | None) -> Any:
    """The argument with this text; None for no text.

    Raises:
        ValueError: The text is no argument.
    """
    if source is None:
        return None
    try:
        return _read(ast.parse(source, mode="eval").body)
    except (SyntaxError, KeyError, TypeError) as error:
        raise ValueError(f"{source!r} is no argument of a UOp") from error


def parse_lines(lines: Sequence[str]) -> list[UOp]:
    """Every node of a listing, in its order.

    Raises:
        ValueError: A line is malformed; the message quotes it.
    """
    nodes: list[UOp] = []
    for line in lines:
        match = _LINE.match(line.strip())
        if match is None or int(match[1]) != len(nodes):
            raise ValueError(f"line {len(nodes)} of the graph's text is malformed: {line!r}")
        sources = tuple(nodes[int(n)] for n in (match[3] or "").split(",") if n.strip())
        nodes.append(UOp(Op[match[2]], sources, parse_argument(match[4]), parse_argument(match[5])))
    return nodes


def parse(source: str) -> UOp:
    """The graph with this text: its last line is the root.

    Raises:
        ValueError: The text is malformed or empty.
    """
    nodes = parse_lines([line for line in source.strip().splitlines() if line.strip()])
    if not nodes:
        raise ValueError("the text holds no graph")
    return nodes[-1]


register_text_form(parse, text)
