"""A line on the terminal while compiling takes long: `compiling for CPU: 12 of 45 kernels`."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Final, Self

from core.foundation.settings import settings

# Whoever waits less than this does not want to be told.
_SECONDS: Final = 1.0
_ERASE: Final = "\r\x1b[K"


class ProgressLine:
    """Tells how far a long compilation is, on a terminal only, and leaves no trace.

    Args:
        device: For what it compiles.
        total: Number of kernels.
        after_seconds: How long to say nothing.
    """

    def __init__(self, device: str, total: int, after_seconds: float = _SECONDS) -> None:
        self._device, self._total = device, total
        self._start = time.monotonic() + after_seconds
        self._wanted = settings.PROGRESS and not settings.DEBUG and sys.stderr.isatty()
        self._shown = False

    def __enter__(self) -> Self:
        return self

    def show(self, done: int) -> None:
        """`done` kernels are ready."""
        if self._wanted and time.monotonic() >= self._start:
            self._shown = True
            sys.stderr.write(
                f"{_ERASE}compiling for {self._device}: {done} of {self._total} kernels")
            sys.stderr.flush()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Take the line away again."""
        if self._shown:
            sys.stderr.write(_ERASE)
            sys.stderr.flush()
