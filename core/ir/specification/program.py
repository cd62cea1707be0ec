"""program: what a renderer sees. Scalars and vectors of machine dtypes, in execution order."""

from __future__ import annotations

from core.ir.arguments import AddressSpace, AxisType
from core.ir.dtype import dtypes
from core.ir.operation import ELEMENTWISE, Op
from core.ir.specification.verify import Row, Specification
from core.ir.traversal import address_space
from core.ir.uop import UOp

_TILES = frozenset({AxisType.UPCAST, AxisType.LANE, AxisType.UNROLL})


def _is_machine(node: UOp) -> bool:
    return not node.dtype.is_weak and len(node.shape) <= 1


def _is_storage(node: UOp) -> bool:
    scalar = not node.shape and address_space(node) is AddressSpace.ALU
    return scalar or len(node.shape) == 1


def _is_place(place: UOp) -> bool:
    return place.op in (Op.INDEX, Op.SHRINK)


def _gate(node: UOp, position: int) -> bool:
    return len(node.src) <= position or node.src[position].dtype.kind == "bool"


PROGRAM = Specification("program", 2, (
    Row(frozenset({Op.LINEAR}), "items in order"),
    Row(frozenset({Op.PARAM, Op.BUFFER}), "flat storage or a scalar", _is_storage),
    Row(frozenset({Op.CONST}), "a constant that is not Invalid", lambda n: not n.is_invalid),
    Row(frozenset({Op.STACK}), "a shape, or a vector of machine dtype"),
    Row(ELEMENTWISE | {Op.BITCAST}, "scalars and vectors of machine dtypes", _is_machine),
    Row(frozenset({Op.INDEX}), "a place, or a lane of a vector",
        lambda n: len(n.src) == 2 and not n.src[1].dtype.is_weak),
    Row(frozenset({Op.SHRINK}), "contiguous lanes of storage", lambda n: len(n.shape) == 1),
    Row(frozenset({Op.LOAD}), "a place, and a gate or none",
        lambda n: _is_place(n.src[0]) and _gate(n, 1)),
    Row(frozenset({Op.STORE}), "a place, a value, and a gate or none",
        lambda n: _is_place(n.src[0]) and _gate(n, 2)),
    Row(frozenset({Op.REDUCE}), "over the lanes of a vector",
        lambda n: len(n.src) == 1 and n.arg.axes == 1),
    Row(frozenset({Op.RANGE}), "a loop of machine dtype that is no tile",
        lambda n: not n.dtype.is_weak and n.arg.axis_type not in _TILES),
    Row(frozenset({Op.END}), "closes one loop; a void one goes on while a bool is true",
        lambda n: len(n.src) == (2 if n.src[1].src else 3)),
    Row(frozenset({Op.CALL}), "of an address, on int64; gives an int64",
        lambda n: all(s.dtype is dtypes.int64 for s in n.src)),
    Row(frozenset({Op.AFTER, Op.GROUP, Op.SINK}), "order"),
    Row(frozenset({Op.BARRIER, Op.IF, Op.ENDIF, Op.SPECIAL, Op.CUSTOM, Op.CUSTOMI, Op.ATOMIC_ADD,
                   Op.WMMA, Op.INS, Op.GETADDR, Op.PROGRAM, Op.SOURCE, Op.BINARY}), "code"),
))
