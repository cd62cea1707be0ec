"""The arguments a UOp may carry: hashable named tuples of plain data, each with a text form."""

from __future__ import annotations

from enum import IntEnum, auto
from typing import Any, Final, NamedTuple

from core.ir.dtype import DType, Scalar, bits_float, float_bits, round_to_float, wrap_integer
from core.ir.operation import Op


class AddressSpace(IntEnum):
    """Where storage lives.

    Device memory; work-group memory or core-private scratch; registers; or nowhere (ALU: scalar
    arguments and functions of an index).
    """

    GLOBAL = auto()
    LOCAL = auto()
    REG = auto()
    ALU = auto()


class AxisType(IntEnum):
    """What a loop becomes. The order is that of nesting, outermost first."""

    DEVICE = auto()
    GLOBAL = auto()
    THREAD = auto()
    LOCAL = auto()
    WARP = auto()
    LOOP = auto()
    GROUP_REDUCE = auto()
    REDUCE = auto()
    UPCAST = auto()
    LANE = auto()
    UNROLL = auto()


class _InvalidType:
    """The value that is not there: see DESIGN 2, "Invalid propagates"."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "Invalid"


Invalid: Final = _InvalidType()
_INVALID_BITS: Final = "invalid"


class Constant(NamedTuple):
    """A constant keyed by its bits: -0.0 is not 0.0, and every NaN is one NaN.

    `bits` is the integer itself for integers and bool, the 64 bits of the double for floats,
    and the string "invalid" for Invalid.
    """

    dtype: DType
    bits: int | str

    @property
    def value(self) -> Any:
        """The constant as a Python bool, int or float, or `Invalid`."""
        if self.bits == _INVALID_BITS:
            return Invalid
        assert isinstance(self.bits, int)
        if self.dtype.is_float:
            return bits_float(self.bits)
        return bool(self.bits) if self.dtype.kind == "bool" else self.bits


def constant(value: Scalar | _InvalidType, dtype: DType) -> Constant:
    """The constant of a Python number in `dtype`: floats are rounded, machine integers wrap.

    Raises:
        ValueError: A NaN or an infinity for an integer dtype.
    """
    if isinstance(value, _InvalidType):
        return Constant(dtype, _INVALID_BITS)
    if dtype.is_float:
        return Constant(dtype, float_bits(round_to_float(float(value), dtype)))
    if dtype.kind == "bool":
        return Constant(dtype, int(bool(value)))
    if value != value or value in (float("inf"), float("-inf")):
        raise ValueError(f"{value} is no value of {dtype}")
    return Constant(dtype, wrap_integer(int(value), dtype))


class ParamSlot(NamedTuple):
    """PARAM: which argument of the CALL stands here. A Variable has a name and bounds."""

    slot: int
    dtype: DType
    device: str | tuple[str, ...] | None = None
    space: AddressSpace = AddressSpace.GLOBAL
    minimum: int | None = None
    maximum: int | None = None
    name: str | None = None
    volatile: bool = False


class BufferSlot(NamedTuple):
    """BUFFER: the number that names a piece of storage within this process."""

    slot: int
    dtype: DType
    device: str | tuple[str, ...] | None = None
    space: AddressSpace = AddressSpace.GLOBAL


class Reduction(NamedTuple):
    """REDUCE: the operation, and how many leading axes it removes (0 once lowered)."""

    op: Op
    axes: int


class LoopRange(NamedTuple):
    """RANGE: a number that tells ranges of one kernel apart, and what the loop becomes."""

    id: int
    axis_type: AxisType


class KernelInfo(NamedTuple):
    """SINK of a kernel.

    Attributes:
        name: For people.
        actions: The loop actions applied so far, as replayable text.
        dynamic: Threads take items of the THREAD loop one by one, not in equal shares.
    """

    name: str = ""
    actions: tuple[str, ...] | None = None
    dynamic: bool = False


class CallInfo(NamedTuple):
    """CALL of a graph.

    Attributes:
        name: For people.
        gradient: Name under which a user's gradient is registered, or nothing.
        precompile: The body is a unit: arguments and results are stored, and equal bodies are
            scheduled and compiled once. Otherwise it becomes part of the graph around it.
    """

    name: str = ""
    gradient: str = ""
    precompile: bool = False


class ProgramInfo(NamedTuple):
    """PROGRAM: what a launch needs besides the binary.

    Attributes:
        name: Symbol of the function.
        global_size: Launch extent; item 0 is the number of work items of a threaded CPU kernel.
        local_size: Work-group extent on a GPU; of a threaded CPU kernel, how many items a thread
            takes at a time; or None.
        scalars: Names of the ALU-space PARAMs, in the order in which they are passed.
        buffers: PARAM slots in the order in which they are passed.
        writes: Those of `buffers` that are written.
        flops: Floating point operations of one launch.
        bytes_moved: Bytes read and written by one launch, each place counted once.
    """

    name: str
    global_size: tuple[int, ...] = (1,)
    local_size: tuple[int, ...] | None = None
    scalars: tuple[int, ...] = ()
    buffers: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    flops: int = 0
    bytes_moved: int = 0


class CustomText(NamedTuple):
    """CUSTOM and CUSTOMI: text by a kernel's author; {0}, {1} stand for the sources."""

    text: str
    dtype: DType


ARGUMENT_TYPES: Final = {
    t.__name__: t
    for t in (
        Constant, ParamSlot, BufferSlot, Reduction, LoopRange, KernelInfo, CallInfo, ProgramInfo,
        CustomText,
    )
}
