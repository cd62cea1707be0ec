"""scatter-updates: a reduction that asks each update whether it belongs here goes to where it does.

    out[p, j] = sum_u where(i[u] == p, x[u, j], 0)          updates x places
    → out[p, j] = 0                        for p, j
      out[i[u], j] = out[i[u], j] + x[u, j]   for u, j       updates

Updates come one after the other, so that sums have one order and of several values with rising
numbers the last one wins; an index that is out of range updates nothing.
"""

from __future__ import annotations

from itertools import count
from typing import NamedTuple

from core.ir import (
    AxisType,
    Op,
    UOp,
    dtypes,
    open_ranges,
    storage_of,
    substitute,
    toposort,
)
from core.simplify import conjuncts, simplify

_REDUCTIONS = frozenset({Op.ADD, Op.MAX})


class _Scatter(NamedTuple):
    """The parts of a kernel that the pass rewrites.

    Attributes:
        end: END(STORE(place, REDUCE), loops...).
        reduce: The reduction.
        places: For a loop over places, the index that says which one an update is for.
        gate: What else has to hold for an update; None if nothing.
    """

    end: UOp
    reduce: UOp
    places: dict[UOp, UOp]
    gate: UOp | None


def scatter_updates(sink: UOp) -> UOp:
    """Rewrite a kernel that is one such reduction; any other stays as it is."""
    found = _scatter_of(sink)
    if found is None:
        return sink
    end, reduce, places, gate = found
    store, loops = end.src[0], end.src[1:]
    storage, position = store.src[0].src
    numbers = count(1 + max(n.arg.id for n in toposort(sink) if n.op is Op.RANGE))

    def fresh(ranges: tuple[UOp, ...]) -> dict[UOp, UOp]:
        return {r: UOp.range(r.src[0], next(numbers), AxisType.LOOP) for r in ranges}

    _, update, start = reduce.src[0].src
    filled = fresh(loops)
    fill = storage.index(substitute(position, filled)).store(start).end(*filled.values())
    updates, others = fresh(reduce.src[1:]), fresh(tuple(r for r in loops if r not in places))
    moved = {**updates, **others}
    index = {r: substitute(i, moved).cast(dtypes.weak_int) for r, i in places.items()}
    inside = None if gate is None else substitute(gate, moved)
    for r, i in index.items():
        held = (i >= 0) & (i < r.src[0])
        inside = held if inside is None else inside & held
    assert inside is not None
    where = simplify(substitute(position, {**moved, **index})).valid(inside)
    place = storage.after(fill, *updates.values(), *others.values()).index(where)
    new = place.load().alu(reduce.arg.op, substitute(update, moved))
    effect = place.store(new).end(*updates.values(), *others.values())
    # No loop actions: updates depend on each other through storage.
    return sink.replace(src=(effect,), arg=sink.arg._replace(actions=()))


def _scatter_of(sink: UOp) -> _Scatter | None:
    end = sink.src[0]
    if len(sink.src) != 1 or end.op is not Op.END or end.src[0].op is not Op.STORE:
        return None
    place, value = end.src[0].src[:2]
    if place.op is not Op.INDEX or place.src[1].op is Op.WHERE or value.op is not Op.REDUCE:
        return None
    chosen = value.src[0]
    if value.arg.op not in _REDUCTIONS or chosen.op is not Op.WHERE or len(value.src) < 2 \
            or chosen.src[2].op is not Op.CONST:
        return None
    if value.arg.op is Op.ADD and chosen.src[2] is not chosen.src[2].const_like(0):
        return None
    outputs = frozenset(end.src[1:])
    places: dict[UOp, UOp] = {}
    gate: UOp | None = None
    for condition in conjuncts(chosen.src[0]):
        found = _place_of(condition, outputs)
        if found is not None and found[0] not in places:
            places[found[0]] = found[1]
        else:
            gate = condition if gate is None else gate & condition
    depends = [chosen.src[1], *places.values(), *([] if gate is None else [gate])]
    if not places or any(not places.keys().isdisjoint(open_ranges(d)) for d in depends):
        return None
    if any(storage_of(n.src[0]) is place.src[0] for n in toposort(value) if n.op is Op.LOAD):
        return None
    return _Scatter(end, value, places, gate)


def _place_of(condition: UOp, outputs: frozenset[UOp]) -> tuple[UOp, UOp] | None:
    """(loop, index) of a condition index == loop."""
    if condition.op is not Op.CMPEQ or not condition.src[0].dtype.is_integer:
        return None
    for counter, index in (condition.src, reversed(condition.src)):
        loop = counter
        while loop.op is Op.CAST:
            loop = loop.src[0]
        if loop in outputs and loop not in open_ranges(index):
            return loop, index
    return None
