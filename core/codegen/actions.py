"""The schedule language: loop actions, each a before → after transformation of a kernel.

Actions compose left to right and replay from text:

    SPLIT(1, 8, LANE, CLAMP) RETYPE(0, THREAD)

Axes are named by the number of their RANGE. New ranges take the next free numbers, so a text
replays exactly. What an action cannot do safely it refuses with `ActionError`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from core.codegen.loop_nest import LoopNest, is_expanded, replace_range, trip_count
from core.foundation.errors import CompileError
from core.ir import (
    AddressSpace,
    AxisType,
    Op,
    UOp,
    map_graph,
    neutral_element,
    open_ranges,
    storage_of,
    substitute,
    toposort,
)
from core.simplify import simplify


class ActionError(CompileError):
    """An action that this kernel does not allow; the message says why."""


class Tail(Enum):
    """What happens to iterations that a split leaves over."""

    EXACT = "EXACT"
    CLAMP = "CLAMP"
    MASK = "MASK"


@dataclass(frozen=True)
class Split:
    """Split a loop into an outer and an inner one; the inner gets a type.

    r of n  →  o of n / factor, i of factor: r = o * factor + i

    CLAMP lets the last tile overlap the one before (o * factor → min(o * factor, n - factor)):
    only for loops that store and do not accumulate. MASK gates loads and stores by r < n and
    gives a reduction its neutral element.
    """

    axis: int
    factor: int
    kind: AxisType
    tail: Tail = Tail.EXACT

    def __str__(self) -> str:
        return f"SPLIT({self.axis}, {self.factor}, {self.kind.name}, {self.tail.name})"

    def apply(self, sink: UOp) -> UOp:
        """The kernel with the loop split."""
        nest = LoopNest(sink)
        loop = find_range(nest, self.axis)
        extent = trip_count(loop)
        if extent is None and self.tail is not Tail.MASK:
            raise ActionError(f"{self}: the loop's extent is symbolic; only MASK may split it")
        if self.factor < 1 or (extent is not None and self.factor > extent
                               and self.tail is not Tail.MASK):
            raise ActionError(f"{self}: a factor of {self.factor} for {extent} iterations")
        inner = UOp.range(self.factor, nest.next_number, self.kind)
        return one_lane_loop(self, self._split(nest, loop, extent, inner))

    def _split(self, nest: LoopNest, loop: UOp, extent: int | None, inner: UOp) -> UOp:
        sink = nest.sink
        if self.tail is Tail.EXACT or (extent is not None and extent % self.factor == 0):
            if extent is None or extent % self.factor:
                raise ActionError(f"{self}: {self.factor} does not divide {extent}")
            return self._exact(sink, loop, extent, inner, nest.next_number + 1)
        if self.tail is Tail.CLAMP:
            return self._clamp(nest, loop, int(extent or 0), inner)
        return self._mask(sink, loop, inner, nest.next_number + 1)

    def _outer(self, bound: Any, number: int, loop: UOp) -> UOp:
        return UOp.range(bound, number, loop.arg.axis_type)

    def _exact(self, sink: UOp, loop: UOp, extent: int, inner: UOp, number: int) -> UOp:
        if extent == self.factor:
            return simplify(replace_range(sink, loop, inner, (inner,)))
        outer = self._outer(extent // self.factor, number, loop)
        value = outer * self.factor + inner
        return simplify(replace_range(sink, loop, value, (outer, inner)))

    def _clamp(self, nest: LoopNest, loop: UOp, extent: int, inner: UOp) -> UOp:
        if loop not in nest.output_ranges:
            raise ActionError(f"{self}: the loop accumulates; an overlap would be added twice")
        if any(reads_storage(nest, storage_of(n.src[0])) for n in nest.stores):
            raise ActionError(f"{self}: the kernel reads what it writes; an overlap would be "
                              "written twice")
        outer = self._outer(-(-extent // self.factor), nest.next_number + 1, loop)
        start = (outer * self.factor).minimum(extent - self.factor)
        return simplify(replace_range(nest.sink, loop, start + inner, (outer, inner)))

    def _mask(self, sink: UOp, loop: UOp, inner: UOp, number: int) -> UOp:
        bound = loop.src[0]
        count = trip_count(loop)
        tiles = (bound + (self.factor - 1)) // self.factor if count is None else (
            -(-count // self.factor))
        outer = self._outer(tiles, number, loop)
        value = outer * self.factor + inner
        inside = value < bound

        def visit(node: UOp, original: UOp) -> UOp:
            if original.op in (Op.LOAD, Op.STORE) and loop in open_ranges(original.src[0]):
                place = node.src[0]
                gated = place.replace(src=(place.src[0], place.src[1].valid(inside)))
                return node.replace(src=(gated, *node.src[1:]))
            if original.op is Op.INDEX and original.src[0].op is Op.STAGE and any(
                    loop in open_ranges(i) for i in original.src[1:]):
                return node.replace(src=(node.src[0], node.src[1].valid(inside), *node.src[2:]))
            if original.op is Op.REDUCE and loop in original.src[1:]:
                empty = node.src[0].const_like(
                    neutral_element(node.arg.op, node.dtype))
                masked = inside.where(node.src[0], empty)
                return node.replace(src=(masked, *node.src[1:]))
            return node

        marked = map_graph(sink, visit)
        return simplify(replace_range(marked, loop, value, (outer, inner)))


@dataclass(frozen=True)
class Retype:
    """Give a loop another type: RANGE(n; k, LOOP) → RANGE(n; k, THREAD).

    Threads get equal shares of the items; with `dynamic` each takes the next item when it is free.
    """

    axis: int
    kind: AxisType
    dynamic: bool = False

    def __str__(self) -> str:
        return f"RETYPE({self.axis}, {self.kind.name}{', DYNAMIC' if self.dynamic else ''})"

    def apply(self, sink: UOp) -> UOp:
        """The kernel with the loop retyped."""
        nest = LoopNest(sink)
        loop = find_range(nest, self.axis)
        if self.dynamic:
            if self.kind is not AxisType.THREAD:
                raise ActionError(f"{self}: only items of threads are taken dynamically")
            sink = sink.replace(arg=sink.arg._replace(dynamic=True))
        if self.kind is AxisType.THREAD:
            if nest.output_ranges[:1] != (loop,):
                raise ActionError(f"{self}: only the outermost output loop is given to threads")
        elif (self.kind in (AxisType.UPCAST, AxisType.LANE, AxisType.UNROLL)
                and trip_count(loop) is None):
            raise ActionError(f"{self}: the loop's extent is symbolic")
        fresh = UOp.range(loop.src[0], loop.arg.id, self.kind)
        return one_lane_loop(self, replace_range(sink, loop, fresh, (fresh,)))


@dataclass(frozen=True)
class Order:
    """Order the output loops: any order gives the same stores."""

    axes: tuple[int, ...]

    def __str__(self) -> str:
        return f"ORDER({', '.join(map(str, self.axes))})"

    def apply(self, sink: UOp) -> UOp:
        """The kernel with the loops round its stores reordered."""
        nest = LoopNest(sink)
        if sorted(self.axes) != sorted(r.arg.id for r in nest.output_ranges):
            raise ActionError(f"{self}: the output loops are "
                              f"{[r.arg.id for r in nest.output_ranges]}")
        loops = tuple(find_range(nest, a) for a in self.axes)

        def visit(node: UOp, original: UOp) -> UOp:
            if original.op is Op.END and set(original.src[1:]) == set(loops):
                return node.replace(src=(node.src[0], *loops))
            return node

        return map_graph(sink, visit)


@dataclass(frozen=True)
class Merge:
    """Make one loop of two neighbours: a of m, b of n → r of m * n, a = r // n, b = r % n."""

    outer: int
    inner: int

    def __str__(self) -> str:
        return f"MERGE({self.outer}, {self.inner})"

    def apply(self, sink: UOp) -> UOp:
        """The kernel with two neighbouring loops merged."""
        nest = LoopNest(sink)
        a, b = find_range(nest, self.outer), find_range(nest, self.inner)
        m, n = trip_count(a), trip_count(b)
        if m is None or n is None or a.arg.axis_type is not b.arg.axis_type:
            raise ActionError(f"{self}: loops of one type and known extent are merged")
        merged = UOp.range(m * n, nest.next_number, a.arg.axis_type)

        # By hand, not by map_graph: a STAGE loses a dimension together with the INDEX of it.
        done = {a: merged // n, b: merged % n}
        for node in toposort(sink):
            if node in done:
                continue
            src = tuple(done[s] for s in node.src)
            if node.op in (Op.END, Op.REDUCE, Op.STAGE) and a in node.src:
                at = node.src.index(a)
                if node.src[at:at + 2] != (a, b):
                    raise ActionError(f"{self}: the loops are not neighbours")
                src = (*src[:at], merged, *src[at + 2:])
            elif node.op is Op.INDEX and node.src[0].op is Op.STAGE and a in node.src[0].src:
                at = node.src[0].src.index(a)
                src = (*src[:at], src[at] * n + src[at + 1], *src[at + 2:])
            done[node] = node if src == node.src else node.replace(src=src)
        return simplify(done[sink])


@dataclass(frozen=True)
class Stage:
    """Copy a tile of an operand into LOCAL memory, where the loops named by `axes` begin.

    LOAD(b[f(o, i)])  →  INDEX(STAGE(LOAD(b[f(o, i')]), i'; LOCAL), i)

    The whole expression of the load goes along: gates, shifts, transposes. The fill runs once for
    each point of the other loops of the index; `axes` are the layout, outermost first.
    """

    load: int
    axes: tuple[int, ...]

    def __str__(self) -> str:
        return f"STAGE({', '.join(map(str, (self.load, *self.axes)))})"

    def apply(self, sink: UOp) -> UOp:
        """The kernel that reads the operand from scratch."""
        nest = LoopNest(sink)
        if self.load >= len(nest.loads):
            raise ActionError(f"{self}: the kernel has {len(nest.loads)} loads")
        load = nest.loads[self.load]
        ranges = [find_range(nest, a) for a in self.axes]
        if not ranges or not open_ranges(load).issuperset(ranges):
            raise ActionError(f"{self}: a tile is of loops that the load depends on")
        outside = open_ranges(load) - set(ranges)
        inner = {r for n in nest.stages for r in n.src[1:]}
        if any(is_expanded(r) or r in inner for r in outside):
            raise ActionError(f"{self}: the tile must hold every loop of the load but outer ones")
        fresh = {}
        for k, r in enumerate(ranges):
            kind = r.arg.axis_type if is_expanded(r) else AxisType.LOOP
            fresh[r] = UOp.range(r.src[0], nest.next_number + k, kind)
        tile = substitute(load, fresh).stage(*fresh.values(), space=AddressSpace.LOCAL)
        return map_graph(sink, lambda node, original: node, {load: tile.index(*ranges)})


@dataclass(frozen=True)
class Stream:
    """Write results past the caches: STORE(p, v) → STORE(p, v; "stream").

    For storage that nothing here reads and whose lines are written whole, soon after each other.
    """

    store: int

    def __str__(self) -> str:
        return f"STREAM({self.store})"

    def apply(self, sink: UOp) -> UOp:
        """The kernel with one store hinted."""
        nest = LoopNest(sink)
        if self.store >= len(nest.stores):
            raise ActionError(f"{self}: the kernel has {len(nest.stores)} stores")
        store = nest.stores[self.store]
        storage = storage_of(store.src[0])
        if store.arg is not None or reads_storage(nest, storage):
            raise ActionError(f"{self}: the store is ordered, or the kernel reads what it writes")
        return map_graph(sink, lambda node, original: (
            node.replace(arg="stream") if original is store else node))


Action = Split | Retype | Order | Merge | Stage | Stream
_ACTION: Final = re.compile(r"(\w+)\(([^()]*)\)\s*")
_DYNAMIC: Final[dict[tuple[str, ...], bool]] = {(): False, ("DYNAMIC",): True}
_MADE: Final[dict[str, Callable[..., Action]]] = {
    "SPLIT": lambda axis, factor, kind, tail: Split(
        int(axis), int(factor), AxisType[kind], Tail[tail]),
    "RETYPE": lambda axis, kind, *how: Retype(int(axis), AxisType[kind], _DYNAMIC[how]),
    "ORDER": lambda *axes: Order(tuple(map(int, axes))),
    "MERGE": lambda outer, inner: Merge(int(outer), int(inner)),
    "STAGE": lambda load, *axes: Stage(int(load), tuple(map(int, axes))),
    "STREAM": lambda store: Stream(int(store)),
}


def parse_actions(source: str) -> list[Action]:
    """Actions of a text such as "SPLIT(1, 8, LANE, CLAMP) RETYPE(0, THREAD)".

    Raises:
        ValueError: The text holds an unknown action, or is malformed.
    """
    result: list[Action] = []
    position = 0
    while found := _ACTION.match(source, position):
        name, inner = found.groups()
        if name not in _MADE:
            raise ValueError(f"unknown loop action {name!r}")
        try:
            result.append(_MADE[name](*(p.strip() for p in inner.split(",") if p.strip())))
        except (KeyError, TypeError, ValueError):
            raise ValueError(f"malformed loop action {found[0]!r}") from None
        position = found.end()
    if position < len(source):
        raise ValueError(f"malformed loop actions: {source[position:]!r}")
    return result


def reads_storage(nest: LoopNest, storage: UOp) -> bool:
    """Whether a kernel loads from some storage."""
    return any(storage_of(n.src[0]) is storage for n in nest.loads)


def find_range(nest: LoopNest, number: int) -> UOp:
    """The RANGE with a number.

    Raises:
        ActionError: The kernel has no such loop.
    """
    for node in nest.order:
        if node.op is Op.RANGE and node.arg.id == number:
            return node
    raise ActionError(f"the kernel has no loop {number}")


def one_lane_loop(action: Split | Retype, sink: UOp) -> UOp:
    """The kernel, if no statement of it has two LANE loops.

    Raises:
        ActionError: One has: a vector has one axis.
    """
    if action.kind is AxisType.LANE:
        for node in toposort(sink):
            if node.op in (Op.END, Op.REDUCE, Op.STAGE):
                loops = open_ranges(node.src[0]) | set(node.src[1:])
                if sum(r.arg.axis_type is AxisType.LANE for r in loops) > 1:
                    raise ActionError(f"{action}: another loop here has the lanes already")
    return sink


def apply_actions(sink: UOp, actions: list[Action]) -> UOp:
    """Apply actions left to right and remember them as text in the SINK's info."""
    for action in actions:
        sink = action.apply(sink)
    done = tuple(map(str, actions))
    return sink.replace(arg=sink.arg._replace(actions=(*(sink.arg.actions or ()), *done)))

