"""lower-launch: GLOBAL and LOCAL loops become launch indices.

    END(STORE(INDEX(out, g * 64 + l), v), g, l)   →   STORE(INDEX(out, "g0" * 64 + "l0"), v)

Every loop is a dimension of the launch where there are at most three and each is within the
device's limit. Otherwise the GLOBAL loops become one flat index, counted by as many dimensions as
it needs; work groups that are left over compute the last point again and store nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Final

from core.codegen.loop_nest import trip_count
from core.foundation.errors import CompileError
from core.ir import AxisType, Op, UOp, map_graph, storage_of, toposort
from core.plugin import Target
from core.simplify import simplify

_DIMENSIONS: Final = 3
Limits = tuple[int, int, int]


def lower_launch(sink: UOp, target: Target) -> UOp:
    """The kernel as one work item sees it; unchanged if it has no launch loops.

    Raises:
        CompileError: The loops do not fit the device's limits.
    """
    groups = _outer_last(sink, AxisType.GLOBAL)
    mapping = launch_items(sink)
    helpers = [n for n in toposort(sink) if n.op is Op.SPECIAL and n.arg == f"l{len(mapping)}"]
    if not groups and not mapping and not helpers:
        return sink
    if target.global_limit is None or target.local_limit is None:
        raise CompileError(f"{target.name} has no launch axes, the kernel has")
    _check_items([*map(_extent, mapping), *(int(n.src[0].value) for n in helpers)], target)
    extents = [_extent(r) for r in groups]
    spans = dimension_extents(extents, target.global_limit)
    inside = helpers[0].eq(0) if helpers else None  # they compute the same again
    if spans == extents:
        mapping |= {r: launch_index(f"g{k}", n) for k, (r, n) in enumerate(zip(
            groups, extents, strict=True))}
    else:
        flat = UOp.const(0)
        for k in reversed(range(len(spans))):
            flat = flat * spans[k] + launch_index(f"g{k}", spans[k])
        total = prod(extents)
        if prod(spans) > total:
            inside = flat < total if inside is None else inside & (flat < total)
            flat = flat.minimum(total - 1)
        for loop, extent in zip(groups, extents, strict=True):
            mapping[loop], flat = flat % extent, flat // extent
    return simplify(_without_loops(sink, mapping, inside))


def dimension_extents(extents: Sequence[int], limits: Limits) -> list[int]:
    """Work groups along each launch dimension, for loops of some extents, the innermost first.

    They are the extents themselves where these fit; else their product is at least the loops'.

    Raises:
        CompileError: More work groups than the device can count.
    """
    if len(extents) <= _DIMENSIONS and all(
            n <= limit for n, limit in zip(extents, limits, strict=False)):
        return list(extents)
    total = prod(extents)
    for part in (_divisor, min):  # as they divide, else full dimensions with some left over
        rest, spans = total, list[int]()
        for limit in limits:
            if rest > 1 or not spans:
                spans.append(part(rest, limit))
                rest = -(-rest // spans[-1])
        if rest == 1:
            return spans
    raise CompileError(f"{total} work groups are more than the device's limits {limits} allow")


def _divisor(count: int, limit: int) -> int:
    """A large divisor of a count within the limit, or the limit if there is none."""
    if count <= limit:
        return count
    return next((d for d in range(limit, limit // 4, -1) if count % d == 0), limit)


def _extent(loop: UOp) -> int:
    count = trip_count(loop)
    if count is None:
        raise CompileError("a launch axis has an extent that is not known")
    return count


def launch_index(name: str, bound: int) -> UOp:
    """Which work group this is along an axis ("g0", ...), or which item of one ("l0", ...)."""
    return UOp(Op.SPECIAL, (UOp.const(bound),), name) if bound > 1 else UOp.const(0)


def _check_items(extents: Sequence[int], target: Target) -> None:
    assert target.local_limit is not None
    if (len(extents) > _DIMENSIONS
            or any(n > m for n, m in zip(extents, target.local_limit, strict=False))
            or prod(extents) > (target.local_total or prod(target.local_limit))):
        raise CompileError(f"a work group of {list(extents)} is more than {target.name} takes")


def launch_items(sink: UOp) -> dict[UOp, UOp]:
    """Launch index of each LOCAL loop: the innermost is the first axis."""
    loops = _outer_last(sink, AxisType.LOCAL)
    return {r: launch_index(f"l{k}", _extent(r)) for k, r in enumerate(loops)}


def _outer_last(sink: UOp, kind: AxisType) -> list[UOp]:
    """Launch loops of a kind as the kernel's ENDs list them, innermost first."""
    ends = [n for n in toposort(sink) if n.op is Op.END]
    found = dict.fromkeys(r for n in ends for r in n.src[1:] if r.arg.axis_type is kind)
    return list(found)[::-1]


def _without_loops(sink: UOp, mapping: Mapping[UOp, UOp], inside: UOp | None) -> UOp:
    """The kernel with values for its launch loops; stores hold where `inside` does."""

    def visit(node: UOp, original: UOp) -> UOp:
        if node.op in (Op.END, Op.AFTER):
            kept = [n for n, o in zip(node.src[1:], original.src[1:], strict=True)
                    if o not in mapping]
            return node.replace(src=(node.src[0], *kept)) if kept else node.src[0]
        if node.op is Op.STORE and inside is not None and _is_shared(node):
            place = node.src[0]
            place = place.replace(src=(place.src[0], place.src[1].valid(inside)))
            return node.replace(src=(place, *node.src[1:]))
        return node

    return map_graph(sink, visit, dict(mapping))


def _is_shared(store: UOp) -> bool:
    """Whether a store is to memory that other work groups see."""
    return storage_of(store.src[0]).op is Op.PARAM
