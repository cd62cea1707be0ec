"""The rewriting engine: sources first, then the node until no rule fires; new nodes too."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from core.foundation.errors import RewriteLimitError
from core.foundation.settings import settings
from core.ir.operation import Op
from core.ir.pattern import Rule
from core.ir.text import text
from core.ir.traversal import toposort
from core.ir.uop import UOp

_SMALLEST_FUEL: Final = 20_000
_REMEMBERED: Final = 10


@dataclass
class RewriteCounters:
    """Work done by `rewrite` since the process started; tests hold its growth against linear."""

    visits: int = 0
    rules_tried: int = 0
    rules_fired: int = 0


COUNTERS: Final = RewriteCounters()


class RuleSet:
    """Rules in order, found by (op, op of the first source, op of the last source)."""

    def __init__(self, *parts: Rule | RuleSet | Iterable[Rule]) -> None:
        rules: list[Rule] = []
        for part in parts:
            if isinstance(part, Rule):
                rules.append(part)
            else:
                rules.extend(part)
        self.rules: tuple[Rule, ...] = tuple(dict.fromkeys(rules))
        self._by_op: dict[Op, list[Rule]] = {}
        self._found: dict[tuple[Any, ...], tuple[Rule, ...]] = {}

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def __add__(self, other: RuleSet | Iterable[Rule]) -> RuleSet:
        return RuleSet(self, other)

    def candidates(self, node: UOp) -> tuple[Rule, ...]:
        """Rules that could match a node, by its op, its sources' and the kinds of their dtypes."""
        src = node.src
        key: tuple[Any, ...]
        if src:
            first = src[0]
            key = (node.op, first.op, src[-1].op, node.dtype.kind, first.dtype.kind)
        else:
            key = (node.op, None, None, node.dtype.kind, None)
        found = self._found.get(key)
        if found is None:
            op, first_op, last_op, kind, source_kind = key
            found = self._found[key] = tuple(
                r for r in self.rules
                if r.may_match(op, first_op, last_op)
                and r.may_match_kinds(op, kind, source_kind)
            )
        return found

    def apply(self, node: UOp, context: Any = None) -> UOp | None:
        """The first replacement that differs from the node, or None."""
        for rule in self.candidates(node):
            COUNTERS.rules_tried += 1
            result = rule(node, context)
            if result is not None and result is not node:
                rule.hits += 1
                COUNTERS.rules_fired += 1
                return result
        return None


def rewrite(
    root: UOp, rules: RuleSet, context: Any = None, done: dict[UOp, UOp] | None = None,
    fuel: int | None = None,
) -> UOp:
    """Apply rules to a fixed point.

    Args:
        root: The graph.
        rules: What to apply; the first rule that fires at a node wins.
        context: Handed to replacements that have a parameter of that name.
        done: Results by node, kept between calls by callers that rewrite overlapping graphs.
        fuel: Largest number of firings; by default the setting FUEL for each node of `root`.

    Raises:
        RewriteLimitError: The fuel ran out; the message shows the last ten rewrites.
    """
    result: dict[UOp, UOp] = {} if done is None else done
    waiting: dict[UOp, UOp] = {}
    recent: deque[tuple[UOp, UOp]] = deque(maxlen=_REMEMBERED)
    fired, limit = 0, fuel or _SMALLEST_FUEL
    stack = [root]
    while stack:
        node = stack[-1]
        if node in result:
            stack.pop()
            continue
        ahead = waiting.get(node)
        if ahead is not None and ahead in result:
            result[node] = result[ahead]
            stack.pop()
            continue
        missing = [s for s in node.src if s not in result]
        if missing:
            stack.extend(reversed(missing))
            continue
        COUNTERS.visits += 1
        src = tuple([result[s] for s in node.src])
        rebuilt = node if src == node.src else UOp(node.op, src, node.arg, node.tag)
        if rebuilt is not node:
            after = rebuilt
        else:
            replaced = rules.apply(node, context)
            if replaced is None:
                result[node] = node
                stack.pop()
                continue
            after = replaced
            fired += 1
            recent.append((node, after))
            if fired > limit:
                # Counted only now, and in the graph that was given: endless rules make new nodes.
                limit = limit if fuel else max(limit, settings.FUEL * len(toposort(root)))
                if fired > limit:
                    raise RewriteLimitError(_limit_message(fired, recent))
        waiting[node] = after
        stack.append(after)
    return result[root]


def _limit_message(fired: int, recent: Iterable[tuple[UOp, UOp]]) -> str:
    rows = [f"{_short(a)}\n    → {_short(b)}" for a, b in recent]
    return f"rewriting did not end after {fired} rewrites; the last ones:\n" + "\n".join(rows)


def _short(node: UOp) -> str:
    """Text of a node, cut where the graph below is large."""
    return text(node) if len(toposort(node)) <= 12 else f"{node!r} over {len(toposort(node))} nodes"
