"""render-wgsl: a program becomes one compute shader.

    LINEAR(RANGE, INDEX, LOAD, ...)  →  @compute @workgroup_size(...) fn name(...) {...}

What has the shape of C is written by `core.render`'s writer from the table below. Buffers are
arrays of 32-bit words at bindings 0, 1, ..., all of them read_write, so that two may be pieces of
one buffer; scalars are a structure behind them. The first line is a comment that tells the loader
how to launch the shader. A loop of type THREAD is spread over invocations.

WGSL leaves NaN, infinity and integer overflow in constants to the compiler, which refuses them, so
such constants are written as bits and NaN is recognised by its bits. Drivers reassociate and
contract floats, and nothing in WGSL forbids it (Mesa turns (x + c) - c into x): a result that goes
on into more arithmetic passes through `kept`, an exclusive or with 0 that compilers cannot see.
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Sequence
from typing import Any, Final

from core.foundation.errors import CompileError
from core.ir import AddressSpace, AxisType, DType, Op, UOp, bounds, dtypes
from core.render import CDialect, FunctionWriter
from core.render.items import lanes, plain, root

#: Invocations of a work group where core chose none.
GROUP_SIZE: Final = 32
#: Work groups along one axis that every device has.
GROUPS: Final = 65_535
_ZERO: Final = re.compile(r"0\.0f|bitcast<f32>\(0x[08]0000000u\)")
_SCALAR_CODES: Final = {dtypes.int32: "i", dtypes.uint32: "I", dtypes.float32: "f"}
# Float operations that compilers combine with each other.
_COMBINED: Final = frozenset({
    Op.ADD, Op.SUB, Op.MUL, Op.FDIV, Op.NEG, Op.RECIPROCAL, Op.SQRT, Op.WHERE, Op.MAX})
_KEPT: Final = """var<private> hidden: u32;
fn kept(x: f32) -> f32 {
  return bitcast<f32>(bitcast<u32>(x) ^ hidden);
}"""
_NUMBER: Final = "(bitcast<u32>({0}) & 0x7fffffffu) <= 0x7f800000u"


def wgsl_literal(value: float, dtype: DType) -> str:
    """A constant: floats that a decimal number does not say exactly are written as bits."""
    if dtype.kind == "bool":
        return "true" if value else "false"
    if dtype.is_float:
        bits = struct.unpack("I", struct.pack("f", value))[0] if value == value else 0x7FC00000
        if not math.isfinite(value) or (not bits & 0x7F800000 and bits):
            return f"bitcast<f32>(0x{bits:08x}u)"
        return f"({value!r}f)" if value < 0 else f"{value!r}f"
    if dtype is dtypes.uint32:
        return f"{int(value)}u"
    return f"i32({int(value)})"


WGSL: Final = CDialect(
    name="WGSL",
    types={dtypes.bool: "bool", dtypes.int32: "i32", dtypes.uint32: "u32", dtypes.float32: "f32"},
    suffixes={},
    infinity="bitcast<f32>(0x7f800000u)",
    nan="bitcast<f32>(0x7fc00000u)",
    functions={
        Op.SQRT: {dtypes.float32: "sqrt({0})"},
        Op.TRUNC: {dtypes.float32: "trunc({0})"},
    },
    function="fn {name}({parameters})",
    parameters="@builtin(global_invocation_id) invocation: vec3<u32>, "
               "@builtin(workgroup_id) group: vec3<u32>, "
               "@builtin(local_invocation_id) member: vec3<u32>",
    launch={"g": "group[{axis}]", "l": "member[{axis}]"},
    barrier="workgroupBarrier();",
    atomic_add="atomicAdd(&{place}, {value})",
    define="let {name}: {type} = {value};",
    cast="{name}({value})",
    choose="select({no}, {yes}, {condition})",
    bits="bitcast<{type}>({value})",
    literal=wgsl_literal,
    bool_forms={Op.XOR: "{0} != {1}", Op.SUB: "{0} != {1}", Op.CMPLT: "!{0} & {1}"},
    unequal="!({0} == {1})",
    is_number=_NUMBER,
    shift_count="u32({0})",
    counting="for (var {name}: {type} = {first}; {name} < {bound}; {name}++)",
    endless="loop",
)


def render_wgsl(name: str, linear: UOp, loop_limit: int | None = None) -> str:
    """The text of one shader.

    Args:
        name: Of its entry point.
        linear: LINEAR of the program's items in order.
        loop_limit: Iterations of all loops that one invocation may make; None: any number.

    Raises:
        CompileError: An item has no form in WGSL, or an invocation could loop longer than that.
    """
    return _ShaderWriter(linear.src, loop_limit).write(name)


class _ShaderWriter(FunctionWriter):
    """Writes the items of one program."""

    def __init__(self, items: Sequence[UOp], loop_limit: int | None) -> None:
        super().__init__(items, WGSL)
        self.loop_limit = loop_limit
        self.trips: list[int] = []  # of the loops that are open
        self.iterations = 0
        self.items_wide = False
        self.group_size: dict[str, int] = {}
        self.globals: list[str] = []
        self.scalars: list[UOp] = []
        self.buffers: list[UOp] = []
        self.kinds: dict[UOp, str] = {}
        self.atomic = {_storage(n.src[0]) for n in items if n.op is Op.ATOMIC_ADD}
        self.kept = {source for n in items if n.op in _COMBINED and n.dtype.is_float
                     for source in map(plain, n.src) if source.op in _COMBINED}
        self.keeps = False
        # Scratch of a spread loop belongs to one invocation: then it is a group of its own.
        self.width = 1 if any(n.op is Op.BUFFER and n.arg.space is AddressSpace.LOCAL
                              for n in items) else GROUP_SIZE
        self.written = {_storage(n.src[0]) for n in items if n.op in (Op.STORE, Op.ATOMIC_ADD)}

    def write(self, name: str) -> str:
        """The whole text."""
        body = super().write(name)
        if self.keeps:  # no buffer is empty
            start = f"  hidden = u32(arrayLength(&b{self.buffers[0].arg.slot}) == 0u);\n"
            body = body.replace("{\n", "{\n" + start, 1)
        if self.loop_limit is not None and self.iterations > self.loop_limit:
            raise CompileError(
                f"one invocation of the kernel {name} could make {self.iterations} loop "
                f"iterations, and this driver silently ends it after {self.loop_limit}",
                cure="use a smaller reduction, or a hardware adapter")
        size = (", ".join(str(self.group_size.get(axis, 1)) for axis in "012")
                if self.group_size else str(self.width if self.items_wide else 1))
        fields = "".join(f"  s{p.arg.slot}: {self._type(p.dtype)},\n" for p in self.scalars)
        structure = f"struct Scalars {{\n{fields}}}\n" if fields else ""
        self.globals += [f"@group(0) @binding({k}) {self.kinds[p]}"
                         for k, p in enumerate(self.buffers)]
        if self.keeps:
            self.globals.append(_KEPT)
        if fields:
            self.globals.append(
                f"@group(0) @binding({len(self.buffers)}) var<uniform> scalars: Scalars;")
        launch = {
            "buffers": len(self.buffers),
            "scalars": "".join(_SCALAR_CODES[p.dtype] for p in self.scalars),
            "written": [k for k, p in enumerate(self.buffers) if p in self.written],
            "spread": self.width if self.items_wide else 0,
        }
        return (f"// {json.dumps(launch)}\n{structure}" + "\n".join(self.globals)
                + f"\n@compute @workgroup_size({size})\n{body}")

    def _elementwise(self, node: UOp) -> None:
        """As in C, with results of float arithmetic kept from being combined with others."""
        if node.op not in _COMBINED or not node.dtype.is_float:
            super()._elementwise(node)
            return
        rows = []
        for operands in zip(*(self.lanes_of(s, lanes(node)) for s in node.src), strict=True):
            value = self.scalar.elementwise(node, _apart(node.op, operands))
            rows.append(f"kept({value})" if node in self.kept else value)
        self.keeps = self.keeps or any("kept(" in row for row in rows)
        self._define(node, rows)

    # -- arguments --------------------------------------------------------------------------

    def _param(self, node: UOp) -> None:
        if node.arg.space is AddressSpace.ALU:
            if node.dtype not in _SCALAR_CODES:
                raise self._no_form(f"a scalar argument of {node.dtype.name}")
            self.scalars.append(node)
            self.scalars.sort(key=lambda p: p.arg.slot)
            self.values[node] = (f"scalars.s{node.arg.slot}",)
            return
        self.buffers.append(node)
        name = f"b{node.arg.slot}"
        self.values[node] = (name,)
        word = "atomic<u32>" if node in self.atomic else "u32"
        self.buffers.sort(key=lambda p: p.arg.slot)
        self.kinds[node] = f"var<storage, read_write> {name}: array<{word}>;"

    def _buffer(self, node: UOp) -> None:
        name, space = f"a{len(self.values)}", node.arg.space
        self.values[node] = (name,)
        size = int(node.shape[0]) if node.shape else 1
        kind = f"{name}: array<{self._type(node.dtype)}, {size}>;"
        if space is AddressSpace.LOCAL:
            self.globals.append(f"var<workgroup> {kind}")
        elif space is AddressSpace.REG:
            self.arrays.append(f"  var {kind}")
        else:
            raise CompileError(f"a program holds storage that is not private to it: {node!r}")

    def _special(self, node: UOp) -> None:
        kind, axis = str(node.arg)[:1], str(node.arg)[-1:]
        if kind == "l":
            self.group_size[axis] = int(node.src[0].value)
        elif kind != "g":
            raise self._no_form(f"the launch index {node.arg}")
        index = self.dialect.launch[kind].format(axis=axis)
        self._define(node, [f"{self._type(node.dtype)}({index})"])

    # -- loops ------------------------------------------------------------------------------

    def _range(self, node: UOp) -> None:
        if node.src and node.arg.axis_type is AxisType.THREAD:
            name = f"r{len(self.values)}"
            self.values[node] = (name,)
            self.items_wide = True
            kind = self._type(node.dtype)
            self.say(f"let {name}: {kind} = {kind}(invocation.x + invocation.y * "
                     f"{GROUPS * self.width}u);")
            self._open(f"if ({name} < {self.text(node.src[0])})")
            self.trips.append(1)
            return
        self.trips.append(int(bounds(node.src[0])[1]) if node.src else 1)
        self.iterations += math.prod(self.trips)
        super()._range(node)

    def _end(self, node: UOp) -> None:
        self.trips.pop()
        super()._end(node)

    # -- memory -----------------------------------------------------------------------------

    def _base(self, source: UOp, dtype: DType) -> str:
        return self.values[_storage(source)][0]

    def _load(self, node: UOp) -> None:
        place, count = self._place(node.src[0]), max(lanes(node), 1)
        storage, gate = _storage(node.src[0]), node.src[1] if len(node.src) > 1 else None
        values = []
        for k in range(count):
            value = place.lane(k)
            if storage in self.atomic:
                value = f"atomicLoad(&{value})"
            value = self._seen(value, _held(storage), node.dtype)
            if gate is not None:
                zero = wgsl_literal(0, node.dtype)
                value = self.scalar.choose(self.text(gate, k), value, zero)
            values.append(value)
        self._define(node, values)

    def _store(self, node: UOp) -> None:
        place, value = self._place(node.src[0]), node.src[1]
        storage, dtype = _storage(node.src[0]), node.src[0].dtype
        gate = node.src[2] if len(node.src) > 2 else None
        for k in range(max(lanes(node.src[0]), 1)):
            text = self._seen(self.text(value, k), dtype, _held(storage))
            if storage in self.atomic:
                statement = f"atomicStore(&{place.lane(k)}, {text});"
            else:
                statement = f"{place.lane(k)} = {text};"
            self.say(statement if gate is None
                     else f"if ({self.text(gate, k)}) {{ {statement} }}")

    def _seen(self, value: str, old: DType, new: DType) -> str:
        return value if old is new else self.dialect.bits.format(
            type=self._type(new), value=value)


def _apart(op: Op, operands: Sequence[str]) -> Sequence[str]:
    """Operands of which compilers do not see that they are 0 or the same: 0 * x, x - x, x / x."""
    if op is Op.WHERE:
        return operands
    twin = len(operands) == 2 and operands[0] == operands[1]
    return [f"kept({o})" if _ZERO.fullmatch(o) or (twin and k) else o
            for k, o in enumerate(operands)]


def _storage(place: UOp) -> UOp:
    """What a place is in: a PARAM, or a private array."""
    while place.op in (Op.INDEX, Op.SHRINK):
        place = root(place).src[0]
    return root(place)


def _held(storage: UOp) -> DType:
    """What the elements of storage are in the shader."""
    held: Any = dtypes.uint32 if storage.op is Op.PARAM else storage.dtype
    return held
