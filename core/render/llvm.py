"""render-llvm: a program becomes the text of an LLVM IR module with one function.

    LINEAR(RANGE, INDEX, LOAD, ...)  →  define void @name(ptr %args, i64 %lo, i64 %hi, i64 %tid)

`%args` is an array of 8-byte slots: the addresses of the buffers in order of their PARAM slots,
then the scalars in order of theirs, integers extended to 64 bits, floats as doubles. The
outermost loop of type THREAD runs from `%lo` to `%hi`; a program without one ignores them.

Values are registers: a value of shape (n,) is an n-lane vector, private arrays are allocated in
the entry block, where the pass SROA turns those with constant indices into registers. A scalar
that meets a vector is spread once, where it is defined.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from core.foundation.errors import CompileError
from core.ir import AddressSpace, AxisType, Op, UOp, dtypes
from core.render import llvm_memory as memory
from core.render.items import is_storage, lanes, parameters, plain, root
from core.render.llvm_arithmetic import PRINTED, cast, elementwise, horizontal
from core.render.llvm_text import (
    FunctionText,
    constant_text,
    memory_type,
    number_text,
    register_type,
    vector,
)

_ALIGNMENT: Final = 64  # bytes: the widest vector register, and a cache line
_SLOT_BYTES: Final = 8


def render_llvm(name: str, linear: UOp) -> str:
    """The text of a module that defines a program as the function `name`.

    Args:
        name: A C identifier.
        linear: LINEAR of the program's items in order.

    Raises:
        CompileError: An item has no form in LLVM IR: it should have been lowered.
    """
    return ProgramWriter(linear.src).write(name)


def _is_constant(node: UOp) -> bool:
    return node.op is Op.CONST or (
        node.op is Op.STACK and all(s.op is Op.CONST for s in node.src))


def _value_sources(node: UOp) -> tuple[UOp, ...]:
    """The sources that a node reads as values: neither shapes nor storage nor lane numbers."""
    if node.op is Op.END:
        return node.src[2:]
    if node.op in (Op.PARAM, Op.BUFFER, Op.AFTER):
        return ()
    if node.op is Op.SHRINK:
        return tuple(node.src[1].src)
    if node.op is Op.INDEX and is_storage(node.src[0]):
        index = node.src[1]
        return index.src if index.op is Op.STACK else (index,)
    return node.src


class ProgramWriter:
    """Writes the items of one program, each at its place in the order.

    A processor whose arguments, memory or launches differ is a subclass.

    Attributes:
        silent: Operations that print nothing.
    """

    silent = frozenset({Op.CONST, Op.AFTER, Op.GROUP, Op.SINK, Op.BARRIER})

    def __init__(self, items: Sequence[UOp]) -> None:
        self.items = items
        self.function = FunctionText()
        self.values: dict[UOp, str] = {}
        self.places: dict[UOp, memory.Place] = {}
        self.spread: dict[tuple[UOp, int], str] = {}
        # Open loops and conditional blocks: RANGE → (line of its phi, block before, block inside).
        self.loops: dict[UOp, tuple[int, str, str]] = {}
        self.after: dict[UOp, str] = {}
        self.wanted: dict[UOp, set[int]] = {}
        self.stacks: set[UOp] = set()
        self.write_item: dict[Op, Callable[[UOp], None]] = {
            Op.PARAM: self._param, Op.BUFFER: self._buffer, Op.RANGE: self._range,
            Op.END: self._end, Op.IF: self._if, Op.ENDIF: self._endif, Op.INDEX: self._index,
            Op.SHRINK: self._shrink, Op.LOAD: self._load, Op.STORE: self._store,
            Op.STACK: self._stack, Op.REDUCE: self._reduce, Op.BITCAST: self._bitcast,
            Op.CUSTOM: self._custom, Op.CUSTOMI: self._custom, Op.GETADDR: self._address,
            Op.ATOMIC_ADD: self._atomic_add, Op.CALL: self._call, Op.INS: self._instruction,
        }

    def write(self, name: str) -> str:
        """The whole module."""
        self._find_spread_values()
        self.slots = {p: k for k, p in enumerate(parameters(self.items))}
        for item in self.items:
            if item.op in self.silent:
                continue
            if item.op in PRINTED:
                self._define(item, elementwise(self.function, item, self.operand))
                continue
            writer = self.write_item.get(item.op)
            if writer is None:
                raise CompileError(f"{item.op.name} has no form in LLVM IR: {item!r}")
            writer(item)
        return self.function.text(name)

    def _find_spread_values(self) -> None:
        """Which scalars meet vectors, of how many lanes, and which STACKs are values."""
        for item in self.items:
            for source in _value_sources(item):
                node = plain(source)
                if node.op is Op.STACK:
                    self.stacks.add(node)
            if item.op is Op.STORE:
                count, mixed = lanes(item.src[0]), item.src[1:2]
            elif item.op in PRINTED or item.op is Op.CUSTOMI:
                count, mixed = lanes(item), item.src
            else:
                continue
            for source in mixed if count else ():
                if not source.shape and source.op is not Op.CONST:
                    self.wanted.setdefault(plain(source), set()).add(count)

    # -- values -----------------------------------------------------------------------------

    def operand(self, source: UOp, count: int = 0) -> str:
        """Text of a value in a number of lanes, 0 for a scalar."""
        node = plain(source)
        if node.op is Op.CONST:
            return constant_text(node.value, node.dtype, count)
        if node.op is Op.STACK and _is_constant(node):
            kind = register_type(node.dtype)
            return "<" + ", ".join(
                f"{kind} {number_text(s.value, s.dtype)}" for s in node.src) + ">"
        if count and not node.shape:
            return self.spread[node, count]
        return self.values[node]

    def typed(self, source: UOp, count: int = 0) -> str:
        """A value with its type."""
        return f"{register_type(source.dtype, count)} {self.operand(source, count)}"

    def _define(self, node: UOp, value: str) -> None:
        """Record a value, and spread it where vectors will want it."""
        self.values[node] = value
        if node.shape:
            return
        element = register_type(node.dtype)
        for count in sorted(self.wanted.get(node, ())):
            kind = vector(element, count)
            one = self.function.let(f"insertelement {kind} poison, {element} {value}, i32 0")
            self.spread[node, count] = self.function.let(
                f"shufflevector {kind} {one}, {kind} poison, <{count} x i32> zeroinitializer")

    # -- arguments and private arrays -------------------------------------------------------

    def _param(self, node: UOp) -> None:
        if node in self.values:
            return
        entry, function = self.function.entry, self.function
        address = function.name()
        offset = self.slots[node] * _SLOT_BYTES
        entry.append(f"  {address} = getelementptr i8, ptr %args, i64 {offset}")
        scalar = node.arg.space is AddressSpace.ALU
        stored = dtypes.float64 if node.dtype.is_float else dtypes.int64
        value = function.name()
        kind = register_type(stored) if scalar else "ptr"
        entry.append(f"  {value} = load {kind}, ptr {address}, align {_SLOT_BYTES}")
        if not scalar:
            self.values[node] = value
            return
        if not node.dtype.is_weak:
            value = cast(function, stored, node.dtype, 0, value)
        self._define(node, value)

    def _buffer(self, node: UOp) -> None:
        if node in self.values:
            return
        if node.arg.space not in (AddressSpace.REG, AddressSpace.LOCAL):
            raise CompileError(f"a program holds storage that is not private to it: {node!r}")
        self.values[node] = name = self.function.name()
        size = int(node.shape[0]) if node.shape else 1
        array = f"[{size} x {memory_type(node.dtype)}]"
        self.function.entry.append(f"  {name} = alloca {array}, align {_ALIGNMENT}")

    # -- loops and conditions ---------------------------------------------------------------

    def _range(self, node: UOp) -> None:
        """Open a loop that runs at least once, or is jumped over where its bound may be 0.

        The value of the counter one round later is known at END, which completes the phi.
        """
        function, kind = self.function, register_type(node.dtype)
        if not node.src:  # its END says whether it goes on
            inside, self.after[node] = function.label(), function.label()
            self.loops[node] = (0, inside, "")
            function.say(f"br label %{inside}")
            function.open(inside)
            return
        threaded = node.arg.axis_type is AxisType.THREAD
        first, bound = "0", "" if threaded else self.operand(node.src[0])
        if threaded:
            first, bound = (
                cast(function, dtypes.int64, node.dtype, 0, limit) for limit in ("%lo", "%hi"))
        inside, after = function.label(), function.label()
        if threaded or node.src[0].op is not Op.CONST or node.src[0].value < 1:
            runs = function.let(f"icmp slt {kind} {first}, {bound}")
            function.say(f"br i1 {runs}, label %{inside}, label %{after}")
        else:
            function.say(f"br label %{inside}")
        before = function.block
        function.open(inside)
        counter = function.name()
        function.lines.append(f"  {counter} = phi {kind} [ {first}, %{before} ], ")
        self.loops[node] = (len(function.lines) - 1, inside, bound)
        self.after[node] = after
        self._define(node, counter)

    def _end(self, node: UOp) -> None:
        function, loop = self.function, node.src[1]
        phi, inside, bound = self.loops.pop(loop)
        if not loop.src:
            again = self.operand(node.src[2])
            function.say(f"br i1 {again}, label %{inside}, label %{self.after[loop]}")
            function.open(self.after.pop(loop))
            return
        kind = register_type(loop.dtype)
        # A counter stays below its bound: saying so lets addresses be stepped instead of computed.
        following = function.let(f"add nuw nsw {kind} {self.values[loop]}, 1")
        function.lines[phi] += f"[ {following}, %{function.block} ]"
        more = function.let(f"icmp slt {kind} {following}, {bound}")
        function.say(f"br i1 {more}, label %{inside}, label %{self.after[loop]}")
        function.open(self.after.pop(loop))

    def _if(self, node: UOp) -> None:
        inside, self.after[node] = self.function.label(), self.function.label()
        gate = self.operand(node.src[0])
        self.function.say(f"br i1 {gate}, label %{inside}, label %{self.after[node]}")
        self.function.open(inside)

    def _endif(self, node: UOp) -> None:
        after = self.after.pop(node.src[0])
        self.function.say(f"br label %{after}")
        self.function.open(after)

    # -- memory -----------------------------------------------------------------------------

    def _base(self, node: UOp) -> str:
        """Address of storage; a view of another dtype has the same."""
        return self.values[root(node)]

    def _pointer(self, base: str, element: str, index: str) -> str:
        return self.function.let(f"getelementptr {element}, ptr {base}, {index}")

    def _index(self, node: UOp) -> None:
        storage, index = node.src[0], plain(node.src[1])
        if not is_storage(storage):
            self._define(node, self.function.let(
                f"extractelement {self.typed(storage, lanes(storage))}, "
                f"i32 {node.src[1].value}"))
            return
        base, element, count = self._base(storage), memory_type(node.dtype), lanes(node)
        if not count:
            pointers = [self._pointer(base, element, self.typed(index))]
        elif index.op is Op.STACK:
            pointers = [self._pointer(base, element, self.typed(s)) for s in index.src]
        else:
            vector_index, kind = self.typed(index, count), register_type(index.dtype)
            pointers = []
            for k in range(count):
                item = self.function.let(f"extractelement {vector_index}, i32 {k}")
                pointers.append(self._pointer(base, element, f"{kind} {item}"))
        self.places[node] = memory.Place(tuple(pointers), node.dtype, count, bool(count))

    def _shrink(self, node: UOp) -> None:
        first = node.src[1].src[0]
        pointer = self._pointer(
            self._base(node.src[0]), memory_type(node.dtype), self.typed(first))
        self.places[node] = memory.Place((pointer,), node.dtype, lanes(node))

    def _place(self, source: UOp) -> memory.Place:
        node = plain(source)
        if is_storage(node):  # all of a small array, as one vector
            return memory.Place((self._base(node),), node.dtype, lanes(node))
        return self.places[node]

    def _gate(self, sources: Sequence[UOp]) -> memory.Gate | None:
        if not sources:
            return None
        count = lanes(sources[0])
        return memory.Gate(self.operand(sources[0], count), count)

    def _load(self, node: UOp) -> None:
        place = self._place(node.src[0])
        self._define(node, memory.load(
            self.function, place, self._gate(node.src[1:]), ordered=node.arg is True))

    def _store(self, node: UOp) -> None:
        place = self._place(node.src[0])
        value = self.operand(node.src[1], place.lanes)
        memory.store(self.function, place, value, self._gate(node.src[2:]), node.arg)

    def _atomic_add(self, node: UOp) -> None:
        pointer, kind = self._place(node.src[0]).pointers[0], register_type(node.dtype)
        value = self.operand(node.src[1])
        self._define(node, self.function.let(
            f"atomicrmw add ptr {pointer}, {kind} {value} seq_cst"))

    def _call(self, node: UOp) -> None:
        """A function at an address, with the C signature int64 (int64...)."""
        function = self.function
        callee = function.let(f"inttoptr {self.typed(node.src[0])} to ptr")
        arguments = ", ".join(self.typed(s) for s in node.src[1:])
        self._define(node, function.let(f"call i64 {callee}({arguments})"))

    def _instruction(self, node: UOp) -> None:
        """An instruction by its intrinsic's name, with constants: "llvm.aarch64.hint i32 1"."""
        name, *rest = str(node.arg).split()
        self.function.intrinsic(name, "void", *zip(rest[::2], rest[1::2], strict=True))

    def _address(self, node: UOp) -> None:
        base = self._base(node.src[0])
        self._define(node, self.function.let(f"ptrtoint ptr {base} to i64"))

    # -- vectors ----------------------------------------------------------------------------

    def _stack(self, node: UOp) -> None:
        if node not in self.stacks or _is_constant(node):
            return
        count, value = len(node.src), "poison"
        kind = register_type(node.dtype, count)
        for k, source in enumerate(node.src):
            value = self.function.let(
                f"insertelement {kind} {value}, {self.typed(source)}, i32 {k}")
        self._define(node, value)

    def _reduce(self, node: UOp) -> None:
        source = node.src[0]
        value = self.operand(source, lanes(source))
        self._define(node, horizontal(
            self.function, node.arg.op, node.dtype, lanes(source), value))

    def _bitcast(self, node: UOp) -> None:
        source = node.src[0]
        if is_storage(source):
            return
        old, new, function = source.dtype, node.dtype, self.function
        value = self.operand(source, lanes(source))
        if new.kind == "bool" or old.kind == "bool":
            # In memory a bool is a byte: 0 or 1.
            self._define(node, cast(function, old, new, lanes(node), value))
            return
        kind, target = register_type(old, lanes(source)), register_type(new, lanes(node))
        self._define(node, value if kind == target else function.let(
            f"bitcast {kind} {value} to {target}"))

    def _custom(self, node: UOp) -> None:
        """Text of a kernel's author, an instruction: {0}, {1} stand for the sources."""
        count = lanes(node)
        sources = [self.operand(s, count or lanes(s)) for s in node.src]
        template = node.arg.text if node.op is Op.CUSTOMI else node.arg
        text = str(template).format(*sources)
        if node.op is Op.CUSTOMI:
            self._define(node, self.function.let(text))
        else:
            self.function.say(text)
