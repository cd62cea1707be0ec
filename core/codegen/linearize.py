"""linearize: a kernel's graph becomes a list in which loops open and close.

Each END closes its loops; the loops form a tree, and a node belongs to the innermost loop that it
depends on: what depends on few loops is hoisted by construction. Within a loop body items are in
topological order, early nodes of the graph first.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count as count_from
from typing import Final

from core.ir import Op, UOp, map_graph, open_ranges, toposort

# They order, name or describe, and print nothing: sources of places, and roots.
_SILENT: Final = frozenset({Op.GROUP, Op.SINK, Op.AFTER})


def single_ends(sink: UOp) -> UOp:
    """END(e, a, b) → END(END(e, b), a): each END closes one loop."""

    def visit(node: UOp, original: UOp) -> UOp:
        if node.op is Op.END and len(node.src) > 2:
            effect = node.src[0]
            for loop in reversed(node.src[1:]):
                effect = effect.end(loop)
            return effect
        return node

    return map_graph(sink, visit)


def own_ranges(sink: UOp) -> UOp:
    """A RANGE that several ENDs close becomes one for each of them: each is a loop of its own."""
    order = toposort(sink)
    closed: dict[UOp, int] = {}
    for node in order:
        if node.op is Op.END:
            closed[node.src[1]] = closed.get(node.src[1], 0) + 1
    if all(count == 1 for count in closed.values()):
        return sink
    numbers = count_from(1 + max(r.arg.id for r in closed))

    def visit(node: UOp, original: UOp) -> UOp:
        if node.op is not Op.END or closed[loop := node.src[1]] == 1:
            return node
        fresh = loop.replace(arg=loop.arg._replace(id=next(numbers)))
        return node.replace(src=(_with_range(node.src[0], loop, fresh), fresh))

    return map_graph(sink, visit)


def _with_range(effect: UOp, loop: UOp, fresh: UOp) -> UOp:
    """An effect with an open RANGE replaced; other loops over it, closed already, stay."""
    done = {loop: fresh}
    for node in toposort(effect, enter=lambda n: loop in open_ranges(n)):
        if node not in done:
            done[node] = node if loop not in open_ranges(node) else node.replace(
                src=tuple(done[s] for s in node.src))
    return done[effect]


class _LoopTree:
    """Which loop is inside which, and to which each node belongs."""

    def __init__(self, order: list[UOp]) -> None:
        self.end_of = {n.src[1]: n for n in order if n.op is Op.END}
        # Loops are as deep as what they depend on, not as many as those: outer ENDs come last.
        self.depth: dict[UOp, int] = {}
        for loop, end in reversed(self.end_of.items()):
            around = [self.depth[r] for r in open_ranges(end) if r in self.end_of]
            self.depth[loop] = 1 + max(around, default=-1)

    def innermost(self, node: UOp) -> UOp | None:
        """The loop in whose body a node stands; for an END the loop round it."""
        opened = [r for r in open_ranges(node) if r in self.depth]
        return max(opened, key=self.depth.__getitem__, default=None)

    def parent(self, loop: UOp) -> UOp | None:
        """The loop round a loop."""
        return self.innermost(self.end_of[loop])


def linearize(sink: UOp) -> UOp:
    """LINEAR of a kernel in which every END closes one or more loops."""
    order = toposort(own_ranges(single_ends(sink)))
    tree = _LoopTree(order)
    position = {n: k for k, n in enumerate(order)}
    block = {n: tree.innermost(n) for n in order if n.op is not Op.RANGE}
    items: dict[UOp | None, dict[UOp, set[UOp]]] = {None: {}}
    for loop in tree.end_of:
        items[loop] = {}
    for node in order:
        if node.op is not Op.RANGE:
            items[block[node]].setdefault(node, set())
    for node in order:
        if node.op is Op.RANGE:
            # A bound is ready before the loop's item starts.
            if node in tree.end_of:
                _depend(tree.end_of[node], node.src[0], block, tree, items)
            continue
        for source in node.src:
            if source.op is not Op.RANGE:
                _depend(node, source, block, tree, items)
    return UOp(Op.LINEAR, tuple(_emit(items, tree, position)))


def _depend(
    node: UOp, source: UOp, block: dict[UOp, UOp | None], tree: _LoopTree,
    items: dict[UOp | None, dict[UOp, set[UOp]]],
) -> None:
    """Record that `node`, or the loop round it beside `source`, comes after `source`.

    A node inside a loop that its END names as effect is inside of that END's own item.
    """
    goal = block[source]
    item = node
    here = block[node]
    if node.op is Op.END and goal is node.src[1]:
        return
    while here is not goal:
        if here is None:
            return
        item = tree.end_of[here]
        here = block[item]
    if item is not source:
        items[goal][item].add(source)


def _emit(
    items: dict[UOp | None, dict[UOp, set[UOp]]], tree: _LoopTree, position: dict[UOp, int]
) -> list[UOp]:
    result: list[UOp] = []
    stack: list[UOp | tuple[UOp, list[UOp]]] = list(reversed(_sorted(items[None], position)))
    while stack:
        node = stack.pop()
        if isinstance(node, tuple):
            result.append(node[0])
        elif node.op is Op.END:
            loop = node.src[1]
            result.append(loop)
            stack.append((node, []))
            stack.extend(reversed(_sorted(items[loop], position)))
        else:
            result.append(node)
    values = {s for n in result for s in _value_sources(n)}
    return [n for n in result if n.op not in _SILENT and (n in values or n.op not in _PARTS)]


# Constants and vectors that only say a shape or an offset are no items.
_PARTS: Final = frozenset({Op.STACK, Op.CONST})


def _value_sources(node: UOp) -> tuple[UOp, ...]:
    """Sources that are read as values: not shapes; of a SHRINK the offsets themselves."""
    if node.op in (Op.PARAM, Op.BUFFER):
        return ()
    if node.op is Op.SHRINK:
        return (node.src[0], *node.src[1].src)
    return node.src


def _sorted(items: dict[UOp, set[UOp]], position: dict[UOp, int]) -> list[UOp]:
    """Items of one block so that each comes after what it needs, early nodes first."""
    users: dict[UOp, list[UOp]] = {n: [] for n in items}
    missing = {}
    for node, needs in items.items():
        missing[node] = len(needs)
        for need in needs:
            users[need].append(node)
    ready: list[tuple[int, UOp]] = []
    for node, count in missing.items():
        if count == 0:
            heappush(ready, (position[node], node))
    result = []
    while ready:
        _, node = heappop(ready)
        result.append(node)
        for user in users[node]:
            missing[user] -= 1
            if missing[user] == 0:
                heappush(ready, (position[user], user))
    assert len(result) == len(items), "the kernel's loops cannot be ordered"
    return result
