"""Loads and stores as LLVM IR: scalars, contiguous vectors, gathers and scatters, gates.

A gated-off load touches no memory of the program: its address is replaced by that of a constant
of zeros, so straight code stays straight. A gated-off store is jumped over. Contiguous vectors
with a gate per lane are masked accesses. Gathers are scalar loads, which are faster than the
instruction on most processors.
"""

from __future__ import annotations

from typing import NamedTuple

from core.ir import DType
from core.render.llvm_text import FunctionText, memory_type, suffix, vector


class Place(NamedTuple):
    """Where a LOAD or STORE goes.

    Attributes:
        pointers: One address, or one for each lane of a gather or scatter.
        dtype: What lies there.
        lanes: Lanes; 0 for a scalar.
        scattered: Whether each lane has an address of its own.
    """

    pointers: tuple[str, ...]
    dtype: DType
    lanes: int
    scattered: bool = False


class Gate(NamedTuple):
    """The condition of an access: its value (i1) and its lanes, 0 for a scalar."""

    value: str
    lanes: int

    def of_lane(self, function: FunctionText, lane: int) -> Gate:
        """The gate of one lane, a scalar."""
        return Gate(_lane(function, "i1", self.lanes, self.value, lane), 0)


def _lane(function: FunctionText, element: str, count: int, value: str, lane: int) -> str:
    if not count:
        return value
    return function.let(f"extractelement {vector(element, count)} {value}, i32 {lane}")


def load(
    function: FunctionText, place: Place, gate: Gate | None = None, *, ordered: bool = False
) -> str:
    """Read a place; lanes that are gated off give 0. `ordered`: before all that comes after it."""
    dtype, count = place.dtype, place.lanes
    kind = memory_type(dtype, count)
    if place.scattered:
        value = "poison"
        for k, pointer in enumerate(place.pointers):
            lane_gate = gate and gate.of_lane(function, k)
            item = _load_at(function, pointer, dtype, 0, lane_gate)
            element = memory_type(dtype)
            value = function.let(f"insertelement {kind} {value}, {element} {item}, i32 {k}")
    elif gate is not None and gate.lanes:
        mask = vector("i1", count)
        value = function.intrinsic(
            f"llvm.masked.load.{_memory_suffix(dtype, count)}.p0", kind,
            (f"ptr align {dtype.itemsize}", place.pointers[0]), (mask, gate.value),
            (kind, "zeroinitializer"))
    else:
        value = _load_at(function, place.pointers[0], dtype, count, gate, ordered=ordered)
    if dtype.kind != "bool":
        return value
    # Any byte but 0 is True, whoever wrote it.
    return function.let(f"icmp ne {kind} {value}, {'zeroinitializer' if count else '0'}")


def _load_at(
    function: FunctionText, pointer: str, dtype: DType, count: int, gate: Gate | None,
    *, ordered: bool = False,
) -> str:
    """A scalar or contiguous vector, with a scalar gate."""
    if gate is not None:
        function.zeros = max(function.zeros, dtype.itemsize * max(count, 1))
        pointer = function.let(f"select i1 {gate.value}, ptr {pointer}, ptr @zeros")
    kind, align = memory_type(dtype, count), dtype.itemsize
    if ordered:
        return function.let(f"load atomic {kind}, ptr {pointer} acquire, align {align}")
    return function.let(f"load {kind}, ptr {pointer}, align {align}")


def store(
    function: FunctionText, place: Place, value: str, gate: Gate | None = None, flag: object = None
) -> None:
    """Write a value to a place; lanes that are gated off write nothing.

    Args:
        function: Where to write the text.
        place: Where the value goes.
        value: The value, in the place's dtype and lanes.
        gate: The condition, or None.
        flag: "stream" for a store that bypasses the caches: whoever asked for it promises a place
            aligned to its own size. True for a store that is ordered after what came before.
    """
    dtype, count = place.dtype, place.lanes
    kind = memory_type(dtype, count)
    if dtype.kind == "bool":
        value = function.let(f"zext {vector('i1', count)} {value} to {kind}")
    if place.scattered:
        for k, pointer in enumerate(place.pointers):
            item = _lane(function, memory_type(dtype), count, value, k)
            lane_gate = gate and gate.of_lane(function, k)
            _store_at(function, pointer, f"{memory_type(dtype)} {item}", dtype, lane_gate, flag)
    elif gate is not None and gate.lanes:
        function.intrinsic(
            f"llvm.masked.store.{_memory_suffix(dtype, count)}.p0", "void", (kind, value),
            (f"ptr align {dtype.itemsize}", place.pointers[0]), (vector("i1", count), gate.value))
    else:
        _store_at(function, place.pointers[0], f"{kind} {value}", dtype, gate, flag, count)


def _store_at(
    function: FunctionText, pointer: str, typed_value: str, dtype: DType, gate: Gate | None,
    flag: object, count: int = 0,
) -> None:
    after = ""
    if gate is not None:
        inside, after = function.label(), function.label()
        function.say(f"br i1 {gate.value}, label %{inside}, label %{after}")
        function.open(inside)
    if flag == "stream":
        size = dtype.itemsize * max(count, 1)
        function.say(f"store {typed_value}, ptr {pointer}, align {size}, !nontemporal !0")
    elif flag is True:
        function.say(f"store atomic {typed_value}, ptr {pointer} release, align {dtype.itemsize}")
    else:
        function.say(f"store {typed_value}, ptr {pointer}, align {dtype.itemsize}")
    if gate is not None:
        function.say(f"br label %{after}")
        function.open(after)


def _memory_suffix(dtype: DType, count: int) -> str:
    return f"v{count}i8" if dtype.kind == "bool" else suffix(dtype, count)
