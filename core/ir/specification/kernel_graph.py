"""kernel_graph: what leaves the scheduler.

A LINEAR of CALLs. Every argument of a CALL has rank 0 or 1: no view but a contiguous piece is
left between kernels. Inside a kernel, storage is flat and every access is an INDEX.
"""

from __future__ import annotations

from core.ir.arguments import AddressSpace
from core.ir.operation import ELEMENTWISE, Op
from core.ir.specification.verify import Row, Specification
from core.ir.uop import UOp

_BODIES = frozenset({Op.SINK, Op.PROGRAM, Op.COPY, Op.CUSTOM_FUNCTION, Op.LINEAR})
_STORAGE = frozenset({Op.PARAM, Op.BUFFER, Op.AFTER, Op.MSELECT, Op.MSTACK})


def is_call_argument(argument: UOp) -> bool:
    """Storage of rank 0 or 1, a bound Variable, or a SHRINK or BITCAST of rank 1 storage."""
    if len(argument.shape) > 1:
        return False
    while argument.op in (Op.SHRINK, Op.BITCAST):
        argument = argument.src[0]
        if len(argument.shape) != 1:
            return False
    return argument.op in _STORAGE and len(argument.shape) <= 1


def _is_call(node: UOp) -> bool:
    return node.src[0].op in _BODIES and all(map(is_call_argument, node.src[1:]))


def _is_place(place: UOp) -> bool:
    if place.op not in (Op.INDEX, Op.SHRINK):
        return False
    storage = place.src[0]
    while storage.op in (Op.AFTER, Op.BITCAST):  # small floats are stored as integers
        storage = storage.src[0]
    return storage.op in (Op.PARAM, Op.BUFFER) and len(storage.shape) == 1


def _is_index(node: UOp) -> bool:
    """A place in flat storage, an element of a STAGE, or a lane."""
    return all(i.dtype.is_integer for i in node.src[1:])


KERNEL_GRAPH = Specification("kernel_graph", 1, (
    Row(frozenset({Op.LINEAR}), "CALLs", lambda n: all(s.op is Op.CALL for s in n.src)),
    Row(frozenset({Op.CALL}), "a kernel, a program, a copy or a function of arguments of rank 0 "
        "or 1: storage, a Variable, or a SHRINK or BITCAST of rank 1 storage", _is_call),
    Row(frozenset({Op.PARAM, Op.BUFFER}), "flat storage or a scalar", lambda n: len(n.shape) <= 1),
    Row(frozenset({Op.CONST}), "a constant"),
    Row(frozenset({Op.STACK}), "a shape or a vector", lambda n: len(n.shape) == 1),
    Row(ELEMENTWISE | {Op.BITCAST}, "scalars or vectors, or a view of flat storage",
        lambda n: len(n.shape) <= 1),
    Row(frozenset({Op.SHRINK}), "a piece of flat storage", lambda n: len(n.shape) == 1),
    Row(frozenset({Op.INDEX}), "an access by integers", _is_index),
    Row(frozenset({Op.LOAD}), "a place, and a gate or none", lambda n: _is_place(n.src[0])),
    Row(frozenset({Op.STORE}), "a place, a value, and a gate or none",
        lambda n: _is_place(n.src[0])),
    Row(frozenset({Op.REDUCE}), "over RANGEs, or over the lanes of a vector",
        lambda n: all(r.op is Op.RANGE for r in n.src[1:])),
    Row(frozenset({Op.STAGE}), "a value kept in LOCAL memory over RANGEs",
        lambda n: n.arg is AddressSpace.LOCAL),
    Row(frozenset({Op.RANGE}), "a loop", lambda n: len(n.src) <= 1),
    Row(frozenset({Op.END}), "an effect and the RANGEs that it closes",
        lambda n: all(r.op is Op.RANGE for r in n.src[1:])),
    Row(frozenset({Op.AFTER}), "something once effects or loops have begun"),
    Row(frozenset({Op.GROUP, Op.SINK}), "effects"),
    Row(frozenset({Op.COPY, Op.PROGRAM, Op.CUSTOM_FUNCTION, Op.SOURCE, Op.BINARY, Op.BARRIER,
                   Op.SPECIAL, Op.CUSTOM, Op.CUSTOMI, Op.ATOMIC_ADD, Op.WMMA}), "code"),
))
