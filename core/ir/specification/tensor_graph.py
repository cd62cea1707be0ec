"""tensor_graph: what the frontend may build."""

from __future__ import annotations

from core.ir.arguments import AddressSpace
from core.ir.operation import ELEMENTWISE, Op
from core.ir.specification.verify import Row, Specification
from core.ir.uop import UOp


def _has_shape_source(node: UOp) -> bool:
    return len(node.src) == 1 and node.src[0].op is Op.STACK


def _is_shape(source: UOp) -> bool:
    return source.op is Op.STACK and all(s.dtype.kind == "weak_int" for s in source.src)


def _reduces_axes(node: UOp) -> bool:
    return len(node.src) == 1 and node.arg.op in (Op.ADD, Op.MAX, Op.MUL)


def _tabulates(node: UOp) -> bool:
    return (node.arg is AddressSpace.ALU and not node.src[0].shape
            and all(r.op is Op.RANGE for r in node.src[1:]))


TENSOR_GRAPH = Specification("tensor_graph", 0, (
    Row(frozenset({Op.PARAM, Op.BUFFER}), "storage with its shape as a source", _has_shape_source),
    Row(frozenset({Op.CONST}), "a constant"),
    Row(ELEMENTWISE, "operands of one dtype, and of one shape or rank 0"),
    Row(frozenset({Op.RESHAPE, Op.EXPAND}), "a value and a shape",
        lambda n: len(n.src) == 2 and _is_shape(n.src[1])),
    Row(frozenset({Op.PAD, Op.SHRINK}), "a value, an offset and a shape",
        lambda n: len(n.src) == 3 and _is_shape(n.src[1]) and _is_shape(n.src[2])),
    Row(frozenset({Op.PERMUTE, Op.FLIP, Op.BITCAST, Op.INDEX, Op.STACK}), "a movement op"),
    Row(frozenset({Op.REDUCE}), "ADD, MAX or MUL over leading axes", _reduces_axes),
    Row(frozenset({Op.STAGE}), "a rank 0 function of RANGEs in ALU space", _tabulates),
    Row(frozenset({Op.RANGE}), "a loop of a tabulated function", lambda n: len(n.src) == 1),
    Row(frozenset({
        Op.CONTIGUOUS, Op.COPY, Op.DETACH, Op.CONTIGUOUS_BACKWARD, Op.CALL, Op.TUPLE, Op.GETTUPLE,
        Op.UNSHARD, Op.MSTACK, Op.MSELECT, Op.ALLREDUCE, Op.CUSTOM_FUNCTION,
    }), "a value of a value"),
    Row(frozenset({Op.SINK, Op.GROUP}), "effects", lambda n: all(s.dtype.kind == "void"
                                                                for s in n.src)),
    Row(frozenset({Op.STORE}), "a PARAM or BUFFER and a value of its size",
        lambda n: n.src[0].op in (Op.PARAM, Op.BUFFER)),
))
