"""Executes a program: a LINEAR, item by item, in the order that it says.

A loop whose positions cannot see each other runs at once (or in blocks), as an axis of the
arrays: its stores go to places that depend on it, it does not read what it writes, and private
storage used in it is used nowhere else. Any other loop runs position by position.

What an item computes is forgotten when the loop round it goes on: a value that is used before its
turn, or behind the loop it belongs to, is an error, as is an AFTER before its effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from core.foundation.errors import VerificationError
from core.ir import AddressSpace, Op, UOp, bounds, open_ranges, storage_of, toposort
from core.reference.formats import HELD, Array
from core.reference.kernel import LARGEST_ARRAY
from core.reference.machine import Machine
from core.reference.values import Axes, AxisOrder, Value

# They may stand in a LINEAR or not: they order, name or describe.
_PARTS: Final = frozenset({
    Op.CONST, Op.STACK, Op.AFTER, Op.GROUP, Op.PARAM, Op.BUFFER, Op.SINK,
})


class Loop(NamedTuple):
    """A RANGE of a LINEAR and the items round which it goes.

    Attributes:
        first: Position of the RANGE.
        last: Position of its END; the number of items where there is none.
        block: Positions that run at once; 0 for a sequential loop.
    """

    first: int
    last: int
    block: int


class _Open(NamedTuple):
    """A loop that is running: the positions [start, ...) of `trips`."""

    node: UOp
    start: int
    trips: int


def _is_private(storage: UOp) -> bool:
    return storage.op is Op.BUFFER and storage.arg.space is not AddressSpace.GLOBAL


class Accesses:
    """Positions of loads and stores by storage."""

    def __init__(self, items: Sequence[UOp]) -> None:
        self.loads: dict[UOp, list[int]] = {}
        self.stores: dict[UOp, list[int]] = {}
        for position, item in enumerate(items):
            if item.op is Op.LOAD:
                self.loads.setdefault(storage_of(item.src[0]), []).append(position)
            elif item.op in (Op.STORE, Op.ATOMIC_ADD):
                self.stores.setdefault(storage_of(item.src[0]), []).append(position)

    def are_inside(self, storage: UOp, first: int, last: int) -> bool:
        """Whether all accesses to some storage lie between two positions."""
        places = [*self.loads.get(storage, ()), *self.stores.get(storage, ())]
        return all(first < p < last for p in places)


def _runs_at_once(
    loop: UOp, first: int, last: int, items: Sequence[UOp], accesses: Accesses
) -> bool:
    """Whether the positions of a loop cannot see each other."""
    for storage, positions in accesses.stores.items():
        inside = [items[p] for p in positions if first < p < last]
        if not inside:
            continue
        if _is_private(storage) and accesses.are_inside(storage, first, last):
            continue
        places = {s.src[0] for s in inside}
        if any(loop not in _index_ranges(place) for place in places):
            return False
        read = {items[p].src[0] for p in accesses.loads.get(storage, ()) if first < p < last}
        # One place, read and written, belongs to one position alone.
        if read and (len(read | places) > 1 or _is_private(storage)):
            return False
    return True


def _index_ranges(place: UOp) -> frozenset[UOp]:
    """Loops on which the index of a place depends, apart from its storage."""
    sources = place.src[1:] if place.op in (Op.INDEX, Op.SHRINK) else ()
    return frozenset[UOp]().union(*map(open_ranges, sources))


def find_loops(items: Sequence[UOp], accesses: Accesses) -> dict[UOp, Loop]:
    """The loops of a LINEAR, and how many positions of each run at once.

    Raises:
        VerificationError: Loops cross, or an END closes what is not open.
    """
    spans: dict[UOp, tuple[int, int]] = {}
    opened: list[tuple[UOp, int]] = []
    for position, item in enumerate(items):
        if item.op is Op.RANGE:
            opened.append((item, position))
        elif item.op is Op.END:
            if not opened or opened[-1][0] is not item.src[1]:
                raise VerificationError(f"item {position} closes a loop that is not the inner one")
            loop, first = opened.pop()
            spans[loop] = first, position
    for loop, first in opened:  # indices of a launch: open to the end
        spans[loop] = first, len(items)
    at_once: dict[UOp, int] = {}
    result: dict[UOp, Loop] = {}
    for loop, (first, last) in sorted(spans.items(), key=lambda s: s[1][0] - s[1][1], reverse=True):
        inner = max((n for r, n in at_once.items() if first < spans[r][0] < last), default=_widest(
            items[first:last]))
        launch = last == len(items)
        block = 0
        if launch or _runs_at_once(loop, first, last, items, accesses):
            trips = max(1, int(bounds(loop.src[0])[1]))
            block = trips if launch else min(trips, max(1, LARGEST_ARRAY // inner))
        at_once[loop] = inner * max(block, 1)
        result[loop] = Loop(first, last, block)
    return result


def _widest(items: Sequence[UOp]) -> int:
    """Lanes of the widest vector."""
    return max((n.shape[0] for n in items if len(n.shape) == 1 and n.op not in (
        Op.PARAM, Op.BUFFER)), default=1)


class ProgramMachine(Machine):
    """Runs one LINEAR."""

    def __init__(self, linear: UOp, buffers: Sequence[Array], scalars: Sequence[Any]) -> None:
        self.items = linear.src
        self.turn = {n: k for k, n in enumerate(self.items)}
        self.accesses = Accesses(self.items)
        self.loops = find_loops(self.items, self.accesses)
        super().__init__(linear, buffers, scalars, AxisOrder(self.loops_in_order()))
        self.running: list[_Open] = []

    def loops_in_order(self) -> list[UOp]:
        """The loops, outer ones first."""
        return sorted(self.loops, key=lambda r: self.loops[r].first)

    def loops_around(self, buffer: UOp) -> Axes:
        """The loops that run at once and hold all accesses to it."""
        return tuple(
            r for r, loop in self.loops.items()
            if loop.block and self.accesses.are_inside(buffer, loop.first, loop.last))

    def run(self) -> None:
        """Run the program once."""
        position = 0
        while position < len(self.items):
            item = self.items[position]
            if item.op is Op.RANGE:
                position = self._enter(item)
            elif item.op is Op.END:
                position = self._leave(position)
            elif item.op is Op.IF:
                self._prepare(item)
                self.conditions.append(self.value(item.src[0]))
                position += 1
            else:
                if item.op is Op.ENDIF:
                    self.conditions.pop()
                self._prepare(item)
                self.execute(item)
                position += 1

    def _prepare(self, item: UOp) -> None:
        """See that every source is there; parts that are no items are computed now."""
        def missing(node: UOp) -> bool:
            return node not in self.memo and (
                node is item or node.op in _PARTS or node not in self.turn)

        for node in toposort(item, enter=missing):
            if node is item or node in self.memo:
                continue
            if node in self.turn and node.op not in _PARTS:
                raise VerificationError(
                    f"item {self.turn[item]}, {item!r}, uses {node!r} of item {self.turn[node]}, "
                    f"which has not been computed at this place")
            if node.op not in _PARTS and node.op not in (Op.INDEX, Op.SHRINK, Op.BITCAST):
                raise VerificationError(f"{item!r} uses {node!r}, which is no item")
            self.execute(node)

    def _enter(self, node: UOp) -> int:
        """Open a loop at its first position; behind it if it has none."""
        self._prepare(node)
        trips = int(self.value(node.src[0]).array)
        loop = self.loops[node]
        if trips <= 0:
            for item in self.items[loop.first:loop.last + 1]:
                self.memo[item] = None
            return loop.last + 1
        self.running.append(_Open(node, 0, trips))
        self._set(node, 0, trips)
        return loop.first + 1

    def _set(self, node: UOp, start: int, trips: int) -> None:
        block = self.loops[node].block
        if block:
            self.forget_copies((node,))
            self.memo[node] = self.context.loop(node, start, min(start + block, trips))
        else:
            self.memo[node] = Value(np.asarray(start).astype(HELD[node.dtype]))

    def _leave(self, position: int) -> int:
        """Go on with the next position of the inner loop, or go on behind it."""
        end = self.items[position]
        for source in end.src[:1]:
            if source in self.turn and source not in self.memo:
                raise VerificationError(f"item {position} ends a loop before its effect")
        node, start, trips = self.running.pop()
        loop = self.loops[node]
        self._forget(loop)
        following = start + max(loop.block, 1)
        if following < trips:
            self.running.append(_Open(node, following, trips))
            self._set(node, following, trips)
            return loop.first + 1
        self.context.lengths.pop(node, None)
        self.memo.pop(node, None)
        self.memo[end] = None
        return position + 1

    def _forget(self, loop: Loop) -> None:
        """Forget what depends on a loop, and all items in it."""
        for item in self.items[loop.first + 1:loop.last]:
            self.memo.pop(item, None)
        node = self.items[loop.first]
        for key in [k for k in self.memo if k.op in _PARTS or k.op in (Op.INDEX, Op.SHRINK)]:
            if key not in self.turn and node in open_ranges(key):
                del self.memo[key]
