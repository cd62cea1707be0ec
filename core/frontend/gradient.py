"""Reverse-mode differentiation of tensor graphs: a table of rules, and one walk.

A rule takes the gradient of a node and the node, and gives a gradient for each source (None: no
gradient passes). Everything a rule returns is a graph of the same ops, so that it can be
differentiated again. The walk uses explicit stacks and is linear in the graph.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from typing import Final

from core.frontend.adjoint import index_gradient
from core.frontend.broadcasting import broadcast, elementwise, inverse
from core.frontend.derivative import derivative_of
from core.frontend.iota import tabulate
from core.frontend.operations.movement import padded
from core.frontend.realization import realized
from core.ir import CallInfo, Op, UOp, device_of, dimensions, dtypes, own_nodes

Gradients = tuple[UOp | None, ...]
Rule = Callable[[UOp, UOp], Gradients]
_STORED: Final = frozenset({Op.BUFFER, Op.PARAM, Op.CONTIGUOUS})
_FEW_FACTORS: Final = 256


def _scaled(g: UOp, factor: UOp) -> UOp:
    return elementwise(Op.MUL, g, factor)


def _choose(condition: UOp, yes: UOp, no: UOp) -> UOp:
    return elementwise(Op.WHERE, condition, yes, no)


def _zero(g: UOp) -> UOp:
    return g.const_like(0)


def _multiply(g: UOp, node: UOp) -> Gradients:
    a, b = node.src
    return _scaled(g, b), _scaled(g, a)


def _divide(g: UOp, node: UOp) -> Gradients:
    b = node.src[1]
    over = elementwise(Op.FDIV, g, b)
    return over, elementwise(Op.NEG, _scaled(over, node))


def _maximum(g: UOp, node: UOp) -> Gradients:
    """Ties share evenly."""
    a, b = node.src
    half = g * 0.5
    tie = elementwise(Op.CMPEQ, a, b)
    left = _choose(elementwise(Op.CMPLT, b, a), g, _choose(tie, half, _zero(g)))
    right = _choose(elementwise(Op.CMPLT, a, b), g, _choose(tie, half, _zero(g)))
    return left, right


def _power(g: UOp, node: UOp) -> Gradients:
    """b · a^(b-1), 0 where b is 0; a^b · log a, 0 where a is 0."""
    a, b = node.src
    slope = elementwise(Op.MUL, b, elementwise(Op.POW, a, b - 1.0))
    base = _choose(b.eq(0.0), _zero(g), _scaled(g, slope))
    if b.op is Op.CONST:
        return base, None
    is_zero = a.eq(0.0)
    log = _choose(is_zero, a.const_like(1.0), a).alu(Op.LOG)
    return base, _choose(is_zero, _zero(g), _scaled(_scaled(g, node), log))


def _where(g: UOp, node: UOp) -> Gradients:
    condition, yes, no = node.src
    return (None, None if yes.is_invalid else _choose(condition, g, _zero(g)),
            None if no.is_invalid else _choose(condition, _zero(g), g))


def _multiply_add(g: UOp, node: UOp) -> Gradients:
    a, b, _ = node.src
    return _scaled(g, b), _scaled(g, a), g


def _repeat_back(g: UOp, axes: int, shape: tuple[object, ...]) -> UOp:
    """A reduced value repeated along the axes that the reduction removed."""
    return g.expand(shape[:axes])


def _reduce(g: UOp, node: UOp) -> Gradients:
    x, (op, axes) = node.src[0], node.arg
    wide = _repeat_back(g, axes, x.shape)
    if op is Op.ADD:
        return (wide,)
    if op is Op.MAX:
        # Which elements are largest is asked of stored ones: the sums below, computed again in
        # another order, could be one bit away from the maximum that was found.
        x = x if x.op in _STORED else x.contiguous()
        chosen = x.eq(_repeat_back(x.reduce(op, axes=axes), axes, x.shape))
        # Counted in integers: a sum that never rounds may be computed wherever it is wanted.
        count = chosen.cast(dtypes.int32).reduce(Op.ADD, axes=axes).cast(g.dtype)
        shared = elementwise(Op.FDIV, g, count)
        return (_choose(chosen, _repeat_back(shared, axes, x.shape), _zero(g)),)
    return (_scaled(wide, _products_of_others(x, axes)),)


def _products_of_others(x: UOp, axes: int) -> UOp:
    """For each element, the product of the other ones: right where elements are 0.

    A few elements are multiplied afresh for each one, which can be differentiated again; of many,
    the zeros are counted and the rest divides.
    """
    rest = x.shape[axes:]
    count = prod(x.shape[:axes])
    flat = x.reshape((count, *rest))
    if count > _FEW_FACTORS:
        is_zero = flat.eq(0.0)
        others = is_zero.where(1.0, flat)
        zeros = is_zero.cast(dtypes.int32).reduce(Op.ADD, axes=1).expand((count,))
        product = others.reduce(Op.MUL, axes=1).expand((count,))
        alone = zeros.eq(is_zero.cast(dtypes.int32))
        return alone.where(product / others, 0.0).reshape(x.shape)
    shape = (count, count, *rest)  # (another element, the element, ...)
    same = tabulate(lambda i, j: i.eq(j), count, count)
    mask = broadcast(same.reshape((count, count, *(1 for _ in rest))), shape)
    others = broadcast(flat.reshape((count, 1, *rest)), shape)
    return mask.where(1.0, others).reduce(Op.MUL, axes=1).reshape(x.shape)


def _pad(g: UOp, node: UOp) -> Gradients:
    return (g.shrink(dimensions(node.src[1]), node.src[0].shape),)


def _shrink(g: UOp, node: UOp) -> Gradients:
    pairs = [(at, n - at - m) for at, n, m in
             zip(dimensions(node.src[1]), node.src[0].shape, node.shape, strict=True)]
    return (padded(g, pairs, _zero(g)),)


def _stack(g: UOp, node: UOp) -> Gradients:
    return tuple(g.index(k) for k in range(len(node.src)))


def _copy(g: UOp, node: UOp) -> Gradients:
    device = device_of(node.src[0])
    return (g if device is None else UOp(Op.COPY, (g,), device),)


#: Gradients of users' functions, by the name in `CallInfo.gradient`: (gradient of each result,
#: arguments) → gradient of each argument, or None.
USER_GRADIENTS: Final[dict[
    str, Callable[[tuple[UOp, ...], tuple[UOp, ...]], Sequence[UOp | None]]]] = {}
_REMEMBERED_BODIES: Final = 256
_bodies: Final[OrderedDict[tuple[UOp, int], tuple[UOp, dict[int, int]]]] = OrderedDict()


def _call(g: UOp, node: UOp) -> Gradients:
    """CALL(f, a...) → CALL(f', a..., g), where f' is differentiated on PARAMs, once per body."""
    call, position = (node.src[0], node.arg) if node.op is Op.GETTUPLE else (node, None)
    if call.op is not Op.CALL:
        raise NotImplementedError("a TUPLE that no CALL gives has no gradient")
    body, arguments, info = call.src[0], call.src[1:], call.arg or CallInfo()
    if info.gradient:
        return _user_gradient(g, call, position)
    value = body if position is None else body.src[position]
    derived, places = _gradient_body(value, len(arguments))
    back = derived.call(*arguments, g, info=info._replace(name=f"{info.name}_gradient"))
    return tuple(back.gettuple(places[slot]) if slot in places else None
                 for slot in range(len(arguments)))


def _gradient_body(value: UOp, count: int) -> tuple[UOp, dict[int, int]]:
    """(TUPLE of the gradients of a body's PARAMs, place of each slot); PARAM `count` is its own."""
    known = _bodies.get((value, count))
    if known is None:
        parameters = {n.arg.slot: n for n in own_nodes(value)
                      if n.op is Op.PARAM and 0 <= n.arg.slot < count and n.dtype.is_float}
        g = UOp.param(count, value.dtype, value.shape, device_of(value))
        found = compute_gradient(value, g, parameters.values())
        slots = [slot for slot, p in sorted(parameters.items()) if p in found]
        derived = UOp(Op.TUPLE, tuple(found[parameters[slot]] for slot in slots))
        known = _bodies[value, count] = derived, {slot: k for k, slot in enumerate(slots)}
        while len(_bodies) > _REMEMBERED_BODIES:
            _bodies.popitem(last=False)
    return known


def _user_gradient(g: UOp, call: UOp, position: int | None) -> Gradients:
    """A user's gradient of all results, those that are not asked about having the gradient 0."""
    body = call.src[0]
    results = (body,) if position is None else body.src
    given = tuple(
        g if k == (position or 0) else r.const_like(0).expand(r.shape)
        for k, r in enumerate(results))
    return tuple(USER_GRADIENTS[call.arg.gradient](given, call.src[1:]))


RULES: Final[Mapping[Op, Rule]] = {
    Op.CAST: lambda g, n: (g.cast(n.src[0].dtype),),
    Op.NEG: lambda g, n: (elementwise(Op.NEG, g),),
    Op.RECIPROCAL: lambda g, n: (elementwise(Op.NEG, _scaled(g, n * n)),),
    Op.SQRT: lambda g, n: (elementwise(Op.FDIV, g, n * 2.0),),
    Op.EXP: lambda g, n: (_scaled(g, n),),
    Op.EXP2: lambda g, n: (_scaled(g, n * 0.6931471805599453),),
    Op.LOG: lambda g, n: (elementwise(Op.FDIV, g, n.src[0]),),
    Op.LOG2: lambda g, n: (elementwise(Op.FDIV, g, n.src[0] * 0.6931471805599453),),
    Op.SIN: lambda g, n: (_scaled(g, n.src[0].alu(Op.COS)),),
    Op.COS: lambda g, n: (elementwise(Op.NEG, _scaled(g, n.src[0].alu(Op.SIN))),),
    Op.ADD: lambda g, n: (g, g),
    Op.SUB: lambda g, n: (g, elementwise(Op.NEG, g)),
    Op.MUL: _multiply,
    Op.FDIV: _divide,
    Op.MAX: _maximum,
    Op.POW: _power,
    Op.WHERE: _where,
    Op.MULACC: _multiply_add,
    Op.REDUCE: _reduce,
    Op.PERMUTE: lambda g, n: (g.permute(inverse(n.arg)),),
    Op.FLIP: lambda g, n: (g.flip(n.arg),),
    Op.RESHAPE: lambda g, n: (g.reshape(n.src[0].shape),),
    Op.EXPAND: lambda g, n: (g.reduce(Op.ADD, axes=len(n.src[1].src)),),
    Op.PAD: _pad,
    Op.SHRINK: _shrink,
    Op.STACK: _stack,
    Op.INDEX: lambda g, n: (index_gradient(g, n), *(None for _ in n.src[1:])),
    Op.CONTIGUOUS: lambda g, n: (g,),
    Op.CONTIGUOUS_BACKWARD: lambda g, n: (g.contiguous(),),
    Op.COPY: _copy,
    Op.CALL: _call,
    Op.GETTUPLE: _call,
}
# Ops of floats through which a gradient passes to no source.
_STOPS: Final = frozenset({
    Op.DETACH, Op.TRUNC, Op.BITCAST, Op.BUFFER, Op.PARAM, Op.CONST, Op.STAGE, Op.THREEFRY,
})


def _inputs(node: UOp) -> tuple[UOp, ...]:
    """The sources that a gradient may reach."""
    known = derivative_of(node)
    if known is not None:
        return known.inputs
    if node.op in _STOPS:
        return ()
    if node.op in (Op.RESHAPE, Op.EXPAND, Op.PAD, Op.SHRINK, Op.INDEX):
        return node.src[:1]
    if node.op is Op.GETTUPLE:
        return node.src[0].src[1:]
    return node.src[1:] if node.op is Op.CALL else node.src


def _order(root: UOp, targets: set[UOp]) -> tuple[list[UOp], dict[UOp, UOp]]:
    """Nodes on a way from the root to a target, sources first; and the target of each that is one.

    A node whose storage is a target (it was realised after it was used) stands for that target.
    """
    done: dict[UOp, bool] = {}
    names: dict[UOp, UOp] = {}
    order: list[UOp] = []
    stack: list[tuple[UOp, bool]] = [(root, False)]
    while stack:
        node, left = stack.pop()
        if node in done and not left:
            continue
        inputs = _inputs(node) if node.dtype.is_float else ()
        if not left:
            done[node] = False
            stack.append((node, True))
            stack.extend((s, False) for s in inputs if s not in done)
            continue
        name = node if node in targets else realized(node)
        if name in targets and name is not None:
            names[node] = name
        if node in names or any(done[s] for s in inputs):
            done[node] = True
            order.append(node)
    return order, names


def depends_on(root: UOp, targets: set[UOp]) -> bool:
    """Whether a gradient of a value can reach one of some nodes."""
    return bool(_order(root, targets)[0])


def compute_gradient(root: UOp, root_gradient: UOp, targets: Iterable[UOp]) -> dict[UOp, UOp]:
    """Gradients of a value with respect to nodes of its graph.

    Args:
        root: The value.
        root_gradient: Its own gradient, of its shape and dtype.
        targets: Nodes; those that the value does not depend on are left out of the result.

    Raises:
        NotImplementedError: An op on the way has no rule.
    """
    wanted = set(targets)
    order, names = _order(root, wanted)
    members = set(order)
    gradients: dict[UOp, UOp] = {root: root_gradient}
    # What the value depends on only through steps, such as floor, has the gradient 0.
    flat = {name: name.const_like(0).expand(name.shape) for name in names.values()}
    result: dict[UOp, UOp] = {}
    for node in reversed(order):
        g = gradients.pop(node, None)
        if g is None:
            continue
        name = names.get(node)
        if name is not None:
            _add(result, name, g)
        known = derivative_of(node)
        if known is not None:
            if any(s in members for s in known.inputs):
                passed = known.rule(g, node, *known.inputs)
                _pass_on(gradients, members, known.inputs, passed)
        elif any(s in members for s in _inputs(node)):
            rule = RULES.get(node.op)
            if rule is None:
                raise NotImplementedError(f"{node.op.name} has no gradient")
            _pass_on(gradients, members, _inputs(node), rule(g, node))
    return {**flat, **result}


def _pass_on(
    gradients: dict[UOp, UOp], members: set[UOp], sources: tuple[UOp, ...], passed: Gradients
) -> None:
    for source, g in zip(sources, passed, strict=False):
        if g is not None and source in members:
            _add(gradients, source, _fitted(g, source))


def _add(gradients: dict[UOp, UOp], node: UOp, g: UOp) -> None:
    before = gradients.get(node)
    gradients[node] = g if before is None else elementwise(Op.ADD, before, g)


def _fitted(g: UOp, source: UOp) -> UOp:
    """A gradient in the shape of a source: summed where a scalar was broadcast, and repeated."""
    if g.shape == source.shape:
        return g
    if not source.shape:
        return g.reduce(Op.ADD, axes=len(g.shape))
    return g.expand(source.shape) if not g.shape else g


