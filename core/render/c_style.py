"""render-c: a program becomes one function in a dialect of C.

    LINEAR(RANGE, INDEX, LOAD, ...)  →  void name(const long long *args, long long lo, ...) {...}

Each item with a value is a variable that is set once; loops and conditions are blocks, so what
belongs to a loop is seen in it alone. A value of shape (n,) is a vector where the dialect has one
of that kind, else n variables. What C leaves open is never relied upon (`c_style_arithmetic`).

With `CDialect.parameters` as plain C has them, `args` are 8-byte slots: the addresses of the
buffers in order of their PARAM slots, then the scalars in order of theirs, integers extended to 64
bits, floats as doubles. The outermost loop of type THREAD runs from `lo` to `hi`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from core.foundation.errors import CompileError
from core.ir import ELEMENTWISE, AddressSpace, AxisType, DType, Op, UOp, dtypes
from core.render.c_style_arithmetic import ALWAYS, Arithmetic, literal
from core.render.c_style_dialects import PLAIN_C, CDialect
from core.render.items import is_storage, lanes, parameters, plain, root

_SILENT: Final = frozenset({Op.CONST, Op.STACK, Op.AFTER, Op.GROUP, Op.SINK})


def c_code_for_op(dialect: CDialect = PLAIN_C, *, fma: bool = False) -> frozenset[Op]:
    """The elementwise ops that `render_c` prints.

    Args:
        dialect: The dialect.
        fma: Whether the target has a fused multiply-add instruction; without one MULACC is slow.
    """
    return ALWAYS | (frozenset(dialect.functions) - (frozenset() if fma else {Op.MULACC}))


def render_c(name: str, linear: UOp, dialect: CDialect = PLAIN_C) -> str:
    """The text of one function.

    Args:
        name: A C identifier.
        linear: LINEAR of the program's items in order.
        dialect: What things are called.

    Raises:
        CompileError: An item has no form in this dialect: it should have been lowered.
    """
    return FunctionWriter(linear.src, dialect).write(name)


class _Place(NamedTuple):
    """Where a LOAD or STORE goes: storage, and an index, or one for each lane."""

    base: str
    indices: tuple[str, ...]
    contiguous: bool = False

    def lane(self, k: int) -> str:
        """The element of a lane."""
        if not self.contiguous:
            return f"{self.base}[{self.indices[k]}]"
        return f"{self.base}[{self.indices[0]}{f' + {k}' if k else ''}]"


class FunctionWriter:
    """Writes the items of one program, each at its place in the order.

    A language that is no C but has its shape is a subclass: it says where arguments come from and
    how memory is read and written.
    """

    def __init__(self, items: Sequence[UOp], dialect: CDialect) -> None:
        self.items, self.dialect = items, dialect
        self.lines: list[str] = []
        self.arrays: list[str] = []
        self.types: dict[str, str] = {}  # name of a vector type → its declaration
        self.values: dict[UOp, tuple[str, ...]] = {}  # a text for each lane
        self.vectors: dict[UOp, str] = {}
        self.depth = 1
        self.scalar = Arithmetic(dialect, self._type)
        self.write_item: dict[Op, Callable[[UOp], None]] = {
            Op.PARAM: self._param, Op.BUFFER: self._buffer, Op.RANGE: self._range,
            Op.END: self._end, Op.IF: self._if, Op.ENDIF: self._close, Op.LOAD: self._load,
            Op.STORE: self._store, Op.INDEX: self._lane, Op.SHRINK: lambda _: None,
            Op.REDUCE: self._reduce, Op.BITCAST: self._bitcast, Op.CUSTOM: self._custom,
            Op.CUSTOMI: self._custom, Op.GETADDR: self._address, Op.CALL: self._call,
            Op.ATOMIC_ADD: self._atomic_add, Op.SPECIAL: self._special, Op.BARRIER: self._barrier,
            Op.INS: lambda node: self.say(f"{node.arg};"),
        }

    def write(self, name: str) -> str:
        """The whole text."""
        dialect = self.dialect
        params = parameters(self.items)
        self.slots = {p: k for k, p in enumerate(params)}
        for item in self.items:
            if item.op in _SILENT or item in self.values:
                continue
            if item.op in ELEMENTWISE:
                self._elementwise(item)
            elif item.op in self.write_item:
                self.write_item[item.op](item)
            else:
                raise self._no_form(item.op.name)
        of_function = dialect.parameters or ", ".join(map(self._declared, params))
        head = dialect.function.format(name=name, parameters=of_function)
        return "\n".join(filter(None, (
            dialect.heading, *self.types.values(), f"{head} {{", *self.arrays, *self.lines,
            "}\n")))

    def say(self, statement: str) -> None:
        """Write a statement."""
        self.lines.append("  " * self.depth + statement)

    def _no_form(self, what: str) -> CompileError:
        return CompileError(f"{what} has no form in {self.dialect.name}: it should be lowered")

    # -- types ------------------------------------------------------------------------------

    def _type(self, dtype: DType) -> str:
        """Type of a value in a register."""
        found = self.dialect.types.get(dtypes.int64 if dtype.is_weak else dtype)
        if found is None:
            raise self._no_form(dtype.name)
        return found

    def _memory_type(self, dtype: DType) -> str:
        """Type of a value in memory: bool takes a byte, what has no type is seen as another."""
        if dtype.kind == "bool" or not (dtype.is_weak or dtype in self.dialect.types):
            dtype = dtypes.uint16 if dtype.itemsize == 2 else dtypes.uint8
        return self._type(dtype)

    def _is_vector(self, dtype: DType, count: int) -> bool:
        vectors = self.dialect.vectors
        return vectors is not None and vectors.hold(dtype, count)

    def _vector_type(self, dtype: DType, count: int) -> str:
        vectors = self.dialect.vectors
        assert vectors is not None
        name = vectors.name.format(dtype=dtype.name, type=self._type(dtype), count=count)
        self.types.setdefault(name, vectors.declaration.format(
            name=name, type=self._type(dtype), size=dtype.itemsize * count,
            lane_size=dtype.itemsize))
        return name

    def _pointer(self, node: UOp, dtype: DType) -> str:
        space = node.arg.space
        volatile = "volatile " if node.op is Op.PARAM and node.arg.volatile else ""
        return f"{volatile}{self.dialect.spaces.get(space, '')}{self._memory_type(dtype)} *"

    # -- values -----------------------------------------------------------------------------

    def text(self, source: UOp, lane: int = 0) -> str:
        """One lane of a value; a scalar is the same in all of them."""
        node = plain(source)
        if node.op is Op.STACK:
            node, lane = plain(node.src[lane]), 0
        if node.op is Op.CONST:
            return literal(self.dialect, node.value, node.dtype)
        values = self.values[node]
        return values[lane if node.shape else 0]

    def lanes_of(self, source: UOp, count: int) -> list[str]:
        """Every lane of a value; of a scalar for each lane, where `count` is not 0."""
        return [self.text(source, k) for k in range(max(count, 1))]

    def vector(self, source: UOp, count: int) -> str:
        """A value as one vector."""
        found = self.vectors.get(plain(source))
        return found or self._built(source.dtype, self.lanes_of(source, count))

    def _built(self, dtype: DType, values: Sequence[str]) -> str:
        assert self.dialect.vectors is not None
        name = self._vector_type(dtype, len(values))
        return self.dialect.vectors.build.format(name=name, lanes=", ".join(values))

    def _define(self, node: UOp, values: Sequence[str]) -> None:
        """Name a value given lane by lane."""
        name, count = f"v{len(self.values)}", lanes(node)
        if not count:
            self.values[node] = (name,)
            self.say(self._defined(node.dtype, name, values[0]))
        elif self._is_vector(node.dtype, count):
            self._define_vector(node, self._built(node.dtype, values))
        else:
            self.values[node] = names = tuple(f"{name}_{k}" for k in range(count))
            self.say(" ".join(
                self._defined(node.dtype, n, v) for n, v in zip(names, values, strict=True)))

    def _defined(self, dtype: DType, name: str, value: str) -> str:
        """The statement that names a value."""
        return self.dialect.define.format(type=self._type(dtype), name=name, value=value)

    def _define_vector(self, node: UOp, value: str) -> None:
        assert self.dialect.vectors is not None
        name, count = f"v{len(self.values)}", lanes(node)
        self.vectors[node] = name
        self.values[node] = tuple(
            self.dialect.vectors.lane.format(value=name, lane=k) for k in range(count))
        self.say(f"{self._vector_type(node.dtype, count)} {name} = {value};")

    def _elementwise(self, node: UOp) -> None:
        count, vectors = lanes(node), self.dialect.vectors
        if vectors and node.op in vectors.operators and self._is_vector(node.dtype, count):
            whole = Arithmetic(self.dialect, lambda d: self._vector_type(d, count), vector=True)
            self._define_vector(node, whole.elementwise(
                node, [self.vector(s, count) for s in node.src]))
            return
        columns = [self.lanes_of(s, count) for s in node.src]
        self._define(node, [
            self.scalar.elementwise(node, values) for values in zip(*columns, strict=True)])

    # -- arguments and private arrays -------------------------------------------------------

    def _declared(self, node: UOp) -> str:
        """A parameter of the function; not every dialect passes bools."""
        if node.arg.space is AddressSpace.ALU:
            return f"{self._memory_type(node.dtype)} s{node.arg.slot}"
        return f"{self._pointer(node, node.dtype)}b{node.arg.slot}"

    def _param(self, node: UOp) -> None:
        scalar = node.arg.space is AddressSpace.ALU
        self.values[node] = (f"{'s' if scalar else 'b'}{node.arg.slot}",)
        if not self.dialect.parameters:
            return
        slot = f"args[{self.slots[node]}]"
        if not scalar:
            value = f"({self._pointer(node, node.dtype)}){slot}"
        elif node.dtype.is_float:
            value = self.scalar.cast(dtypes.float64, node.dtype, f"*(const double *)&{slot}")
        else:
            value = self.scalar.cast(dtypes.int64, node.dtype, slot)
        self.arrays.append(f"  {self._declared(node)} = {value};")

    def _buffer(self, node: UOp) -> None:
        space = node.arg.space
        if space not in (AddressSpace.REG, AddressSpace.LOCAL):
            raise CompileError(f"a program holds storage that is not private to it: {node!r}")
        name = f"a{len(self.values)}"
        self.values[node] = (name,)
        size = int(node.shape[0]) if node.shape else 1
        self.arrays.append(f"  {self.dialect.spaces.get(space, '')}"
                           f"{self._memory_type(node.dtype)} {name}[{size}]{self.dialect.array};")

    def _special(self, node: UOp) -> None:
        kind, axis = str(node.arg)[:1], str(node.arg)[-1:]
        if kind not in self.dialect.launch:
            raise self._no_form(f"the launch index {node.arg}")
        self._define(node, [self.dialect.launch[kind].format(axis=axis)])

    # -- loops and conditions ---------------------------------------------------------------

    def _open(self, head: str) -> None:
        self.say(f"{head} {{")
        self.depth += 1

    def _close(self, _node: UOp) -> None:
        self.depth -= 1
        self.say("}")

    def _range(self, node: UOp) -> None:
        if not node.src:  # its END says whether it goes on
            self._open(self.dialect.endless)
            return
        name = f"r{len(self.values)}"
        self.values[node] = (name,)
        first, bound = "0", self.text(node.src[0])
        if node.arg.axis_type is AxisType.THREAD:
            first, bound = self.dialect.loop
        self._open(self.dialect.counting.format(
            type=self._type(node.dtype), name=name, first=first, bound=bound))

    def _end(self, node: UOp) -> None:
        if len(node.src) > 2:
            self.say(f"if (!{self.text(node.src[2])}) {{ break; }}")
        self._close(node)

    def _if(self, node: UOp) -> None:
        self._open(f"if ({self.text(node.src[0])})")

    def _barrier(self, _node: UOp) -> None:
        if self.dialect.barrier:
            self.say(self.dialect.barrier)

    # -- memory -----------------------------------------------------------------------------

    def _base(self, source: UOp, dtype: DType) -> str:
        """Storage as an array of a dtype."""
        storage = root(source)
        name = self.values[storage][0]
        if storage.dtype is dtype:
            return name
        return f"(({self._pointer(storage, dtype)}){name})"

    def _place(self, source: UOp) -> _Place:
        node = plain(source)
        if is_storage(node):  # all of a small array, as one vector
            return _Place(self._base(node, node.dtype), ("0",), bool(node.shape))
        base = self._base(node.src[0], node.dtype)
        if node.op is Op.SHRINK:
            return _Place(base, (self.text(node.src[1].src[0]),), contiguous=True)
        return _Place(base, tuple(self.lanes_of(node.src[1], lanes(node))))

    def _load(self, node: UOp) -> None:
        place, count = self._place(node.src[0]), lanes(node)
        gate = node.src[1] if len(node.src) > 1 else None
        if (place.contiguous and (gate is None or not gate.shape)
                and self._is_vector(node.dtype, count)):
            assert self.dialect.vectors is not None
            value = self.dialect.vectors.load.format(
                name=self._vector_type(node.dtype, count), count=count,
                pointer=f"&{place.lane(0)}")
            if gate is not None:
                zeros = self._built(node.dtype, ["0"] * count)
                value = f"{self.text(gate)} ? {value} : {zeros}"
            self._define_vector(node, value)
            return
        values = []
        for k in range(max(count, 1)):
            value = place.lane(k)
            if node.arg is True:
                value = self._form(self.dialect.ordered_load, "ordered LOAD", place=value)
            if node.dtype.kind == "bool":
                value = f"{value} != 0"  # any byte but 0 is True, whoever wrote it
            values.append(value if gate is None else self.scalar.choose(
                self.text(gate, k), value, "0"))
        self._define(node, values)

    def _store(self, node: UOp) -> None:
        place, value = self._place(node.src[0]), node.src[1]
        dtype, count = node.src[0].dtype, lanes(node.src[0])
        gate = node.src[2] if len(node.src) > 2 else None
        if (place.contiguous and (gate is None or not gate.shape)
                and self._is_vector(dtype, count)):
            assert self.dialect.vectors is not None
            statements = [self.dialect.vectors.store.format(
                name=self._vector_type(dtype, count), count=count, pointer=f"&{place.lane(0)}",
                value=self.vector(value, count))]
        else:
            form = "{place} = {value};"
            if node.arg is True:
                form = self.dialect.ordered_store
            statements = [
                self._form(form, "ordered STORE", place=place.lane(k), value=self.text(value, k))
                for k in range(max(count, 1))]
        for k, statement in enumerate(statements):
            self.say(statement if gate is None else f"if ({self.text(gate, k)}) {{ {statement} }}")

    def _form(self, form: str, what: str, **parts: str) -> str:
        if not form:
            raise self._no_form(what)
        return form.format(**parts)

    def _atomic_add(self, node: UOp) -> None:
        self._define(node, [self._form(
            self.dialect.atomic_add, node.op.name, place=self._place(node.src[0]).lane(0),
            value=self.text(node.src[1]))])

    def _address(self, node: UOp) -> None:
        self._define(node, [f"({self._type(node.dtype)}){self._base(node.src[0], node.dtype)}"])

    def _call(self, node: UOp) -> None:
        """A function at an address, with the C signature int64 (int64...)."""
        kind, arguments = self._type(dtypes.int64), [self.text(s) for s in node.src[1:]]
        signature = ", ".join([kind] * len(arguments)) or "void"
        self._define(node, [
            f"(({kind} (*)({signature})){self.text(node.src[0])})({', '.join(arguments)})"])

    # -- vectors ----------------------------------------------------------------------------

    def _lane(self, node: UOp) -> None:
        """A lane of a vector has a name already; a place is written where it is used."""
        if not is_storage(node.src[0]):
            self.values[node] = (self.text(node.src[0], int(node.src[1].value)),)

    def _reduce(self, node: UOp) -> None:
        """By halving: lane k meets lane k + n/2; those beyond a power of two come last."""
        source, op, count = node.src[0], node.arg.op, lanes(node.src[0])
        names, tail = self.lanes_of(source, count), 1 << (count.bit_length() - 1)
        self.values[node] = (name := f"v{len(self.values)}",)
        step = 0

        def meet(a: str, b: str) -> str:
            nonlocal step
            step += 1
            value = self.scalar.plain(op, node.dtype, (a, b))
            self.say(self._defined(node.dtype, f"{name}_{step}", value))
            return f"{name}_{step}"

        rest, names = names[tail:], names[:tail]
        while len(names) > 1:
            half = len(names) // 2
            names = [meet(a, b) for a, b in zip(names[:half], names[half:], strict=True)]
        for lane in rest:
            names = [meet(names[0], lane)]
        self.values[node] = (names[0],)

    def _bitcast(self, node: UOp) -> None:
        source = node.src[0]
        if is_storage(source):
            return
        old, new = source.dtype, node.dtype
        values, count = self.lanes_of(source, lanes(source)), max(lanes(node), 1)
        if "bool" in (old.kind, new.kind):  # in memory a bool is a byte: 0 or 1
            self._define(node, [self.scalar.cast(old, new, value) for value in values])
            return
        if self.dialect.bits:
            self._define(node, [self.dialect.bits.format(type=self._type(new), value=value)
                                for value in values])
            return
        union = f"u{len(self.values)}"
        self.say(f"union {{ {self._type(old)} from[{len(values)}]; {self._type(new)} to[{count}]; "
                 f"}} {union} = {{{{{', '.join(values)}}}}};")
        self._define(node, [f"{union}.to[{k}]" for k in range(count)])

    def _custom(self, node: UOp) -> None:
        """Text of a kernel's author: {0}, {1} stand for the sources, lane by lane."""
        template = str(node.arg.text if node.op is Op.CUSTOMI else node.arg)
        count = lanes(node)
        columns = [self.lanes_of(s, count) for s in node.src]
        if node.op is Op.CUSTOMI:
            rows = zip(*columns, strict=True) if columns else [()] * max(count, 1)
            self._define(node, [template.format(*values) for values in rows])
        else:
            self.say(template.format(*(column[0] for column in columns)))
