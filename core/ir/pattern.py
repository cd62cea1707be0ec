"""Patterns over UOps, and rules: rows of a name, a pattern and a replacement.

    x, c = var("x"), const_var("c")
    Rule("add-zero", x + 0, lambda x: x, kinds=INTEGERS)

A pattern is matched by a Python function made from it at its first use (500 closures made at
import would cost 100 ms, algorithms.md 4.8). Patterns with commutative operations try both
orders. A name that occurs twice matches only the very same node.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Final

from core.ir.dtype import float_bits
from core.ir.operation import BINARY_OPS, COMMUTATIVE, Op
from core.ir.uop import UOp

INTEGERS: Final = frozenset({"signed", "unsigned", "weak_int"})
MACHINE_INTEGERS: Final = frozenset({"signed", "unsigned"})
WEAK: Final = frozenset({"weak_int"})
FLOATS: Final = frozenset({"float", "weak_float"})
BOOL: Final = frozenset({"bool"})
ANY: Final = frozenset({"bool", *INTEGERS, *FLOATS, "void"})


@dataclass(frozen=True, eq=False)
class Pattern:
    """What a node looks like.

    Attributes:
        ops: Allowed operations, or None for any.
        src: Patterns of the sources, or None for any sources. With `rest` more may follow.
        name: Name under which the replacement receives the node.
        kinds: Allowed kinds of its dtype, or None.
        literal: Value of a CONST, matched by its bits in the node's dtype.
        arg: Where not None, the node's argument must equal it.
        rest: Whether further sources may follow those named.
    """

    ops: frozenset[Op] | None = None
    src: tuple[Pattern, ...] | None = None
    name: str | None = None
    kinds: frozenset[str] | None = None
    literal: Any = None
    arg: Any = None
    rest: bool = False

    def named(self, name: str) -> Pattern:
        """The same pattern, its node captured under a name."""
        return Pattern(
            self.ops, self.src, name, self.kinds, self.literal, self.arg, self.rest
        )

    def _binary(self, op: Op, other: Any, swapped: bool = False) -> Pattern:
        other = as_pattern(other)
        return Pattern(frozenset({op}), (other, self) if swapped else (self, other))

    def __add__(self, other: Any) -> Pattern:
        return self._binary(Op.ADD, other)

    def __sub__(self, other: Any) -> Pattern:
        return self._binary(Op.SUB, other)

    def __mul__(self, other: Any) -> Pattern:
        return self._binary(Op.MUL, other)

    def __truediv__(self, other: Any) -> Pattern:
        return self._binary(Op.FDIV, other)

    def __floordiv__(self, other: Any) -> Pattern:
        return self._binary(Op.FLOORDIV, other)

    def __mod__(self, other: Any) -> Pattern:
        return self._binary(Op.FLOORMOD, other)

    def __lt__(self, other: Any) -> Pattern:
        return self._binary(Op.CMPLT, other)

    def __gt__(self, other: Any) -> Pattern:
        return self._binary(Op.CMPLT, other, swapped=True)

    def __and__(self, other: Any) -> Pattern:
        return self._binary(Op.AND, other)

    def __or__(self, other: Any) -> Pattern:
        return self._binary(Op.OR, other)

    def __xor__(self, other: Any) -> Pattern:
        return self._binary(Op.XOR, other)

    def __lshift__(self, other: Any) -> Pattern:
        return self._binary(Op.SHL, other)

    def __rshift__(self, other: Any) -> Pattern:
        return self._binary(Op.SHR, other)

    def __neg__(self) -> Pattern:
        return Pattern(frozenset({Op.NEG}), (self,))

    def eq(self, other: Any) -> Pattern:
        """CMPEQ."""
        return self._binary(Op.CMPEQ, other)

    def ne(self, other: Any) -> Pattern:
        """CMPNE."""
        return self._binary(Op.CMPNE, other)

    def maximum(self, other: Any) -> Pattern:
        """MAX."""
        return self._binary(Op.MAX, other)

    def where(self, yes: Any, no: Any) -> Pattern:
        """WHERE with this as its condition."""
        return Pattern(frozenset({Op.WHERE}), (self, as_pattern(yes), as_pattern(no)))

    def cast(self, name: str | None = None) -> Pattern:
        """CAST of this, captured under `name`."""
        return Pattern(frozenset({Op.CAST}), (self,), name)


def var(name: str, kinds: frozenset[str] | None = None) -> Pattern:
    """Any node, captured under a name."""
    return Pattern(name=name, kinds=kinds)


def const_var(name: str, kinds: frozenset[str] | None = None) -> Pattern:
    """Any CONST (Invalid too), captured under a name."""
    return Pattern(ops=frozenset({Op.CONST}), name=name, kinds=kinds)


def literal(value: Any) -> Pattern:
    """A CONST with this value; -0.0 and 0.0 differ, and 0 in a float pattern means +0.0."""
    return Pattern(ops=frozenset({Op.CONST}), literal=value)


def node(
    ops: Op | frozenset[Op] | set[Op], *src: Any, name: str | None = None, arg: Any = None,
    kinds: frozenset[str] | None = None, rest: bool = False, any_sources: bool = False,
) -> Pattern:
    """A node of one of these operations with these sources."""
    allowed = frozenset({ops}) if isinstance(ops, Op) else frozenset(ops)
    sources = None if any_sources else tuple(map(as_pattern, src))
    return Pattern(allowed, sources, name, kinds, None, arg, rest)


def as_pattern(value: Any) -> Pattern:
    """A pattern as it is; a Python number as the CONST with that value."""
    return value if isinstance(value, Pattern) else literal(value)


def literal_matches(found: UOp, value: Any) -> bool:
    """Whether a CONST has the value, bit by bit for floats."""
    if found.is_invalid:
        return False
    if found.dtype.is_float:
        return bool(found.arg.bits == float_bits(float(value)))
    return bool(found.arg.bits == value)


@dataclass(eq=False)
class Rule:
    """One named row.

    Attributes:
        name: Kebab-case, unique within its rule set.
        pattern: What it matches.
        replacement: Called with the captured nodes by name (and `context`, if it has a
            parameter of that name); returns the new node, or None to decline.
        when: Condition on the captured nodes.
        unbounded: Holds only for integers that never wrap.
        kinds: Kinds of dtype of the matched node to which the row applies.
        note: Why the row exists, where its name does not say it.
    """

    name: str
    pattern: Pattern
    replacement: Callable[..., UOp | None]
    when: Callable[..., bool] | None = None
    unbounded: bool = False
    kinds: frozenset[str] | None = None
    note: str = ""
    hits: int = field(default=0, init=False)
    _match: Callable[[UOp, Any], UOp | None] | None = field(default=None, init=False, repr=False)

    def __call__(self, found: UOp, context: Any = None) -> UOp | None:
        """The replacement of a node, or None where the rule does not apply."""
        if self._match is None:
            self._match = _compile(self)
        return self._match(found, context)

    def may_match(self, op: Op, first: Op | None, last: Op | None) -> bool:
        """Whether a node of this op, with these ops of first and last source, could match."""
        pattern = self.pattern
        if pattern.ops is not None and op not in pattern.ops:
            return False
        if not pattern.src:
            return True
        if first is None:
            return False
        a, b = pattern.src[0], pattern.src[-1]
        forward = _allows(a, first) and (pattern.rest or _allows(b, last))
        if forward or len(pattern.src) != 2 or op not in COMMUTATIVE:
            return forward
        return _allows(b, first) and _allows(a, last)


    def may_match_kinds(self, op: Op, kind: str, source_kind: str | None) -> bool:
        """Whether a node of this kind of dtype, and of its first source's, could match."""
        pattern = self.pattern
        if self.unbounded and kind not in ("weak_int", "bool"):
            return False
        if not (_has_kind(self.kinds, kind) and _has_kind(pattern.kinds, kind)):
            return False
        if not pattern.src:
            return True
        # The operands of a binary operation have one dtype.
        sources = pattern.src if op in BINARY_OPS else pattern.src[:1]
        return all(_has_kind(source.kinds, source_kind) for source in sources)


def _allows(pattern: Pattern, op: Op | None) -> bool:
    return pattern.ops is None or op in pattern.ops


def _has_kind(kinds: frozenset[str] | None, kind: str | None) -> bool:
    return kinds is None or kind in kinds


class _Matcher:
    """Writes the body of one alternative of a pattern as nested conditions."""

    def __init__(self, constants: dict[str, Any]) -> None:
        self.constants = constants
        self.lines: list[str] = []
        self.bound: dict[str, str] = {}
        self.temporaries = 0

    def constant(self, value: Any) -> str:
        name = f"k{len(self.constants)}"
        self.constants[name] = value
        return name

    def require(self, condition: str) -> None:
        self.lines.append(f"if not ({condition}): break")

    def visit(self, pattern: Pattern, at: str, orders: Iterator[bool]) -> None:
        if pattern.ops is not None:
            if len(pattern.ops) == 1:
                self.require(f"{at}.op is {self.constant(next(iter(pattern.ops)))}")
            else:
                self.require(f"{at}.op in {self.constant(pattern.ops)}")
        if pattern.kinds is not None:
            self.require(f"{at}.dtype.kind in {self.constant(pattern.kinds)}")
        if pattern.literal is not None:
            self.require(f"literal_matches({at}, {self.constant(pattern.literal)})")
        if pattern.arg is not None:
            self.require(f"{at}.arg == {self.constant(pattern.arg)}")
        if pattern.name is not None:
            if pattern.name in self.bound:
                self.require(f"{at} is {self.bound[pattern.name]}")
            else:
                self.bound[pattern.name] = at
        if pattern.src is not None:
            self._sources(pattern, at, orders)

    def _sources(self, pattern: Pattern, at: str, orders: Iterator[bool]) -> None:
        assert pattern.src is not None
        compare = ">=" if pattern.rest else "=="
        self.require(f"len({at}.src) {compare} {len(pattern.src)}")
        positions = range(len(pattern.src))
        if is_commutative(pattern) and next(orders):
            positions = range(len(pattern.src) - 1, -1, -1)
        for position, source in zip(positions, pattern.src, strict=True):
            name = f"s{self.temporaries}"
            self.temporaries += 1
            self.lines.append(f"{name} = {at}.src[{position}]")
            self.visit(source, name, orders)


def is_commutative(pattern: Pattern) -> bool:
    """Whether both orders of a pattern's two sources are tried."""
    return (
        pattern.ops is not None
        and pattern.ops <= COMMUTATIVE
        and pattern.src is not None
        and len(pattern.src) == 2
        and pattern.src[0] is not pattern.src[1]
    )


def _commutative_count(pattern: Pattern) -> int:
    """Number of commutative nodes of a pattern; patterns are a few levels deep."""
    return is_commutative(pattern) + sum(map(_commutative_count, pattern.src or ()))


def _compile(rule: Rule) -> Callable[[UOp, Any], UOp | None]:
    """A function (node, context) → replacement or None that tries every order of the pattern."""
    constants: dict[str, Any] = {"literal_matches": literal_matches}
    parameters = list(inspect.signature(rule.replacement).parameters)
    conditions = list(inspect.signature(rule.when).parameters) if rule.when else []
    constants["replacement"], constants["when"] = rule.replacement, rule.when
    body: list[str] = []
    for orders in product((False, True), repeat=_commutative_count(rule.pattern)):
        matcher = _Matcher(constants)
        if rule.unbounded:
            matcher.require("found.dtype.kind == 'weak_int' or found.dtype.kind == 'bool'")
        if rule.kinds is not None:
            matcher.require(f"found.dtype.kind in {matcher.constant(rule.kinds)}")
        matcher.visit(rule.pattern, "found", iter(orders))
        names = {"context": "context", **matcher.bound}
        if rule.when is not None:
            matcher.require(f"when({', '.join(f'{p}={names[p]}' for p in conditions)})")
        call = f"replacement({', '.join(f'{p}={names[p]}' for p in parameters)})"
        body += ["while True:", *(f"    {line}" for line in matcher.lines),
                 f"    result = {call}", "    if result is not None: return result", "    break"]
    source = "def match(found, context):\n" + "\n".join(f"    {line}" for line in body)
    exec(compile(source, f"<rule {rule.name}>", "exec"), constants)  # noqa: S102 - our own text
    match: Callable[[UOp, Any], UOp | None] = constants["match"]
    return match


