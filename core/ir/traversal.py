"""Walking a graph: order, users, substitution and cached derived properties.

Nothing here recurses: a chain of 20,000 nodes is walked with an explicit stack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from core.ir.operation import Op
from core.ir.uop import UOp


def toposort(*roots: UOp, enter: Callable[[UOp], bool] | None = None) -> list[UOp]:
    """Every node below the roots, sources before users, each once.

    Args:
        roots: Where to start; earlier roots come first.
        enter: Where given, the sources of a node are visited only if it returns True.
    """
    done: dict[UOp, None] = {}
    stack = list(reversed(roots))
    open_nodes: set[UOp] = set()
    while stack:
        node = stack[-1]
        if node in done:
            stack.pop()
        elif node in open_nodes or not node.src or (enter is not None and not enter(node)):
            done[node] = None
            stack.pop()
        else:
            open_nodes.add(node)
            stack.extend(s for s in reversed(node.src) if s not in done)
    return list(done)


def users(order: Iterable[UOp]) -> dict[UOp, list[UOp]]:
    """For each node of a toposort, the nodes that have it as a source (once per node)."""
    result: dict[UOp, list[UOp]] = {}
    for node in order:
        result.setdefault(node, [])
        for source in dict.fromkeys(node.src):
            result.setdefault(source, []).append(node)
    return result


def substitute(root: UOp, mapping: Mapping[UOp, UOp]) -> UOp:
    """`root` with each key replaced by its value; values are not searched again."""
    if not mapping:
        return root
    return map_graph(root, lambda node, original: node, dict(mapping))


def map_graph(
    root: UOp, visit: Callable[[UOp, UOp], UOp], done: dict[UOp, UOp] | None = None
) -> UOp:
    """Rebuild a graph bottom-up.

    Args:
        root: The graph.
        visit: Called as visit(rebuilt node, original node); returns the node to use.
        done: Results known beforehand, by original node; filled as the walk goes on.
    """
    result: dict[UOp, UOp] = {} if done is None else done
    stack = [root]
    while stack:
        node = stack[-1]
        if node in result:
            stack.pop()
            continue
        missing = [s for s in node.src if s not in result]
        if missing:
            stack.extend(reversed(missing))
            continue
        src = tuple([result[s] for s in node.src])
        rebuilt = node if src == node.src else UOp(node.op, src, node.arg, node.tag)
        result[node] = visit(rebuilt, node)
        stack.pop()
    return result[root]


def own_nodes(root: UOp) -> list[UOp]:
    """The nodes of a graph, sources first, without those in the bodies of CALLs."""
    order: dict[UOp, None] = {}
    stack = [root]
    while stack:
        node = stack[-1]
        sources = node.src[1:] if node.op is Op.CALL else node.src
        missing = [s for s in sources if s not in order]
        if missing and node not in order:
            stack.extend(reversed(missing))
            continue
        order.setdefault(node)
        stack.pop()
    return list(order)


def derive(slot: str, rule: Callable[[UOp], Any]) -> Callable[[UOp], Any]:
    """A property computed on demand from those of the sources, kept in a slot of the node.

    `rule` may read the property of the sources; None in the slot means not computed yet.
    """

    def property_of(root: UOp) -> Any:
        found = getattr(root, slot)
        if found is not None:
            return found
        stack = [root]
        while stack:
            node = stack[-1]
            missing = [s for s in node.src if getattr(s, slot) is None]
            if missing:
                stack.extend(missing)
                continue
            if getattr(node, slot) is None:
                setattr(node, slot, rule(node))
            stack.pop()
        return getattr(root, slot)

    return property_of


_NO_RANGES: Final[frozenset[UOp]] = frozenset()


def _own_ranges(node: UOp) -> frozenset[UOp]:
    return frozenset((node,)) if node.op is Op.RANGE else node._ranges


def _ranges_rule(node: UOp) -> frozenset[UOp]:
    """Open ranges: the union over the sources, less those that the node closes."""
    src = node.src
    if not src:
        return _NO_RANGES
    result = _own_ranges(src[0])
    for source in src[1:]:
        more = _own_ranges(source)
        if not more <= result:
            result = more if result <= more else result | more
    if node.op in (Op.END, Op.REDUCE, Op.STAGE) and len(src) > 1:
        closed = {s for s in src[1:] if s.op is Op.RANGE}
        if closed & result:
            result = result - closed
    return result


_inner_ranges: Final = derive("_ranges", _ranges_rule)


def open_ranges(node: UOp) -> frozenset[UOp]:
    """The RANGEs on which a value depends and that nothing below it closes.

    A RANGE is its own only open range; that set is not stored, or it would keep itself alive.
    """
    return frozenset((node,)) if node.op is Op.RANGE else _inner_ranges(node)


NO_DEVICE: Final = ""


def _device_rule(node: UOp) -> Any:
    if node.op in (Op.PARAM, Op.BUFFER):
        return node.arg.device or NO_DEVICE
    if node.op is Op.COPY:
        return node.arg
    if node.op is Op.MSELECT:
        device = node.src[0]._device
        return device[node.arg] if isinstance(device, tuple) else device
    if node.op is Op.MSTACK:
        return tuple(s._device for s in node.src)
    sources = node.src[1:] if node.op is Op.CALL else node.src
    return next((s._device for s in sources if s._device), NO_DEVICE)


_device = derive("_device", _device_rule)


def device_of(node: UOp) -> str | tuple[str, ...] | None:
    """Device on which a value lives: a name, a tuple of names, or None (anywhere)."""
    return _device(node) or None


def address_space(node: UOp) -> Any:
    """Address space of a place: that of the storage below the movement ops and AFTERs."""
    while node.op not in (Op.PARAM, Op.BUFFER, Op.STAGE) and node.src:
        node = node.src[0]
    return node.arg if node.op is Op.STAGE else node.arg.space


def storage_of(place: UOp) -> UOp:
    """The PARAM, BUFFER or STAGE below a place."""
    while place.op not in (Op.PARAM, Op.BUFFER, Op.STAGE):
        place = place.src[0]
    return place
