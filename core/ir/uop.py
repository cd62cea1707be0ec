"""The interned node: operators build nodes, nothing more.

A UOp is the tuple (op, src, arg, tag). Equal tuples are the same object, so equality is `is` and
caches key on identity. The table maps (op, arg, tag, ids of the sources) to a plain weak
reference: while an entry is alive so are its sources, so their ids are theirs. Dead entries are
swept when the table has doubled; no finaliser runs (measured in algorithms.md 4.8: 0.9 us for a
new node, 0.5 us for a hit).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any, Final, Self
from weakref import ref

from core.foundation.fork import survive_fork
from core.ir.arguments import (
    AddressSpace,
    AxisType,
    BufferSlot,
    CallInfo,
    Invalid,
    KernelInfo,
    LoopRange,
    ParamSlot,
    Reduction,
    constant,
)
from core.ir.dtype import DType, Scalar, dtypes
from core.ir.operation import Op
from core.ir.shape import RULES, dimensions, product

_SMALLEST_SWEEP: Final = 1 << 14
_lock = survive_fork(threading.Lock())
_table: dict[tuple[Any, ...], ref[UOp]] = {}
_sweep_at = _SMALLEST_SWEEP
_buffer_numbers = count()



class _BufferEntry(ref["UOp"]):
    """Table entry of a BUFFER: a replay makes some that never come back, so it says when to go."""

    __slots__ = ("key",)
    key: tuple[Any, ...]


_gone: Final[deque[Any]] = deque()


def _forget_buffers() -> None:
    with _lock:
        while _gone:
            entry: _BufferEntry = _gone.popleft()
            if _table.get(entry.key) is entry:
                del _table[entry.key]


Dim = Any  # int, or a rank 0 weak int UOp
Operand = Any  # UOp, or a Python number taken in the other operand's dtype


class UOp:
    """One node of the graph; see `core.ir.operation` for what each op means.

    Attributes:
        op: The operation.
        src: The sources, a tuple of UOps.
        arg: Its argument, hashable plain data.
        tag: None between passes.
        dtype: Scalar type of the value; void for effects.
        shape: Dimensions of the value: ints, or rank 0 weak int UOps.
    """

    __slots__ = (
        "__weakref__", "_bounds", "_device", "_ranges", "_verified", "arg", "dtype", "op", "shape",
        "src", "tag",
    )
    op: Op
    src: tuple[UOp, ...]
    arg: Any
    tag: Any
    dtype: DType
    shape: tuple[Dim, ...]
    _bounds: Any
    _ranges: Any
    _device: Any
    _verified: int | None

    def __new__(
        cls, op: Op, src: tuple[UOp, ...] = (), arg: Any = None, tag: Any = None
    ) -> Self:
        """The node with these four parts: the same object for equal parts."""
        key: tuple[Any, ...]
        if len(src) == 2:  # the commonest case, spelled out: half the time of the general one
            key = (op, id(src[0]), id(src[1]), arg, tag)
        else:
            key = (op, *map(id, src), arg, tag)
        entry = _table.get(key)
        if entry is not None:
            node = entry()
            if node is not None:
                return node  # type: ignore[return-value]
        dtype, shape = RULES[op](src, arg)
        with _lock:
            entry = _table.get(key)
            if entry is not None:
                node = entry()
                if node is not None:
                    return node  # type: ignore[return-value]
            node = object.__new__(cls)
            node.op, node.src, node.arg, node.tag = op, src, arg, tag
            node.dtype, node.shape = dtype, shape
            node._bounds = node._ranges = node._device = node._verified = None
            _table[key] = ref(node)
            if len(_table) > _sweep_at:
                _sweep()
        return node

    def __reduce__(self) -> tuple[Any, ...]:
        from_text, to_text = _text_form
        return from_text, (to_text(self),)

    def __repr__(self) -> str:
        return f"UOp({self.op.name}, {self.dtype.name}, shape={self.shape}, arg={self.arg!r})"

    # -- making nodes -----------------------------------------------------------------------

    @staticmethod
    def const(value: Any, dtype: DType = dtypes.weak_int) -> UOp:
        """Rank 0 constant; floats are rounded to `dtype`, machine integers wrap."""
        return UOp(Op.CONST, (), constant(value, dtype))

    def const_like(self, value: Any) -> UOp:
        """Rank 0 constant of this node's dtype."""
        return UOp(Op.CONST, (), constant(value, self.dtype))

    @staticmethod
    def invalid(dtype: DType = dtypes.weak_int) -> UOp:
        """The value that is not there."""
        return UOp(Op.CONST, (), constant(Invalid, dtype))

    @staticmethod
    def dims(shape: Iterable[Dim]) -> UOp:
        """The shape source of movement ops and storage: a STACK of rank 0 weak ints."""
        return UOp(Op.STACK, tuple(d if isinstance(d, UOp) else UOp.const(d) for d in shape))

    @staticmethod
    def param(
        slot: int, dtype: DType, shape: Sequence[Dim] = (), device: Any = None,
        space: AddressSpace = AddressSpace.GLOBAL,
    ) -> UOp:
        """Placeholder for argument `slot` of the CALL around it."""
        return UOp(Op.PARAM, (UOp.dims(shape),), ParamSlot(slot, dtype, device, space))

    @staticmethod
    def variable(
        name: str, minimum: int, maximum: int, dtype: DType = dtypes.weak_int, slot: int = -1
    ) -> UOp:
        """A Variable: rank 0, in ALU space, with inclusive bounds."""
        slot_data = ParamSlot(slot, dtype, None, AddressSpace.ALU, minimum, maximum, name)
        return UOp(Op.PARAM, (UOp.dims(()),), slot_data)

    @staticmethod
    def new_buffer(device: Any, dtype: DType, shape: Sequence[Dim]) -> UOp:
        """A BUFFER with a number of its own, in the GLOBAL space of `device`."""
        _forget_buffers()
        node = UOp(Op.BUFFER, (UOp.dims(shape),), BufferSlot(next(_buffer_numbers), dtype, device))
        key = (Op.BUFFER, id(node.src[0]), node.arg, None)
        entry = _BufferEntry(node, _gone.append)
        entry.key = key
        with _lock:
            _table[key] = entry
        return node

    @staticmethod
    def range(bound: Dim, number: int, axis_type: AxisType = AxisType.LOOP) -> UOp:
        """A loop counter in [0, bound), told apart from others of its kernel by `number`."""
        source = bound if isinstance(bound, UOp) else UOp.const(bound)
        return UOp(Op.RANGE, (source,), LoopRange(number, axis_type))

    @staticmethod
    def sink(*effects: UOp, info: KernelInfo | None = None) -> UOp:
        """Root of a kernel or a schedule."""
        return UOp(Op.SINK, effects, info)

    @staticmethod
    def group(*effects: UOp) -> UOp:
        """Several effects, unordered; a single one stays as it is."""
        return effects[0] if len(effects) == 1 else UOp(Op.GROUP, effects)

    @staticmethod
    def stack(*values: UOp) -> UOp:
        """Values along a new leading axis."""
        return UOp(Op.STACK, values)

    def call(self, *arguments: UOp, info: CallInfo | None = None) -> UOp:
        """CALL of this body."""
        return UOp(Op.CALL, (self, *arguments), info)

    def gettuple(self, position: int) -> UOp:
        """One of the values of a TUPLE, or of a CALL whose body is one."""
        return UOp(Op.GETTUPLE, (self,), position)

    # -- movement ---------------------------------------------------------------------------

    def permute(self, order: Sequence[int]) -> UOp:
        """Axis k of the result is axis order[k]."""
        order = tuple(order)
        return self if order == tuple(range(len(order))) else UOp(Op.PERMUTE, (self,), order)

    def flip(self, flags: Sequence[bool]) -> UOp:
        """Reverse the flagged axes."""
        return UOp(Op.FLIP, (self,), tuple(flags)) if any(flags) else self

    def reshape(self, shape: Sequence[Dim]) -> UOp:
        """Same elements, row-major; the same shape gives the same node."""
        shape = tuple(shape)
        return self if shape == self.shape else UOp(Op.RESHAPE, (self, UOp.dims(shape)))

    def expand(self, dims: Sequence[Dim]) -> UOp:
        """Prepend axes on the left, along which the value repeats."""
        return UOp(Op.EXPAND, (self, UOp.dims(dims))) if len(dims) else self

    def pad(self, offset: Sequence[Dim], shape: Sequence[Dim]) -> UOp:
        """This value at `offset` in a larger shape, Invalid elsewhere."""
        if tuple(shape) == self.shape:
            return self
        return UOp(Op.PAD, (self, UOp.dims(offset), UOp.dims(shape)))

    def shrink(self, offset: Sequence[Dim], shape: Sequence[Dim]) -> UOp:
        """The box of `shape` at `offset`."""
        if tuple(shape) == self.shape:
            return self
        return UOp(Op.SHRINK, (self, UOp.dims(offset), UOp.dims(shape)))

    def lanes(self, start: UOp, count: int) -> UOp:
        """The place of `count` contiguous elements of flat storage from `start` on."""
        return UOp(Op.SHRINK, (self, UOp.dims((start,)), UOp.dims((count,))))

    def index(self, *indices: Operand) -> UOp:
        """INDEX from the left; Python ints become constants."""
        nodes = (i if isinstance(i, UOp) else UOp.const(i) for i in indices)
        return UOp(Op.INDEX, (self, *nodes)) if indices else self

    def cast(self, dtype: DType) -> UOp:
        """Numeric conversion; the same dtype gives the same node."""
        return self if dtype is self.dtype else UOp(Op.CAST, (self,), dtype)

    def bitcast(self, dtype: DType) -> UOp:
        """Same bytes as another dtype of equal size."""
        return self if dtype is self.dtype else UOp(Op.BITCAST, (self,), dtype)

    # -- memory and order -------------------------------------------------------------------

    def load(self) -> UOp:
        """The value at this place."""
        return UOp(Op.LOAD, (self,))

    def store(self, value: Operand) -> UOp:
        """Write a value to this place."""
        return UOp(Op.STORE, (self, self._operand(value)))

    def after(self, *effects: UOp) -> UOp:
        """This node once the effects have happened."""
        return UOp(Op.AFTER, (self, *effects)) if effects else self

    def end(self, *ranges: UOp) -> UOp:
        """Close loops round this effect, outermost first."""
        return UOp(Op.END, (self, *ranges)) if ranges else self

    def reduce(self, op: Op, *ranges: UOp, axes: int = 0) -> UOp:
        """Reduce the first `axes` axes, or the given ranges."""
        return UOp(Op.REDUCE, (self, *ranges), Reduction(op, axes)) if ranges or axes else self

    def stage(self, *ranges: UOp, space: AddressSpace = AddressSpace.ALU) -> UOp:
        """Tabulate this value over ranges, which become the leading axes."""
        return UOp(Op.STAGE, (self, *ranges), space) if ranges else self

    def contiguous(self) -> UOp:
        """The value in row-major storage of its own."""
        return self if self.op is Op.CONTIGUOUS else UOp(Op.CONTIGUOUS, (self,))

    def valid(self, gate: UOp) -> UOp:
        """This where `gate` holds, Invalid elsewhere."""
        return UOp(Op.WHERE, (gate, self, UOp.invalid(self.dtype)))

    # -- elementwise ------------------------------------------------------------------------

    def _operand(self, value: Operand) -> UOp:
        return value if isinstance(value, UOp) else self.const_like(value)

    def alu(self, op: Op, *others: Operand) -> UOp:
        """An elementwise op; Python numbers are taken in this node's dtype."""
        return UOp(op, (self, *(self._operand(o) for o in others)))

    def where(self, yes: Operand, no: Operand) -> UOp:
        """`yes` where this bool holds, else `no`; at least one of them is a UOp."""
        model = yes if isinstance(yes, UOp) else no
        return UOp(Op.WHERE, (self, model._operand(yes), model._operand(no)))

    def eq(self, other: Operand) -> UOp:
        """self == other. (`==` itself compares nodes.)"""
        return self.alu(Op.CMPEQ, other)

    def ne(self, other: Operand) -> UOp:
        """self != other. (`!=` itself compares nodes.)"""
        return self.alu(Op.CMPNE, other)

    def maximum(self, other: Operand) -> UOp:
        """Larger of two; NaN wins, -0 < +0."""
        return self.alu(Op.MAX, other)

    def minimum(self, other: Operand) -> UOp:
        """Smaller of two integers or bools, from comparison and choice."""
        return self.alu(Op.CMPLT, other).where(self, other)

    def logical_not(self) -> UOp:
        """Not, of a bool."""
        return self.alu(Op.CMPNE, True)

    def __add__(self, other: Operand) -> UOp:
        return self.alu(Op.ADD, other)

    def __radd__(self, other: Operand) -> UOp:
        return self._operand(other).alu(Op.ADD, self)

    def __sub__(self, other: Operand) -> UOp:
        return self.alu(Op.SUB, other)

    def __rsub__(self, other: Operand) -> UOp:
        return self._operand(other).alu(Op.SUB, self)

    def __mul__(self, other: Operand) -> UOp:
        return self.alu(Op.MUL, other)

    def __rmul__(self, other: Operand) -> UOp:
        return self._operand(other).alu(Op.MUL, self)

    def __truediv__(self, other: Operand) -> UOp:
        return self.alu(Op.FDIV, other)

    def __floordiv__(self, other: Operand) -> UOp:
        return self.alu(Op.FLOORDIV, other)

    def __mod__(self, other: Operand) -> UOp:
        return self.alu(Op.FLOORMOD, other)

    def __lt__(self, other: Operand) -> UOp:
        return self.alu(Op.CMPLT, other)

    def __gt__(self, other: Operand) -> UOp:
        return self._operand(other).alu(Op.CMPLT, self)

    def __ge__(self, other: Operand) -> UOp:
        return self._at_most(self._operand(other), self)

    def __le__(self, other: Operand) -> UOp:
        return self._at_most(self, self._operand(other))

    @staticmethod
    def _at_most(a: UOp, b: UOp) -> UOp:
        """a <= b: for integers as a < b + 1 where that cannot overflow, else a < b | a == b."""
        if a.dtype.kind == "weak_int":
            return a < b + 1
        return (a < b) | a.eq(b)

    def __and__(self, other: Operand) -> UOp:
        return self.alu(Op.AND, other)

    def __or__(self, other: Operand) -> UOp:
        return self.alu(Op.OR, other)

    def __xor__(self, other: Operand) -> UOp:
        return self.alu(Op.XOR, other)

    def __lshift__(self, other: Operand) -> UOp:
        return self.alu(Op.SHL, other)

    def __rshift__(self, other: Operand) -> UOp:
        return self.alu(Op.SHR, other)

    def __neg__(self) -> UOp:
        return self.alu(Op.NEG)

    # -- reading ----------------------------------------------------------------------------

    @property
    def value(self) -> Any:
        """The Python number of a CONST, or `Invalid`."""
        return self.arg.value

    @property
    def is_invalid(self) -> bool:
        """Whether this is the constant Invalid."""
        return self.op is Op.CONST and self.arg.bits == "invalid"

    @property
    def numel(self) -> Dim:
        """Number of elements of the value."""
        return product(self.shape)

    @property
    def size_bytes(self) -> int:
        """Bytes of the value in storage, at the maximum of symbolic sizes."""
        return int(self.numel) * self.dtype.itemsize

    def replace(
        self, src: tuple[UOp, ...] | None = None, arg: Any = ..., tag: Any = ...
    ) -> UOp:
        """The same node with other sources, argument or tag."""
        return UOp(
            self.op,
            self.src if src is None else src,
            self.arg if arg is ... else arg,
            self.tag if tag is ... else tag,
        )


def _sweep() -> None:
    """Drop dead entries; called with the lock held."""
    global _table, _sweep_at  # noqa: PLW0603 - the one table of the process
    _table = {key: entry for key, entry in _table.items() if entry() is not None}
    _sweep_at = max(_SMALLEST_SWEEP, 2 * len(_table))


def live_count() -> int:
    """Number of UOps alive; sweeps the table."""
    with _lock:
        _sweep()
        return len(_table)


def register_text_form(parse: Callable[[str], UOp], write: Callable[[UOp], str]) -> None:
    """`core.ir.text` names its two functions here: UOps pickle through their text."""
    global _text_form  # noqa: PLW0603 - set once, at import of core.ir
    _text_form = (parse, write)


_text_form: tuple[Callable[[str], UOp], Callable[[UOp], str]]
Number = Scalar
__all__ = ["UOp", "dimensions", "live_count", "register_text_form"]
