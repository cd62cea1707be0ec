"""A pool of threads that run parts of one kernel at a time.

The threads sleep on a lock each; the caller runs a part itself. Kernels run in native code, where
Python's lock is released. The pool lives as long as its device; a forked child, which has none of
its parent's threads, starts new ones when it first needs them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

#: A kernel's function: (argument slots, first item, item after the last, thread).
Function = Callable[[bytes, int, int, int], None]
_STACK_BYTES: Final = 16 << 20  # room for a kernel's private scratch


class _Job:
    """One run of a kernel: shares of its items, each taken by whichever thread is free."""

    def __init__(self, function: Function, arguments: bytes, items: int, share: int) -> None:
        self.function, self.arguments, self.items, self.share = function, arguments, items, share
        self.starts = iter(range(0, items, share))

    def work(self, thread: int) -> None:
        """Take shares until none is left; `next` of a range's iterator is atomic in CPython."""
        for first in self.starts:
            self.function(self.arguments, first, min(first + self.share, self.items), thread)

    def cancel(self) -> None:
        """Leave no share for anyone."""
        for _ in self.starts:
            pass


class _Worker:
    """A thread that waits for parts."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.start, self.done = threading.Lock(), threading.Lock()
        self.start.acquire()
        self.done.acquire()
        self.job: _Job | None = None
        self.stopping = False
        self.thread = threading.Thread(
            target=self._serve, name=f"core-cpu-{number}", daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        while True:
            self.start.acquire()
            if self.stopping or self.job is None:
                return
            self.job.work(self.number)
            self.done.release()

    def stop(self) -> None:
        """End the thread, once the part that it may be running is done."""
        self.stopping = True
        with suppress(RuntimeError):  # it was told to start and has not noticed yet
            self.start.release()
        self.thread.join()


class ThreadPool:
    """Threads for the parts of a kernel.

    Args:
        size: Threads, the caller's included.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._process = os.getpid()
        self._busy = threading.Lock()
        self._workers: list[_Worker] = []

    def _enter(self) -> bool:
        """Take the pool; False where another thread of the program is using it."""
        if self._process != os.getpid():
            # In a forked child the threads, and whoever held the lock, are the parent's.
            self._process, self._busy, self._workers = os.getpid(), threading.Lock(), []
        return self._busy.acquire(blocking=False)

    def _started(self, count: int) -> list[_Worker]:
        missing = count - len(self._workers)
        if missing > 0:
            before = threading.stack_size(_STACK_BYTES)
            try:
                for _ in range(missing):
                    self._workers.append(_Worker(len(self._workers) + 1))
            finally:
                threading.stack_size(before)
        return self._workers[:count]

    def run(self, function: Function, arguments: bytes, items: int, share: int = 1) -> None:
        """Run items [0, items) of a kernel, `share` of them at a time on each thread.

        When another thread of the program uses the pool, the caller runs all items itself. After
        Ctrl-C nothing runs any more when `KeyboardInterrupt` is raised.
        """
        parts = min(self.size, -(-items // share))
        if parts < 2 or not self._enter():
            function(arguments, 0, items, 0)
            return
        job = _Job(function, arguments, items, share)
        try:
            workers = self._started(parts - 1)
            for worker in workers:
                worker.job = job
                worker.start.release()
            job.work(0)
            for worker in workers:
                worker.done.acquire()
        except BaseException:
            job.cancel()
            self._stop()  # interrupted anywhere above: begin again with new threads
            raise
        finally:
            self._busy.release()

    def _stop(self) -> None:
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.stop()

    def close(self) -> None:
        """End the threads; a later run starts new ones."""
        if self._enter():
            try:
                self._stop()
            finally:
                self._busy.release()
