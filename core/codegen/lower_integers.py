"""lower-integers: 8, 16 and 64-bit integers, and bools in memory, by words of 32 bits.

    value of int8        → int32 that holds an int8 number
    ADD(a, b)            → wrap(ADD(a, b)), wrap = shift left and back
    value of int64       → two uint32, low and high (`wide_integers`)
    LOAD(uint8 p[i])     → (LOAD(words p[i / 4]) >> 8 (i mod 4)) & 255
    STORE(uint8 p[i], v) → ATOMIC_ADD(words p[i / 4], (v - old byte) << 8 (i mod 4))
    STORE of whole words → STORE of words: no one else writes them

Adding the difference of a byte changes no other one, whoever else adds to the word meanwhile.
Private storage holds each narrow integer in a word of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from core.codegen.decompose import wide_integers as wide
from core.codegen.decompose.arithmetic import Context
from core.codegen.decompose.wide_integers import Pair
from core.codegen.expand_tiles import as_vectors
from core.foundation.errors import CompileError
from core.ir import (
    ELEMENTWISE,
    AddressSpace,
    DType,
    Op,
    UOp,
    bounds,
    dtypes,
    map_graph,
    open_ranges,
    toposort,
)
from core.plugin.target import Target
from core.simplify import simplify, terms_of

_NARROW: Final = (dtypes.int8, dtypes.int16, dtypes.uint8, dtypes.uint16)
_WIDE: Final = (dtypes.int64, dtypes.uint64, dtypes.float64)
_WRAPPED: Final = frozenset({Op.ADD, Op.SUB, Op.MUL, Op.NEG, Op.SHL, Op.TRUNCDIV})
_VIEWS: Final = frozenset({Op.AFTER, Op.BITCAST})
_Lowered = UOp | Pair


def lower_integers(root: UOp, target: Target) -> UOp:
    """The kernel with integers of 32 bits in place of those that the target lacks.

    Raises:
        CompileError: An operation has no such form.
    """
    lacking = frozenset(d for d in (*_NARROW, *_WIDE) if d not in target.dtypes)
    order = toposort(root)
    if dtypes.uint8 in lacking:
        lacking |= {dtypes.bool}
    if not any(node.dtype in lacking for node in order):
        return root
    lowered = simplify(_Lowering(lacking, target).run(order))
    return map_graph(lowered, as_vectors)


def _root(node: UOp) -> UOp:
    while node.op in _VIEWS:
        node = node.src[0]
    return node


def _is_storage(node: UOp) -> bool:
    node = _root(node)
    return node.op is Op.BUFFER or (
        node.op is Op.PARAM and node.arg.space is not AddressSpace.ALU)


def _work(dtype: DType) -> DType:
    return dtypes.int32 if dtype.kind == "signed" else dtypes.uint32


def _wrap(x: UOp, dtype: DType) -> UOp:
    """The low bits of a 32-bit integer, as a number of a narrow dtype."""
    x = x.bitcast(_work(dtype))
    if dtype.kind != "signed":
        return x & ((1 << dtype.bits) - 1)
    return (x << (32 - dtype.bits)) >> (32 - dtype.bits)


def _lane(x: UOp, k: int) -> UOp:
    """One lane; a scalar is the same in all of them."""
    return x.src[k] if x.op is Op.STACK else (
        x.index(UOp.const(k, dtypes.int32)) if x.shape else x)


def _vector(parts: Sequence[UOp], like: UOp) -> UOp:
    return UOp.stack(*parts) if like.shape else parts[0]


def _lanes(node: UOp) -> int:
    return int(node.shape[0]) if node.shape else 1


class _Lowering:
    """One walk over a kernel; `done` maps a node to what stands for it."""

    def __init__(self, lacking: frozenset[DType], target: Target) -> None:
        self.lacking = lacking
        self.context = Context(target, ())
        self.done: dict[UOp, _Lowered] = {}
        self.special: dict[Op, Callable[[UOp], _Lowered | None]] = {
            Op.CONST: self._constant, Op.PARAM: self._argument, Op.BUFFER: self._private,
            Op.LOAD: self._load, Op.STORE: self._store, Op.CAST: self._cast,
            Op.BITCAST: self._bitcast, Op.REDUCE: self._reduce,
        }

    def run(self, order: list[UOp]) -> UOp:
        """The last node of the order, lowered."""
        for node in order:
            special = self.special.get(node.op)
            found = special(node) if special else None
            self.done[node] = self._other(node) if found is None else found
        return self.one(order[-1])

    def one(self, node: UOp) -> UOp:
        """What stands for a node that is no 64-bit value."""
        found = self.done[node]
        if isinstance(found, Pair):
            raise CompileError(
                f"a 64-bit integer stands where the device {self.context.target.name}, which has "
                f"none, cannot do with two words")
        return found

    def pair(self, node: UOp) -> Pair:
        """What stands for a 64-bit value."""
        found = self.done[node]
        assert isinstance(found, Pair)
        return found

    # -- values -----------------------------------------------------------------------------

    def _other(self, node: UOp) -> _Lowered:
        if node.op in (Op.INDEX, Op.SHRINK) and _is_storage(node.src[0]) and (
                node.dtype in self.lacking):
            return node  # `_load` and `_store` read it
        if node.op in (Op.INDEX, Op.SHRINK) and _is_storage(node.src[0]):
            return self._rebuilt(node)
        first = self.done[node.src[0]] if node.src else None
        if node.dtype in _WIDE and isinstance(self.done[node.src[-1]], Pair) and (
                node.op in ELEMENTWISE):
            return self._wide_operation(node)
        if node.op in (Op.CMPLT, Op.CMPEQ, Op.CMPNE) and isinstance(first, Pair):
            self._refuse_float64(node)
            second = self.pair(node.src[1])
            if node.op is Op.CMPLT:
                return wide.less(first, second, signed=node.src[0].dtype is dtypes.int64)
            same = wide.equal(first, second)
            return same if node.op is Op.CMPEQ else same.logical_not()
        if node.op is Op.STACK and node.dtype in self.lacking and node.dtype in _WIDE:
            pairs = [self.pair(s) for s in node.src]
            return Pair(UOp.stack(*(p.low for p in pairs)), UOp.stack(*(p.high for p in pairs)))
        if isinstance(first, Pair) and node.op in (Op.INDEX, Op.AFTER):
            rest = self._flat(node.src[1:])
            return Pair(*(UOp(node.op, (half, *rest), node.arg) for half in first))
        sources = self._flat(node.src) if node.op not in ELEMENTWISE else (
            tuple(map(self.one, node.src)))
        if node.dtype in _NARROW and node.dtype in self.lacking and node.op in ELEMENTWISE:
            if node.op in (Op.SHL, Op.SHR):
                sources = (sources[0], sources[1] & (node.dtype.bits - 1))
            found = UOp(node.op, sources, node.arg)
            return _wrap(found, node.dtype) if node.op in _WRAPPED else found
        return node if sources == node.src else UOp(node.op, sources, node.arg, node.tag)

    def _refuse_float64(self, node: UOp) -> None:
        if dtypes.float64 in self.lacking and any(
                n.dtype is dtypes.float64 for n in (node, *node.src)):
            raise CompileError(
                f"{self.context.target.name} does not compute in float64, only moves it: "
                f"{node.op.name} was asked for", cure="use float32, or another device")

    def _flat(self, nodes: Sequence[UOp]) -> tuple[UOp, ...]:
        result: list[UOp] = []
        for node in nodes:
            found = self.done[node]
            result += found if isinstance(found, Pair) else (found,)
        return tuple(result)

    def _wide_operation(self, node: UOp) -> Pair:
        op, signed = node.op, node.dtype is dtypes.int64
        if op is Op.WHERE:
            return wide.choose(self.one(node.src[0]), *map(self.pair, node.src[1:]))
        self._refuse_float64(node)
        a, *others = map(self.pair, node.src)
        if op is Op.NEG:
            return wide.negate(a)
        if op is Op.TRUNC:
            return a
        b = others[0]
        if op in (Op.AND, Op.OR, Op.XOR):
            return Pair(UOp(op, (a.low, b.low)), UOp(op, (a.high, b.high)))
        if op in (Op.TRUNCDIV, Op.TRUNCMOD):
            return wide.divide(a, b, self.context, signed=signed)[op is Op.TRUNCMOD]
        known: dict[Op, Callable[[], Pair]] = {
            Op.ADD: lambda: wide.add(a, b), Op.SUB: lambda: wide.subtract(a, b),
            Op.MUL: lambda: wide.multiply(a, b, self.context),
            Op.MAX: lambda: wide.choose(wide.less(a, b, signed=signed), b, a),
            Op.SHL: lambda: wide.shift_left(a, b.low),
            Op.SHR: lambda: wide.shift_right(a, b.low, signed=signed),
        }
        if op not in known:
            raise CompileError(f"{op.name} of {node.dtype.name} is not done by words of 32 bits")
        return known[op]()

    def _constant(self, node: UOp) -> _Lowered | None:
        if node.dtype not in self.lacking or node.dtype.kind == "bool":
            return None
        if node.dtype in _NARROW:
            work = _work(node.dtype)
            return UOp.invalid(work) if node.is_invalid else UOp.const(node.value, work)
        if node.dtype is dtypes.float64 and not node.is_invalid:
            return wide.constant_pair(node.arg.bits)
        if node.is_invalid:
            return Pair(UOp.invalid(dtypes.uint32), UOp.invalid(dtypes.uint32))
        return wide.constant_pair(node.value)

    def _cast(self, node: UOp) -> _Lowered | None:
        old, new, value = node.src[0].dtype, node.dtype, self.done[node.src[0]]
        if old not in self.lacking and new not in self.lacking:
            return None
        self._refuse_float64(node)
        if isinstance(value, Pair):
            if new in _WIDE:
                return value
            if new.kind == "bool":
                return (value.low | value.high).ne(0)
            if new.is_float:
                return wide.to_float32(value, signed=old is dtypes.int64).cast(new)
            low = value.low if new is dtypes.uint32 else value.low.bitcast(dtypes.int32)
            return _wrap(low, new) if new in _NARROW else low.cast(new)
        if new not in self.lacking or new.kind == "bool":
            return value.ne(0) if new.kind == "bool" else value.cast(new)
        if new in _WIDE:
            if old.is_float:
                return wide.from_float32(value.cast(dtypes.float32), new)
            unsigned = old.kind in ("bool", "unsigned")
            return wide.extended(value.cast(dtypes.uint32 if unsigned else dtypes.int32))
        if value.dtype not in (dtypes.int32, dtypes.uint32):  # floats saturate to int32 first
            value = value.cast(_work(new) if old.kind == "bool" else dtypes.int32)
        return _wrap(value, new)

    def _reduce(self, node: UOp) -> _Lowered | None:
        if node.dtype not in self.lacking or node.dtype.kind == "bool":
            return None
        self._refuse_float64(node)
        value, op = self.done[node.src[0]], node.arg.op
        if not isinstance(value, Pair):
            found = node.replace(src=(value, *map(self.one, node.src[1:])))
            return _wrap(found, node.dtype)
        signed, lanes = node.dtype is dtypes.int64, _lanes(node.src[0])
        total = Pair(_lane(value.low, 0), _lane(value.high, 0))
        for k in range(1, lanes):
            following = Pair(_lane(value.low, k), _lane(value.high, k))
            if op is Op.ADD:
                total = wide.add(total, following)
            elif op is Op.MUL:
                total = wide.multiply(total, following, self.context)
            else:
                total = wide.choose(wide.less(total, following, signed=signed), following, total)
        return total

    def _bitcast(self, node: UOp) -> _Lowered | None:
        old, new, value = node.src[0].dtype, node.dtype, self.done[node.src[0]]
        if old not in self.lacking and new not in self.lacking:
            return None
        if _is_storage(node.src[0]):
            return self._view(node)
        if old in _WIDE and new in _WIDE:
            return value
        if isinstance(value, UOp) and old.itemsize == new.itemsize < 4:
            if new.kind == "bool":
                return value.ne(0)
            return _wrap(value.cast(dtypes.uint32) if old.kind == "bool" else value, new)
        return _regrouped(node, value)

    # -- memory -----------------------------------------------------------------------------

    def _argument(self, node: UOp) -> _Lowered | None:
        """Storage in words; of a scalar the low word, where bounds say that it is enough."""
        packed = node.dtype.itemsize < 4 and dtypes.bool in self.lacking  # small floats, too
        if node.dtype not in self.lacking and not packed:
            return None
        if node.arg.space is not AddressSpace.ALU:
            per_word = 4 // node.dtype.itemsize
            count = node.shape[0]
            words = count * 2 if node.dtype in _WIDE else (count + (per_word - 1)) // per_word
            return node.replace(src=(UOp.dims((words,)),),
                                arg=node.arg._replace(dtype=dtypes.uint32))
        self._refuse_float64(node)
        low, high = bounds(node)
        kind = _work(node.dtype)
        if node.dtype in _WIDE and not kind.minimum <= low <= high <= kind.maximum:
            raise CompileError(f"a scalar argument of {node.dtype.name} without bounds of 32 bits")
        found = node.replace(arg=node.arg._replace(dtype=kind))
        if node.dtype.kind == "bool":
            return found.ne(0)
        return wide.extended(found) if node.dtype in _WIDE else found

    def _private(self, node: UOp) -> _Lowered | None:
        if node.dtype not in self.lacking or node.dtype.kind == "bool":
            return None
        held = node.arg._replace(dtype=_work(node.dtype))
        if node.dtype not in _WIDE:
            return node.replace(arg=held)
        return node.replace(src=(UOp.dims((node.shape[0] * 2,)),),
                            arg=held._replace(dtype=dtypes.uint32))

    def _view(self, node: UOp) -> UOp:
        """Storage seen in another dtype: in words where either dtype is made of words."""
        storage = self.one(node.src[0])
        if node.dtype in self.lacking:
            return storage if _root(storage).op is Op.BUFFER else storage.bitcast(dtypes.uint32)
        return storage.bitcast(node.dtype)

    def _is_packed(self, place: UOp) -> bool | None:
        """Whether a place is in words that hold several values; None: it is as it was."""
        if place.op not in (Op.INDEX, Op.SHRINK) or place.dtype not in self.lacking:
            return None
        private = _root(place.src[0]).op is Op.BUFFER
        if private and place.dtype.kind == "bool":
            return None
        return not private and place.dtype not in _WIDE

    def _index(self, place: UOp) -> UOp:
        """Which elements a place is: a scalar or a vector."""
        if place.op is Op.INDEX:
            return self._address(place.src[1])
        start = self._address(place.src[1].src[0])
        return start + UOp.stack(*(UOp.const(k, start.dtype) for k in range(_lanes(place))))

    def _address(self, index: UOp) -> UOp:
        """An index: its low word, for no storage has more than 2^31 elements."""
        found = self.done[index]
        return found.low.bitcast(dtypes.int32) if isinstance(found, Pair) else found

    def _load(self, node: UOp) -> _Lowered | None:
        place, packed = node.src[0], self._is_packed(node.src[0])
        if packed is None:
            return self._plain_access(node)
        words, gate = self.one(place.src[0]), tuple(map(self.one, node.src[1:]))
        if packed:
            return self._load_packed(place, words, gate)
        if place.dtype in _WIDE:
            index = self._index(place) * 2
            return Pair(*(UOp(Op.LOAD, (words.index(i), *gate)) for i in (index, index + 1)))
        return UOp(Op.LOAD, (self._rebuilt(place), *gate))

    def _plain_access(self, node: UOp) -> UOp | None:
        """An access in a dtype that stays, whose place was left alone because of its dtype."""
        if node.src[0].op not in (Op.INDEX, Op.SHRINK) or node.src[0].dtype not in self.lacking:
            return None
        return UOp(node.op, (self._rebuilt(node.src[0]), *map(self.one, node.src[1:])), node.arg)

    def _rebuilt(self, place: UOp) -> UOp:
        storage = self.one(place.src[0])
        if place.op is Op.SHRINK:
            return storage.lanes(self._address(place.src[1].src[0]), _lanes(place))
        return storage.index(self._address(place.src[1]))

    def _load_packed(self, place: UOp, words: UOp, gate: tuple[UOp, ...]) -> UOp:
        dtype, count = place.dtype, _lanes(place)
        per_word = 4 // dtype.itemsize
        if self._is_whole(place) and not (gate and gate[0].shape):
            first = _word_number(self._address(place.src[1].src[0]), per_word)
            loaded = [UOp(Op.LOAD, (words.index(first + k), *gate))
                      for k in range(count // per_word)]
            value = UOp.stack(*(loaded[k // per_word] for k in range(count)))
            shift = UOp.stack(*(wide.word(k % per_word * 8 * dtype.itemsize) for k in range(count)))
        else:
            index = self._index(place)
            value = UOp(Op.LOAD, (words.index(_word_number(index, per_word)), *gate))
            shift = _bit_position(index, per_word, dtype.itemsize * 8)
        found = value >> shift
        return (found & 255).ne(0) if dtype.kind == "bool" else _wrap(found, dtype)

    def _is_whole(self, place: UOp) -> bool:
        """Whether a place is a number of whole words."""
        per_word = 4 // place.dtype.itemsize
        if place.op is not Op.SHRINK or _lanes(place) % per_word:
            return False
        terms, constant = terms_of(self._address(place.src[1].src[0]))
        return not any(c % per_word for c in (constant, *terms.values()))

    def _store(self, node: UOp) -> _Lowered | None:
        place, packed = node.src[0], self._is_packed(node.src[0])
        if packed is None:
            return self._plain_access(node)
        words, gate = self.one(place.src[0]), tuple(map(self.one, node.src[2:]))
        if packed:
            return self._store_packed(node, words, gate)
        if place.dtype in _WIDE:
            index, value = self._index(place) * 2, self.pair(node.src[1])
            return UOp.group(*(UOp(Op.STORE, (words.index(i), half, *gate)) for i, half in zip(
                (index, index + 1), value, strict=True)))
        return UOp(Op.STORE, (self._rebuilt(place), self.one(node.src[1]), *gate))

    def _store_packed(self, node: UOp, words: UOp, gate: tuple[UOp, ...]) -> UOp:
        place, bits = node.src[0], node.src[0].dtype.itemsize * 8
        value = self.one(node.src[1])
        value = value.cast(dtypes.uint32) if value.dtype.kind == "bool" else (
            value.bitcast(dtypes.uint32))
        value, per_word = value & ((1 << bits) - 1), 32 // bits
        lanes = [_lane(value, k) for k in range(_lanes(place))]
        if self._is_whole(place) and not (gate and gate[0].shape):
            first = _word_number(self._address(place.src[1].src[0]), per_word)
            effects = []
            for k in range(0, len(lanes), per_word):
                whole = lanes[k]
                for j in range(1, per_word):
                    whole = whole | (lanes[k + j] << (j * bits))
                effects.append(UOp(Op.STORE, (words.index(first + k // per_word), whole, *gate)))
            return UOp.group(*effects) if len(effects) > 1 else effects[0]
        # Its own old bits are read in the innermost loop, whatever the place depends on.
        index, read = self._index(place), words.after(*sorted(
            open_ranges(node), key=lambda r: r.arg.id))
        effects = []
        for k, lane in enumerate(lanes):
            at, opened = _lane(index, k), _lane(gate[0], k) if gate else None
            at = at if opened is None else opened.where(at, 0)
            position = _word_number(at, per_word)
            shift = _bit_position(at, per_word, bits)
            old = (UOp(Op.LOAD, (read.index(position),)) >> shift) & ((1 << bits) - 1)
            change = (lane - old) << shift
            change = change if opened is None else opened.where(change, 0)
            effects.append(UOp(Op.ATOMIC_ADD, (words.index(position), change)))
        return UOp.group(*effects) if len(effects) > 1 else effects[0]


def _word_number(index: UOp, per_word: int) -> UOp:
    """In which word an element stands."""
    return index >> (per_word.bit_length() - 1)


def _bit_position(index: UOp, per_word: int, bits: int) -> UOp:
    """Where in its word it stands."""
    return (index & (per_word - 1)).cast(dtypes.int32).bitcast(dtypes.uint32) * bits


def _regrouped(node: UOp, value: _Lowered) -> _Lowered:
    """A BITCAST of values between item sizes: the bits of all lanes, least first, cut anew."""
    old, new = node.src[0].dtype, node.dtype
    if isinstance(value, Pair):
        pieces = [_lane(half, k) for k in range(_lanes(node.src[0])) for half in value]
    else:
        pieces = [_lane(value, k).bitcast(dtypes.uint32) for k in range(_lanes(node.src[0]))]
    bits, wanted = min(old.bits, 32), min(new.bits, 32)
    if bits < wanted:
        step = wanted // bits
        masked = [p & ((1 << bits) - 1) for p in pieces]
        pieces = []
        for k in range(0, len(masked), step):
            whole = masked[k]
            for j in range(1, step):
                whole = whole | (masked[k + j] << (j * bits))
            pieces.append(whole)
    elif bits > wanted:
        pieces = [p >> (j * wanted) for p in pieces for j in range(bits // wanted)]
    if new in _WIDE:
        return Pair(_vector(pieces[::2], node), _vector(pieces[1::2], node))
    if new.itemsize < 4:
        return _vector([_wrap(p, new) for p in pieces], node)
    return _vector([p.bitcast(new) for p in pieces], node)
