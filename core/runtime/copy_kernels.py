"""copy_with_kernel: bytes moved by programs that core writes and the device's renderer compiles.

    to[i + a] = start[i + b]      for i < n

Length and offsets are arguments, so a device compiles three programs, whatever it copies: of
elements of 16 bytes (four words), 4 and 1. A long copy is several launches.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from core.compiler.compile import compile_linear
from core.ir import AddressSpace, CallInfo, KernelInfo, Op, ParamSlot, UOp, dtypes, toposort
from core.plugin.interfaces import OpenDevice
from core.plugin.opening import OpenedDevice
from core.plugin.target import Target
from core.runtime.launch import Launch, bind_launch, launch_lock

#: Bytes that one launch copies at most: its counters fit into 32 bits.
LAUNCH_BYTES: Final = 1 << 30
#: Bytes of an element, the largest first.
ELEMENTS: Final = (16, 4, 1)
_WORD: Final = 4
# Storage that an index of 32 bits reaches, and that any copy may be in.
_NARROW_BYTES, _WIDE_BYTES = (1 << 31) - 16, 1 << 46
# Slots of the scalars; the last two are how many words of each storage there are.
_COUNT, _TO, _START, _SIZES = 2, 3, 4, 5


class Part(NamedTuple):
    """One launch; all but `element` are in elements.

    Attributes:
        element: Bytes of an element.
        to: First element written.
        start: First element read.
        length: Elements.
    """

    element: int
    to: int
    start: int
    length: int


def parts_of(to: int, start: int, size_bytes: int) -> Iterator[Part]:
    """The launches that copy some bytes: as many of the largest elements as offsets allow.

    Args:
        to: First byte written.
        start: First byte read.
        size_bytes: Bytes to copy; for 0 there is no launch.
    """
    for element in ELEMENTS:
        if to % element or start % element:
            continue
        while size_bytes >= element:
            count = min(size_bytes, LAUNCH_BYTES) // element
            yield Part(element, to // element, start // element, count)
            moved = count * element
            to, start, size_bytes = to + moved, start + moved, size_bytes - moved


def copy_kernel(element: int, target: Target) -> UOp:
    """SINK of the program that copies elements of some bytes.

    Args:
        element: 16, 4 or 1.
        target: Whether indices may need 64 bits.
    """
    dtype, words = (dtypes.uint8, 1) if element == 1 else (dtypes.uint32, element // _WORD)
    reach = _WIDE_BYTES if target.wide_index or dtypes.int64 in target.dtypes else _NARROW_BYTES
    sizes = [UOp.variable(f"size{k}", 1, reach // dtype.itemsize, slot=_SIZES + k)
             for k in range(2)]
    storage = [UOp(Op.PARAM, (UOp.dims((size,)),), ParamSlot(k, dtype, None, AddressSpace.GLOBAL))
               for k, size in enumerate(sizes)]
    count = UOp.variable("count", 1, LAUNCH_BYTES // element, slot=_COUNT)
    # No block ends beyond `reach`, so the last element does not either.
    furthest = (reach - LAUNCH_BYTES) // element
    to, start = (UOp.variable(name, 0, furthest, slot=slot)
                 for name, slot in (("to", _TO), ("start", _START)))
    loops = [UOp.range(count, 0)] + ([UOp.range(words, 1)] if words > 1 else [])
    word = loops[1] if words > 1 else UOp.const(0)

    def place(number: int, first: UOp) -> UOp:
        return storage[number].index((loops[0] + first) * words + word)

    stored = place(0, to).store(UOp(Op.LOAD, (place(1, start),))).end(*loops)
    return UOp.sink(stored, info=KernelInfo(f"copy{element}"))


class CopyKernels:
    """The three programs of a device, compiled when they are first wanted.

    Args:
        opened: The device that runs them.
    """

    def __init__(self, opened: OpenedDevice) -> None:
        self._opened = opened
        self._launches: dict[int, Launch] = {}

    def copy(self, to: Any, to_offset: int, start: Any, start_offset: int, size: int) -> None:
        """Copy bytes between two blocks that the device's programs reach."""
        for part in parts_of(to_offset, start_offset, size):
            launch = self._launches.get(part.element)
            if launch is None:
                launch = self._launches[part.element] = self._compiled(part.element)
            words = 1 if part.element == 1 else part.element // _WORD
            with launch_lock(self._opened):
                launch.run([to, start], {
                    _COUNT: part.length, _TO: part.to, _START: part.start,
                    _SIZES: (part.to + part.length) * words,
                    _SIZES + 1: (part.start + part.length) * words}, wait=False)

    def _compiled(self, element: int) -> Launch:
        opened = self._opened
        sink = copy_kernel(element, opened.target)
        arguments = sorted((n for n in toposort(sink) if n.op is Op.PARAM),
                           key=lambda n: n.arg.slot)
        call = UOp(Op.CALL, (sink, *arguments), CallInfo(f"copy{element}"))
        (compiled,) = compile_linear(UOp(Op.LINEAR, (call,)), lambda name: opened).src
        return bind_launch(compiled, opened, len(arguments))


_kernels: WeakKeyDictionary[OpenDevice, CopyKernels] = WeakKeyDictionary()


def copy_kernels(opened: OpenedDevice) -> CopyKernels:
    """The copy programs of an open device."""
    found = _kernels.get(opened.device)
    if found is None:
        found = _kernels[opened.device] = CopyKernels(opened)
    return found
