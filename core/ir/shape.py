"""dtype and shape of a node from its sources: one rule per op, proving nothing.

A dimension is a Python int, or a rank 0 weak int UOp where sizes are symbolic. Movement ops carry
their shape; elementwise operands have the same dimensions or rank 0. The frontend inserts
whatever is missing and asks `core.simplify.prove` about symbolic sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, Final

from core.foundation.errors import DTypeError, ShapeError
from core.ir.dtype import DType, dtypes
from core.ir.operation import BINARY_OPS, COMPARISON, EFFECTS, UNARY, Op

if TYPE_CHECKING:
    from core.ir.uop import UOp

Dimension = "int | UOp"
Typed = tuple[DType, tuple[Any, ...]]
Rule = Callable[[Sequence["UOp"], Any], Typed]


def dimensions(source: UOp) -> tuple[Any, ...]:
    """The dimensions that a shape source (a STACK of rank 0 weak ints) holds."""
    return tuple(s.arg.bits if s.op is Op.CONST else s for s in source.src)


def same_dimension(a: Any, b: Any) -> bool:
    """Equal as ints, or the very same symbolic node."""
    return a is b or (isinstance(a, int) and isinstance(b, int) and a == b)


def same_shape(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Whether two shapes have the same dimensions."""
    return len(a) == len(b) and all(map(same_dimension, a, b))


def product(dims: Sequence[Any]) -> Any:
    """Number of elements: an int, or a UOp where a dimension is symbolic."""
    known = prod(d for d in dims if isinstance(d, int))
    symbolic = [d for d in dims if not isinstance(d, int)]
    if known == 0 or not symbolic:
        return known
    result = symbolic[0]
    for d in symbolic[1:]:
        result = result * d
    return result if known == 1 else result * known


def _elementwise_shape(op: Op, sources: Sequence[UOp]) -> tuple[Any, ...]:
    shape: tuple[Any, ...] = ()
    for s in sources:
        if s.shape and s.shape != shape:
            if shape and not same_shape(shape, s.shape):
                raise ShapeError(f"{op.name}: shapes {_show(sources)} differ and none is ()")
            shape = s.shape
    return shape


def _show(sources: Sequence[UOp]) -> str:
    return ", ".join(str(s.shape) for s in sources)


def _unary(op: Op) -> Rule:
    return lambda src, arg: (src[0].dtype, src[0].shape)


def _binary(op: Op) -> Rule:
    result = dtypes.bool if op in COMPARISON else None

    def rule(src: Sequence[UOp], arg: Any) -> Typed:
        a, b = src
        if a.dtype is not b.dtype:
            raise DTypeError(f"{op.name}: operands are {a.dtype} and {b.dtype}")
        shape = a.shape
        if shape != b.shape:
            shape = _elementwise_shape(op, src)
        return result or a.dtype, shape

    return rule


def _where(src: Sequence[UOp], arg: Any) -> Typed:
    if src[0].dtype is not dtypes.bool or src[1].dtype is not src[2].dtype:
        raise DTypeError(f"WHERE: operands are {', '.join(repr(s.dtype) for s in src)}")
    return src[1].dtype, _elementwise_shape(Op.WHERE, src)


def _mulacc(src: Sequence[UOp], arg: Any) -> Typed:
    return src[0].dtype, _elementwise_shape(Op.MULACC, src)


def _cast(src: Sequence[UOp], arg: Any) -> Typed:
    return arg, src[0].shape


def _bitcast(src: Sequence[UOp], arg: Any) -> Typed:
    old, new, shape = src[0].dtype.itemsize, arg.itemsize, src[0].shape
    if old == new:
        return arg, shape
    if not shape or not isinstance(shape[-1], int) or shape[-1] * old % new:
        raise DTypeError(f"BITCAST: the last axis of {shape} of {src[0].dtype} is no whole "
                         f"number of {arg}")
    return arg, (*shape[:-1], shape[-1] * old // new)


def _first(src: Sequence[UOp], arg: Any) -> Typed:
    return src[0].dtype, src[0].shape


def _effect(src: Sequence[UOp], arg: Any) -> Typed:
    return dtypes.void, ()


def _leaf(src: Sequence[UOp], arg: Any) -> Typed:
    return arg.dtype, dimensions(src[0])


def _const(src: Sequence[UOp], arg: Any) -> Typed:
    return arg.dtype, ()


def _permute(src: Sequence[UOp], arg: Any) -> Typed:
    shape = src[0].shape
    if sorted(arg) != list(range(len(shape))):
        raise ShapeError(f"PERMUTE: {arg} is no order of the axes of shape {shape}")
    return src[0].dtype, tuple(shape[i] for i in arg)


def _flip(src: Sequence[UOp], arg: Any) -> Typed:
    if len(arg) != len(src[0].shape):
        raise ShapeError(f"FLIP: {len(arg)} flags for shape {src[0].shape}")
    return src[0].dtype, src[0].shape


def _reshape(src: Sequence[UOp], arg: Any) -> Typed:
    old, new = src[0].shape, dimensions(src[1])
    if all(isinstance(d, int) for d in (*old, *new)) and prod(old) != prod(new):
        raise ShapeError(f"RESHAPE: shape {old} holds {prod(old)} elements, {new} {prod(new)}")
    return src[0].dtype, new


def _expand(src: Sequence[UOp], arg: Any) -> Typed:
    return src[0].dtype, dimensions(src[1]) + src[0].shape


def _box(name: str) -> Rule:
    def rule(src: Sequence[UOp], arg: Any) -> Typed:
        old, offset, new = src[0].shape, dimensions(src[1]), dimensions(src[2])
        if not len(old) == len(offset) == len(new):
            raise ShapeError(f"{name}: shape {old}, offset {offset} and {new} differ in rank")
        outer, inner = (new, old) if name == "PAD" else (old, new)
        for o, n, at in zip(outer, inner, offset, strict=True):
            if all(isinstance(v, int) for v in (o, n, at)) and not 0 <= at <= at + n <= o:
                raise ShapeError(f"{name}: a box of {inner} at {offset} leaves {outer}")
        return src[0].dtype, new

    return rule


def _index(src: Sequence[UOp], arg: Any) -> Typed:
    value, indices = src[0], src[1:]
    if len(indices) > len(value.shape):
        raise ShapeError(f"INDEX: {len(indices)} indices for shape {value.shape}")
    common: tuple[Any, ...] = ()
    for index in indices:
        if not index.dtype.is_integer:
            raise DTypeError(f"INDEX: an index is {index.dtype}, not an integer")
        common = broadcast_shapes(common, index.shape)
    # Every indexed axis goes; the broadcast indices stand in front, where the first one stood.
    return value.dtype, common + value.shape[len(indices):]


def broadcast_shapes(a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
    """The shape both shapes broadcast to, aligned on the right, as in numpy.

    Raises:
        ShapeError: Two dimensions differ and neither is 1.
    """
    rank = max(len(a), len(b))
    left, right = (1,) * (rank - len(a)) + tuple(a), (1,) * (rank - len(b)) + tuple(b)
    result = []
    for m, n in zip(left, right, strict=True):
        if not (same_dimension(m, n) or same_dimension(m, 1) or same_dimension(n, 1)):
            raise ShapeError(f"shapes {a} and {b} do not broadcast: {m} and {n} differ")
        result.append(n if same_dimension(m, 1) else m)
    return tuple(result)


def _stack(src: Sequence[UOp], arg: Any) -> Typed:
    if not src:
        return dtypes.weak_int, (0,)
    if any(s.dtype is not src[0].dtype or not same_shape(s.shape, src[0].shape) for s in src):
        raise ShapeError("STACK: values differ in shape or dtype")
    return src[0].dtype, (len(src), *src[0].shape)


def _reduce(src: Sequence[UOp], arg: Any) -> Typed:
    if arg.axes > len(src[0].shape):
        raise ShapeError(f"REDUCE: {arg.axes} axes of shape {src[0].shape}")
    return src[0].dtype, src[0].shape[arg.axes:]


def _call(src: Sequence[UOp], arg: Any) -> Typed:
    return src[0].dtype, src[0].shape


def _gettuple(src: Sequence[UOp], arg: Any) -> Typed:
    packed = src[0].src[0] if src[0].op is Op.CALL else src[0]
    return packed.src[arg].dtype, packed.src[arg].shape


def _stage(src: Sequence[UOp], arg: Any) -> Typed:
    bounds = tuple(r.src[0].arg.bits if r.src[0].op is Op.CONST else r.src[0] for r in src[1:])
    return src[0].dtype, bounds + src[0].shape


def _range(src: Sequence[UOp], arg: Any) -> Typed:
    return (src[0].dtype if src else dtypes.void), ()


def _unshard(src: Sequence[UOp], arg: Any) -> Typed:
    ranges, axes = arg
    shape = list(src[0].shape)
    for count, axis in zip(ranges, axes, strict=True):
        shape[axis] = shape[axis] * count
    return src[0].dtype, tuple(shape)


RULES: Final[dict[Op, Rule]] = {
    **dict.fromkeys(EFFECTS | {Op.TUPLE, Op.PROGRAM, Op.SOURCE, Op.BINARY}, _effect),
    **dict.fromkeys((Op.CUSTOM_FUNCTION, Op.INS), _effect),
    **{op: _unary(op) for op in UNARY},
    **{op: _binary(op) for op in BINARY_OPS},
    **dict.fromkeys((
        Op.LOAD, Op.COPY, Op.CONTIGUOUS, Op.DETACH, Op.CONTIGUOUS_BACKWARD, Op.AFTER, Op.MSTACK,
        Op.MSELECT, Op.ALLREDUCE), _first),
    Op.CAST: _cast, Op.BITCAST: _bitcast, Op.WHERE: _where, Op.MULACC: _mulacc,
    Op.PARAM: _leaf, Op.BUFFER: _leaf, Op.CONST: _const,
    Op.PERMUTE: _permute, Op.FLIP: _flip, Op.RESHAPE: _reshape, Op.EXPAND: _expand,
    Op.PAD: _box("PAD"), Op.SHRINK: _box("SHRINK"), Op.INDEX: _index, Op.STACK: _stack,
    Op.UNSHARD: _unshard, Op.REDUCE: _reduce, Op.CALL: _call, Op.GETTUPLE: _gettuple,
    Op.STAGE: _stage, Op.RANGE: _range,
    Op.SPECIAL: lambda src, arg: (src[0].dtype, ()),
    Op.WMMA: lambda src, arg: (src[2].dtype, src[2].shape),
    Op.CUSTOMI: lambda src, arg: (arg.dtype, _elementwise_shape(Op.CUSTOMI, src)),
    Op.ATOMIC_ADD: lambda src, arg: (src[1].dtype, src[1].shape),
    Op.GETADDR: lambda src, arg: (dtypes.uint64, ()),
}
