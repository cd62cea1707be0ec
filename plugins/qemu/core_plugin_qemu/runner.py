"""Launches in batches, and what happens when one of them fails.

Rows (see `server`) are written to shared memory one behind the other. As long as the emulator is
idle each launch is handed over at once, by one write to a socket; while it works, rows wait and go
together. When the process ends, by a fault of a kernel or by somebody's hand, or when a kernel
takes too long, it is started again on the same memory, and an error names the kernel. Addresses
may differ after that: whoever keeps one looks at `generation`.
"""

from __future__ import annotations

import os
import signal
import time
from bisect import bisect_right
from collections.abc import Callable
from typing import Final, NoReturn

from core.plugin import DeviceError, OutOfMemoryError
from core_plugin_qemu.architectures import Architecture
from core_plugin_qemu.emulator import Emulator, find_emulator
from core_plugin_qemu.memory import (
    PROGRESS_AT,
    ROWS_AT,
    ROWS_BYTES,
    Arena,
    Block,
    SharedMemory,
)
from core_plugin_qemu.server import REQUEST, RUN

#: Environment variable: seconds that one kernel may run.
TIME_LIMIT: Final = "QEMU_KERNEL_SECONDS"
_DEFAULT_SECONDS: Final = 120.0
_LOOKS: Final = 8  # at the progress of a batch, while one kernel may run
# Looks before this process goes to sleep: a short batch is done before it would have slept.
_LOOKS_AWAKE: Final = 200
_ANSWERS_LEFT: Final = 64  # in the socket, which holds a few hundred
_REASONS: Final = {
    signal.SIGSEGV: "reached for memory that is not there",
    signal.SIGBUS: "reached for memory that is not there",
    signal.SIGILL: "ran into an instruction that the processor does not have",
    signal.SIGTRAP: "ran into a trap",
    signal.SIGFPE: "divided by zero",
}

#: The name of the kernel whose row lies at a number of bytes behind the first of some rows.
NameAt = Callable[[int], str]


def time_limit() -> float:
    """Seconds that one kernel may run.

    Raises:
        DeviceError: The environment holds something else than a number above 0.
    """
    text = os.environ.get(TIME_LIMIT, "")
    try:
        seconds = float(text) if text else _DEFAULT_SECONDS
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise DeviceError(f"{TIME_LIMIT} is {text!r}, which is no number of seconds above 0")
    return seconds


class Runner:
    """Runs launches on one emulator; may be used by several threads.

    Attributes:
        memory: Shared with it.
        generation: Number of starts.
        lock: To be held from `reserve` to `launch`.

    Args:
        architecture: What to emulate.
        memory: Shared with it.
        command: The emulator, instead of the one on the path.

    Raises:
        DeviceError: There is no emulator, or it does not start.
    """

    def __init__(
        self, architecture: Architecture, memory: SharedMemory, command: str = ""
    ) -> None:
        self._architecture, self.memory = architecture, memory
        self._command = command or find_emulator(architecture)
        self._seconds = time_limit()
        self.lock = memory.lock
        self.generation = 0
        self._progress = memory.bytes[PROGRESS_AT:PROGRESS_AT + 8].cast("Q")
        memory.map_arena = self._map_arena
        self._start()

    def _map_arena(self, arena: Arena) -> None:
        self.synchronize()
        self._wait()
        self.emulator.map_arena(arena)

    def _start(self) -> None:
        self.emulator = Emulator(self._architecture, self.memory, self._command)
        self.generation += 1
        self._answers = 0  # that nobody has read yet
        self._forget()

    def _forget(self) -> None:
        """No rows wait and none are running."""
        self._end = self._waiting = ROWS_AT  # of all rows; first of those not handed over
        self._starts: list[int] = []  # of the rows of each launch or recording...
        self._names: list[NameAt] = []  # ... and the names of its kernels
        self._progress[0] = self.base + ROWS_AT

    @property
    def base(self) -> int:
        """Address of the first arena in the emulated process."""
        return self.emulator.bases[0]

    def address(self, block: Block) -> int:
        """Address of a block in the emulated process."""
        return self.emulator.bases[block.arena.number] + block.offset

    def restart(self) -> None:
        """End the emulator with all that waits and runs, and start another one."""
        self.emulator.end(kill=True)
        self._start()

    def close(self) -> None:
        """End the emulator for good."""
        self.emulator.close()

    # -- launches ---------------------------------------------------------------------------

    def reserve(self, size: int) -> int:
        """Where in the memory rows of `size` bytes may be written; hold the lock.

        Raises:
            DeviceError: Launches made before failed.
            OutOfMemoryError: So many rows never fit.
        """
        if self._end + size > ROWS_AT + ROWS_BYTES:
            if size > ROWS_BYTES:
                raise OutOfMemoryError(f"rows of {size} bytes do not fit into {ROWS_BYTES}")
            self.synchronize()
        return self._end

    def launch(self, size: int, name_at: NameAt) -> None:
        """Run the rows that were written at what `reserve` said; returns before they are done.

        Raises:
            DeviceError: The emulator is gone.
        """
        self._starts.append(self._end)
        self._names.append(name_at)
        self._end += size
        if self._progress[0] == self.base + self._waiting:
            self._hand_over()

    def _hand_over(self) -> None:
        """Hand the waiting rows over."""
        if self._answers >= _ANSWERS_LEFT:
            self._wait()
        base, first = self.base, self._waiting
        self._waiting = self._end
        self._answers += 1
        if not self.emulator.send(REQUEST.pack(
                RUN, base + first, base + self._end, base + PROGRESS_AT, 0, 0, 0, 0)):
            self._fail()

    def synchronize(self) -> None:
        """Return when all rows are done.

        Raises:
            DeviceError: A kernel failed, or took too long, or the emulator is gone.
        """
        with self.lock:
            if not self._starts:
                return
            try:
                if self._waiting < self._end:
                    self._hand_over()
                end = self.base + self._end
                for _ in range(_LOOKS_AWAKE):
                    if self._progress[0] == end:
                        break
                else:
                    self._wait()
            except DeviceError:
                raise
            except BaseException:  # Ctrl-C: what is running may never end
                self.restart()
                raise
            self._forget()

    def _wait(self) -> None:
        """Wait for all answers, as long as the rows go on."""
        seen, since = -1, 0.0
        while self._answers:
            try:
                found = len(self.emulator.answers(self._answers, self._seconds / _LOOKS))
            except TimeoutError:
                now = time.monotonic()
                if self._progress[0] != seen:
                    seen, since = self._progress[0], now
                elif now - since >= self._seconds:
                    self._fail(
                        f"ran longer than {self._seconds:g} s, the limit that {TIME_LIMIT} sets")
                continue
            if not found:
                self._fail()
            self._answers -= found

    def _fail(self, reason: str = "") -> NoReturn:
        """Start again, and say which kernel failed and how."""
        code, words = self.emulator.end(kill=bool(reason))
        at = self._progress[0] - self.base
        number = bisect_right(self._starts, at) - 1
        kernel = ""
        if number >= 0 and at < self._end:
            kernel = self._names[number](at - self._starts[number])
        self._start()
        device = f"QEMU:{self._architecture.name}"
        again = "the emulator was started again and memory is as it was"
        if "ERROR" in words:  # an assertion of the emulator: that of Hexagon about what it decodes
            reason = f"holds what the emulator cannot run ({words})"
        elif not reason and -code in _REASONS:
            reason = f"{_REASONS[signal.Signals(-code)]} ({words})"
        if kernel and reason:
            message = f"kernel {kernel} on {device} {reason}; {again}"
        else:
            where = f"at kernel {kernel}" if kernel else "between two kernels"
            message = f"the emulator of {device} ended {where}: {words}; {again}"
        raise DeviceError(f"{message}, launches after it did not run")
