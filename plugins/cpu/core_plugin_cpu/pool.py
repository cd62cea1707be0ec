"""The threads that run kernels, and the table through which they are told what to run.

The threads' loop and the caller's part are programs that core wrote and compiled
(`core.runtime.worker_programs`: the layout of table and control block is theirs). Here they get
memory and threads. A thread is Python's, so that the interpreter knows it, but stays in native
code, where it holds no lock of Python's. A forked child has none of its parent's threads and
starts new ones when it first needs them.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from core.plugin import UnsupportedError, replay_table
from core.toolchain import LoadedObject
from core_plugin_cpu.memory import HostAllocator, HostBlock

SIGNATURE: Final = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
_TABLE_BYTES: Final = replay_table.TABLE_ROWS * replay_table.ROW.size
_CONTROL_BYTES: Final = replay_table.CONTROL_WORDS * 8
_WORD: Final = struct.Struct("q")
_STACK_BYTES: Final = 16 << 20  # room for a kernel's private scratch
_FUTEX_NUMBERS: Final = {"x86_64": 202, "aarch64": 98}
# How often a worker looks for work before it sleeps: a fraction of a millisecond.
_PATIENCE: Final = 20_000


class ThreadPool:
    """Threads for kernels.

    Args:
        size: Threads, the caller's included.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.lock = threading.Lock()
        self._objects: dict[str, LoadedObject] = {}
        self._begin()

    def _begin(self) -> None:
        """Memory of their own for threads that are to come, and none yet."""
        self._process = os.getpid()
        self.lock = threading.Lock()
        allocator = HostAllocator()
        self._control: HostBlock = allocator.allocate(_CONTROL_BYTES)
        self._table: HostBlock = allocator.allocate(_TABLE_BYTES)
        self._control.memory[:] = bytes(_CONTROL_BYTES)
        self._threads: list[threading.Thread] = []
        self._arguments: ctypes.Array[ctypes.c_int64] | None = None

    def prepare(self, support: Mapping[str, bytes]) -> None:
        """Load the programs; the first call counts.

        Raises:
            UnsupportedError: This is not Linux, whose way to let a thread sleep they use.
        """
        if not sys.platform.startswith("linux") or platform.machine() not in _FUTEX_NUMBERS:
            raise UnsupportedError("kernels are recorded on Linux alone")
        if not self._objects:
            loaded = {name: LoadedObject(binary, name) for name, binary in support.items()}
            self._functions = {n: SIGNATURE(o.addresses[n]) for n, o in loaded.items()}
            self._objects = loaded

    def _slots(self) -> ctypes.Array[ctypes.c_int64]:
        """Arguments of the programs: control block, table, and their scalars."""
        process = ctypes.CDLL(None)
        address = [ctypes.cast(getattr(process, name), ctypes.c_void_p).value or 0
                   for name in ("syscall", "sched_yield")]
        # In the order of `replay_table.SCALARS`.
        return (ctypes.c_int64 * (2 + len(replay_table.SCALARS)))(
            self._control.address, self._table.address, *address,
            _FUTEX_NUMBERS[platform.machine()], _PATIENCE)

    def _start(self) -> None:
        """Start the threads, each on a core of its own but the caller's if there are enough."""
        cores = sorted(os.sched_getaffinity(0))
        before = threading.stack_size(_STACK_BYTES)
        try:
            for k in range(1, self.size):
                core = cores[k] if len(cores) >= self.size else None
                thread = threading.Thread(
                    target=self._serve, args=(k, core, self._arguments), name=f"core-cpu-{k}",
                    daemon=True)
                thread.start()
                self._threads.append(thread)
        finally:
            threading.stack_size(before)

    def _serve(
        self, number: int, core: int | None, arguments: ctypes.Array[ctypes.c_int64]
    ) -> None:
        if core is not None:
            with suppress(OSError):  # a container may forbid it; then the system chooses
                os.sched_setaffinity(0, {core})
        self._functions["worker"](ctypes.addressof(arguments), number, number + 1, number)

    def run(self, rows: bytes, *, shared: bool) -> None:
        """Run the calls of some rows, in order; one caller at a time.

        Args:
            rows: Rows, at most as many as fit into the table at once are run together.
            shared: Whether a row is to be shared among threads.
        """
        if self._process != os.getpid():
            self._begin()
        with self.lock:
            if self._arguments is None:
                self._arguments = self._slots()
            if shared and self.size > 1 and not self._threads:
                self._start()
            threads = self.size if shared else 1
            for first in range(0, len(rows), _TABLE_BYTES):
                part = rows[first:first + _TABLE_BYTES]
                ctypes.memmove(self._table.address, part, len(part))
                self._tell(replay_table.ROWS, len(part) // replay_table.ROW.size)
                self._tell(replay_table.THREADS, threads)
                self._functions["replay"](ctypes.addressof(self._arguments), 0, 1, 0)

    def _tell(self, word: int, value: int) -> None:
        _WORD.pack_into(self._control.memory, word * _WORD.size, value)

    def close(self) -> None:
        """End the threads; a later run starts new ones."""
        if self._process != os.getpid():
            return
        with self.lock:
            if self._threads and self._arguments is not None:
                self._functions["stop"](ctypes.addressof(self._arguments), 0, 1, 0)
            threads, self._threads = self._threads, []
            for thread in threads:
                thread.join()
            lock = self.lock
            self._begin()
            self.lock = lock
