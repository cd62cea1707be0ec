"""The oracle of values: a tensor graph on whole numpy arrays, without any scheduler.

    evaluate(UOp(Op.ADD, (x, y)), {x: array, y: array})

Values are held as `core.reference.formats` says: bfloat16 and fp8 as float32 arrays, weak ints as
int64. What is Invalid in the result is 0. CALLs of graphs are substituted first; then nodes are
computed in order, and an array is dropped once its last user is done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from core.foundation.errors import ShapeError, UnsupportedError
from core.ir import Op, UOp, map_graph, substitute, toposort
from core.reference.formats import Array, held
from core.reference.nodes import Context, node_value
from core.reference.values import Value

_OPAQUE: Final = frozenset({Op.SINK, Op.PROGRAM, Op.LINEAR, Op.CUSTOM_FUNCTION})
_LEAVES: Final = frozenset({Op.PARAM, Op.BUFFER})


def inline_calls(root: UOp) -> UOp:
    """Every CALL of a graph replaced by its body with PARAM k as argument k, inner ones first.

    Raises:
        UnsupportedError: A body is opaque.
    """

    def visit(node: UOp, original: UOp) -> UOp:
        if node.op is Op.GETTUPLE:
            position: int = node.arg
            return node.src[0].src[position]
        if node.op is not Op.CALL:
            return node
        body, arguments = node.src[0], node.src[1:]
        if body.op in _OPAQUE:
            raise UnsupportedError(f"evaluate looks into no CALL of {body.op.name}")
        params = [n for n in toposort(body) if n.op is Op.PARAM and n.arg.slot >= 0]
        return substitute(body, {p: arguments[p.arg.slot] for p in params})

    return map_graph(root, visit)


def evaluate(root: UOp, values: Mapping[UOp, Any]) -> Array:
    """The value of a tensor graph.

    Args:
        root: A graph as the frontend builds it.
        values: Arrays of the leaves (BUFFER, PARAM), numbers of Variables; any other node that
            is given a value is not looked into.

    Returns:
        An array of the root's shape, 0 where the value is Invalid.

    Raises:
        KeyError: A leaf has no value.
        ShapeError: An array has another shape than its leaf.
        UnsupportedError: The graph holds an op that has no value: an opaque CALL, several devices.
    """
    return evaluate_all((root,), values)[0]


def evaluate_stores(sink: UOp, values: Mapping[UOp, Any]) -> dict[UOp, Array]:
    """What a body SINK(STORE(PARAM k, value)...) writes, by PARAM; no STORE sees another."""
    stores = [n for n in toposort(sink) if n.op is Op.STORE]
    results = evaluate_all([s.src[1] for s in stores], values)
    return {s.src[0]: result for s, result in zip(stores, results, strict=True)}


def evaluate_all(roots: Sequence[UOp], values: Mapping[UOp, Any]) -> list[Array]:
    """The values of several graphs, shared parts computed once; see `evaluate`."""
    inlined = [r if r in values else inline_calls(r) for r in roots]
    order = toposort(*inlined, enter=lambda n: n not in values)
    users: dict[UOp, int] = dict.fromkeys(order, 0)
    for node in order:
        if node not in values:
            for source in node.src:
                users[source] += 1
    for root in inlined:
        users[root] += 1
    context, done = Context(), dict[UOp, Value]()
    for node in order:
        if node in values:
            done[node] = _leaf(node, values[node], done)
            continue
        if node.op in _LEAVES:
            raise KeyError(f"no value is given for {node!r}")
        done[node] = node_value(node, [done[s] for s in node.src], context)
        for source in node.src:
            users[source] -= 1
            if not users[source]:
                del done[source]
    return [np.array(np.broadcast_to(done[r].filled(), done[r].array.shape)) for r in inlined]


def _leaf(node: UOp, given: Any, done: Mapping[UOp, Value]) -> Value:
    array = held(given, node.dtype)
    if len(array.shape) != len(node.shape) or any(
            isinstance(d, int) and d != n for d, n in zip(node.shape, array.shape, strict=True)):
        raise ShapeError(f"an array of shape {array.shape} is given for {node!r}")
    return Value(array)
