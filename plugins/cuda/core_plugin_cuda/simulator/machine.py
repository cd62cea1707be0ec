"""Runs kernels: groups of lanes that stand at the same basic block, the first block first.

Where a branch divides a group, the parts go on separately; smallest block first, they meet again
where their paths join. At a barrier lanes wait until nothing else can run. Blocks in which lanes
of a warp act together run after all others, so that whoever can still come has come.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, Final

import numpy as np

from core.plugin import DeviceError
from core_plugin_cuda.simulator.arithmetic import DTYPES, UNSIGNED
from core_plugin_cuda.simulator.memory import (
    BASE,
    LOCAL_WINDOW,
    SHARED_WINDOW,
    AccessError,
    GlobalMemory,
    LocalMemory,
    SharedMemory,
)
from core_plugin_cuda.simulator.ptx import SIZES, Kernel
from core_plugin_cuda.simulator.translate import Translated, translate
from core_plugin_cuda.simulator.warp import WARP, Warps

#: Lanes that run at a time: as fast as more of them, and they fit a cache.
_LANES: Final = 8192
#: A kernel that runs longer has an endless loop.
KERNEL_SECONDS: Final = 300.0
_LOOK_EVERY: Final = 256
Size = tuple[int, int, int]
_COMBINE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor, "exch": lambda old, new: new}


class Function:
    """A kernel that is ready to run.

    Args:
        kernel: As it was read.

    Attributes:
        name: Of the kernel.
        parameters: Name and type of each.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.name, self.parameters = kernel.name, kernel.parameters
        self.kernel = kernel
        self.code: Translated = translate(kernel)

    def launch(self, memory: GlobalMemory, groups: Size, items: Size, values: Sequence[Any],
               dynamic_bytes: int = 0) -> None:
        """Run it once.

        Args:
            memory: Of the device.
            groups: Work groups along x, y, z.
            items: Threads of each along x, y, z.
            values: Of the parameters.
            dynamic_bytes: Work-group memory besides what the kernel declares.

        Raises:
            DeviceError: It does what no correct kernel does; names kernel, group and thread.
        """
        arguments = {
            name: np.asarray(value).astype(DTYPES[kind]).view(UNSIGNED[SIZES[kind]])[()]
            for (name, kind), value in zip(self.parameters, values, strict=True)}
        threads, count = items[0] * items[1] * items[2], groups[0] * groups[1] * groups[2]
        step = max(1, _LANES // threads)
        started = monotonic()
        with np.errstate(all="ignore"):
            for first in range(0, count, step):
                _Batch(self, memory, arguments, (groups, items),
                       range(first, min(first + step, count)), dynamic_bytes).run(started)


class _Batch:
    """Some work groups of a launch; translated code calls its methods.

    Attributes:
        special: Special registers.
        registers: Those that live longer than a block, as unsigned integers.
    """

    def __init__(self, function: Function, memory: GlobalMemory, arguments: dict[str, Any],
                 sizes: tuple[Size, Size], numbers: range, dynamic_bytes: int) -> None:
        self.function, self.memory, self.arguments = function, memory, arguments
        code, kernel = function.code, function.kernel
        groups, items = sizes
        self._threads = threads = items[0] * items[1] * items[2]
        self._lanes = lanes = len(numbers) * threads
        self._first = numbers.start
        self._sizes = sizes
        lane = np.arange(lanes, dtype=np.uint32)
        thread, group = lane % np.uint32(threads), lane // np.uint32(threads)
        number = group + np.uint32(numbers.start)
        self.special = _special_registers(thread, number, groups, items)
        warps = -(-threads // WARP)
        self._group_of = group
        warp_of = group * np.uint32(warps) + thread // np.uint32(WARP)
        self.warps = Warps(warp_of, thread % np.uint32(WARP), len(numbers) * warps)
        self.registers = [np.zeros(lanes, dtype) for dtype in code.registers]
        size = kernel.shared_bytes + dynamic_bytes
        self.shared = SharedMemory(
            len(numbers), size, code.shared_piece, group, warp_of) if size else None
        self._local = LocalMemory(lanes, kernel.local_bytes)
        self._parked: dict[int, list[Any]] = {}

    # -- control ----------------------------------------------------------------------------

    def run(self, started: float) -> None:
        """Run to the end."""
        code = self.function.code
        ready: dict[int, list[Any]] = {0: [slice(None)]}
        steps = 0
        while ready or self._parked:
            if not ready:
                ready = self._pass_barrier()
            block = min(ready, key=code.order)
            parts = ready.pop(block)
            lanes = parts[0] if len(parts) == 1 else np.sort(np.concatenate(parts))
            count = self._lanes if isinstance(lanes, slice) else len(lanes)
            if count == self._lanes:
                lanes = slice(None)
            try:
                following = code.blocks[block](self, lanes, count)
            except AccessError as error:
                raise self._explained(error, lanes) from error
            except DeviceError as error:
                raise DeviceError(f"the kernel {self.function.name} failed: {error}") from error
            for target, part in following:
                ready.setdefault(target, []).append(part)
            steps += 1
            if steps % _LOOK_EVERY == 0 and monotonic() - started > KERNEL_SECONDS:
                raise DeviceError(f"the kernel {self.function.name} ran longer than "
                                  f"{KERNEL_SECONDS} s on the simulator")

    def _explained(self, error: AccessError, lanes: Any) -> DeviceError:
        """The error with the kernel's name, the group and the thread."""
        lane = int(np.arange(self._lanes)[lanes][error.lane])
        names = [",".join(str(int(self.special[f"%{kind}.{axis}"][lane])) for axis in "xyz")
                 for kind in ("ctaid", "tid")]
        return DeviceError(f"the kernel {self.function.name} failed: {error}, in thread "
                           f"({names[1]}) of work group ({names[0]})")

    def branch(self, lanes: Any, taken: Any, target: int, other: int) -> Sequence[tuple[int, Any]]:
        """Where lanes go, by a predicate."""
        if taken.all():
            return ((target, lanes),) if target >= 0 else ()
        if not taken.any():
            return ((other, lanes),)
        index = np.arange(self._lanes) if isinstance(lanes, slice) else lanes
        away = (target, index[taken])
        return (away, (other, index[~taken])) if target >= 0 else ((other, index[~taken]),)

    def trap(self, lanes: Any) -> None:
        """A kernel gives up."""
        raise AccessError("it executed a trap", 0)

    def park(self, block: int, lanes: Any) -> Sequence[tuple[int, Any]]:
        """Lanes wait at a barrier, behind which a block begins."""
        self._parked.setdefault(block, []).append(np.arange(self._lanes)[lanes])
        return ()

    def _pass_barrier(self) -> dict[int, list[Any]]:
        """Let everybody go on.

        Raises:
            DeviceError: Threads of a group wait at different barriers, or some have ended.
        """
        parked, self._parked = self._parked, {}
        where = np.full(self._lanes, -1)
        for block, parts in parked.items():
            for part in parts:
                where[part] = block
        rows = where.reshape(-1, self._threads)
        wrong = (rows != rows[:, :1]).any(1)
        if wrong.any():
            raise DeviceError(
                f"the kernel {self.function.name} failed: not all threads of the work group number "
                f"{self._first + int(np.flatnonzero(wrong)[0])} come to the same barrier")
        if self.shared is not None:
            self.shared.pass_barrier(where >= 0, whole_group=True)
        return parked

    def meet_in_warp(self, mask: Any, lanes: Any) -> None:
        """A barrier of a warp."""
        self.warps.check(mask, lanes)
        if self.shared is not None:
            self.shared.pass_barrier(lanes, whole_group=False)

    # -- memory -----------------------------------------------------------------------------

    def locate(self, space: str, address: Any, access: tuple[int, int, str], lanes: Any
               ) -> tuple[Any, Any]:
        """(memory in items, position of the first item) for each lane.

        Args:
            space: "global", "shared", "local" or "generic".
            address: Of each lane.
            access: Bytes of an item, items, and "load", "store" or "atomic".
            lanes: Which they are.
        """
        size, count, use = access
        if space == "generic":
            space, address = self._space_of(address)
        if space == "global":
            return self.memory.locate(address, size, count, use)
        if space == "local":
            return self._local.locate(address, size, count, np.arange(self._lanes)[lanes])
        if self.shared is None:
            raise DeviceError("it reaches for work-group memory and has none")
        return self.shared.locate(address, size, count, lanes, use)

    @staticmethod
    def _space_of(address: Any) -> tuple[str, Any]:
        least, most = int(np.min(address)), int(np.max(address))
        for space, start in (("local", LOCAL_WINDOW), ("shared", SHARED_WINDOW), ("global", BASE)):
            if least >= start or space == "global":
                if space != "local" and most >= (
                        SHARED_WINDOW if space == "global" else LOCAL_WINDOW):
                    raise DeviceError("generic addresses of several kinds in one instruction")
                return space, address if space == "global" else address - np.uint64(start)
        raise AssertionError

    @staticmethod
    def put(cells: Any, index: Any, values: Any) -> None:
        """Store; where all lanes store to one place, the last of them wins."""
        cells[index] = values if np.ndim(index) or not np.ndim(values) else values[-1]

    def atomic(self, kind: str, place: tuple[Any, Any], values: Sequence[Any], count: int,
               dtype: Any) -> Any:
        """An atomic operation, lane after lane; returns what was there before."""
        cells, index = place[0].view(dtype), np.broadcast_to(place[1], (count,))
        columns = [np.broadcast_to(value, (count,)) for value in values]
        before = np.empty(count, dtype)
        for lane, cell in enumerate(index):
            old = before[lane] = cells[cell]
            if kind == "cas":
                cells[cell] = columns[1][lane] if old == columns[0][lane] else old
            elif kind == "inc":
                cells[cell] = 0 if old >= columns[0][lane] else old + dtype(1)
            else:
                cells[cell] = _COMBINE[kind](old, columns[0][lane])
        return before

    def reduce(self, kind: str, place: tuple[Any, Any], value: Any, count: int, dtype: Any
               ) -> None:
        """An atomic operation whose result nobody wants."""
        combine: Any = _COMBINE[kind]
        combine.at(place[0].view(dtype), np.broadcast_to(place[1], (count,)), value)


def _special_registers(thread: Any, number: Any, groups: Size, items: Size) -> dict[str, Any]:
    x, y, gx, gy = (np.uint32(n) for n in (items[0], items[1], groups[0], groups[1]))
    found = {
        "%tid.x": thread % x, "%tid.y": thread // x % y, "%tid.z": thread // (x * y),
        "%ctaid.x": number % gx, "%ctaid.y": number // gx % gy, "%ctaid.z": number // (gx * gy),
        "%laneid": thread % np.uint32(WARP), "%warpid": thread // np.uint32(WARP),
    }
    for axis, size, count in zip("xyz", items, groups, strict=True):
        found[f"%ntid.{axis}"], found[f"%nctaid.{axis}"] = np.uint32(size), np.uint32(count)
    return found
