"""float16, bfloat16 and the fp8 types on targets that do not compute in them.

    value of bfloat16  → float32 that holds a bfloat16 number
    ADD(a, b)          → round(ADD(a, b)), round = float32 → nearest bfloat16 number, as float32
    LOAD(place)        → decode(LOAD(place in the same storage seen as uint16))
    STORE(place, v)    → STORE(that place, encode(v))
    CAST               → round, or nothing
    EXP(x)             → round(EXP(x)): functions round once, being float32 inside

Each single operation rounds. float32 has more than twice the digits plus two of all these types,
so rounding its result again is rounding once (S. Figueroa, When is double rounding innocuous?,
1995). A dtype in `Target.storage_dtypes` is stored and converted by the device: encode and decode
are CASTs there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from core.codegen.decompose.conversion import decode, encode, keep_number, round_to_odd
from core.ir import ELEMENTWISE, AddressSpace, DType, Op, UOp, dtypes, toposort
from core.plugin.target import Target

SMALL_FLOATS: Final = (dtypes.float16, dtypes.bfloat16, dtypes.fp8_e4m3, dtypes.fp8_e5m2)
# Their result is one of the operands, so it needs no rounding.
_EXACT: Final = frozenset({
    Op.WHERE, Op.MAX, Op.NEG, Op.TRUNC, Op.INDEX, Op.STACK, Op.STAGE, Op.RESHAPE, Op.EXPAND,
    Op.PERMUTE, Op.SHRINK, Op.AFTER, Op.LOAD, Op.CONTIGUOUS, Op.FLIP, Op.PAD, Op.DETACH,
})
_VIEWS: Final = frozenset({
    Op.INDEX, Op.SHRINK, Op.AFTER, Op.RESHAPE, Op.EXPAND, Op.PERMUTE, Op.FLIP, Op.PAD,
})


def lowered_dtypes(target: Target) -> frozenset[DType]:
    """The small floats in which a target does not compute."""
    native = target.dtypes - target.storage_dtypes
    return frozenset(d for d in SMALL_FLOATS if d not in native)


def lower_small_floats(root: UOp, target: Target) -> UOp:
    """The graph with float32 arithmetic in place of that of the lowered dtypes."""
    lowered = lowered_dtypes(target)
    order = toposort(root)
    if not any(node.dtype in lowered for node in order):
        return root
    return _Lowering(lowered, target).run(order)


@dataclass
class _Lowering:
    """One walk over a graph; `_done` maps a node to what stands for it."""

    lowered: frozenset[DType]
    target: Target

    def __post_init__(self) -> None:
        self._done: dict[UOp, UOp] = {}
        # (float32 made by rounding to a dtype, that dtype) → its encoded form
        self._codes: dict[tuple[UOp, DType], UOp] = {}
        self._special: dict[Op, Callable[[UOp, tuple[UOp, ...]], UOp]] = {
            Op.CONST: self._constant, Op.PARAM: self._storage, Op.BUFFER: self._storage,
            Op.LOAD: self._load, Op.STORE: self._store, Op.CAST: self._cast,
            Op.BITCAST: self._bitcast,
        }

    def run(self, order: list[UOp]) -> UOp:
        """The last node of the order, lowered."""
        for node in order:
            src = tuple([self._done[s] for s in node.src])
            if node.op in ELEMENTWISE:
                src = tuple(map(self._value, node.src, src))
            concerned = node.dtype in self.lowered or any(
                s.dtype in self.lowered for s in node.src
            )
            if concerned:
                self._done[node] = self._special.get(node.op, self._other)(node, src)
            elif src == node.src:
                self._done[node] = node
            else:
                self._done[node] = UOp(node.op, src, node.arg, node.tag)
        return self._done[order[-1]]

    def _value(self, node: UOp, lowered: UOp) -> UOp:
        """What stands for a node as a value: in a tensor graph, storage read without a LOAD."""
        if node.dtype in self.lowered and lowered.dtype is not dtypes.float32:
            return self._decoded(lowered, node.dtype)
        return lowered

    def _stored(self, dtype: DType) -> DType:
        """The dtype in which storage of a lowered dtype is read and written."""
        if dtype in self.target.storage_dtypes:
            return dtype
        return dtypes.uint8 if dtype.itemsize == 1 else dtypes.uint16

    def _decoded(self, code: UOp, dtype: DType) -> UOp:
        value = code.cast(dtypes.float32) if code.dtype is dtype else decode(code, dtype)
        self._codes[value, dtype] = code
        return value

    def _encoded(self, value: UOp, dtype: DType) -> UOp:
        """The stored form of a float32, rounded where it is not yet a number of the dtype."""
        known = self._codes.get((value, dtype))
        if known is not None:
            return known
        if dtype in self.target.storage_dtypes:
            return value.cast(dtype)
        return encode(value, dtype)

    def _rounded(self, value: UOp, dtype: DType) -> UOp:
        if dtype in self.target.storage_dtypes or dtype is not dtypes.bfloat16:
            return self._decoded(self._encoded(value, dtype), dtype)
        return keep_number(value)

    def _constant(self, node: UOp, src: tuple[UOp, ...]) -> UOp:
        if node.is_invalid:
            return UOp.invalid(dtypes.float32)
        return UOp.const(node.value, dtypes.float32)

    def _storage(self, node: UOp, src: tuple[UOp, ...]) -> UOp:
        """PARAM p → BITCAST(p, uint16); registers hold float32, scratch of a core the code."""
        space, stored = node.arg.space, self._stored(node.dtype)
        if space is AddressSpace.ALU:
            return self._decoded(node.bitcast(stored), node.dtype)
        if node.op is Op.BUFFER and space is not AddressSpace.GLOBAL:
            held = dtypes.float32 if space is AddressSpace.REG else stored
            return node.replace(arg=node.arg._replace(dtype=held))
        return node.bitcast(stored)

    def _load(self, node: UOp, src: tuple[UOp, ...]) -> UOp:
        rebuilt = node.replace(src=src)
        if rebuilt.dtype is dtypes.float32:
            return rebuilt
        return self._decoded(rebuilt, node.dtype)

    def _store(self, node: UOp, src: tuple[UOp, ...]) -> UOp:
        place, value, *gate = src
        if place.dtype is not dtypes.float32:
            value = self._encoded(value, node.src[1].dtype)
        return node.replace(src=(place, value, *gate))

    def _cast(self, node: UOp, src: tuple[UOp, ...]) -> UOp:
        value = src[0]
        if node.dtype not in self.lowered:
            return value.cast(node.dtype)
        if value.dtype is dtypes.float64:
            value = round_to_odd(value)
        exact = node.src[0].dtype is node.dtype or value.dtype.kind == "bool"
        value = value.cast(dtypes.float32)
        return value if exact else self._rounded(value, node.dtype)

    def _bitcast(self, node: UOp, src: tuple[UOp, ...]) -> UOp:
        old, new, value = node.src[0].dtype, node.dtype, src[0]
        place = _is_place(node.src[0])
        if old in self.lowered and not place:
            value = self._encoded(value, old)
        if new not in self.lowered:
            return value.bitcast(new)
        value = value.bitcast(self._stored(new))
        return value if place else self._decoded(value, new)

    def _other(self, node: UOp, src: tuple[UOp, ...]) -> UOp:
        rebuilt = node.replace(src=src)
        inexact = node.op not in _EXACT and rebuilt.dtype is dtypes.float32
        if inexact and node.dtype in self.lowered:
            return self._rounded(rebuilt, node.dtype)
        return rebuilt


def _is_place(node: UOp) -> bool:
    """Whether a node names storage rather than a value."""
    while node.op in _VIEWS or node.op is Op.BITCAST:
        node = node.src[0]
    return node.op in (Op.PARAM, Op.BUFFER) and node.arg.space is not AddressSpace.ALU
