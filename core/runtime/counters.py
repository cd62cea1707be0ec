"""`GlobalCounters`: what has run and what is in memory, for people and tests."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final


@dataclass
class Counters:
    """Counts since the process started or `reset`.

    Attributes:
        kernel_count: Launches.
        global_ops: Floating point operations of those launches.
        global_mem: Bytes that they read and wrote.
        time_sum_s: Seconds that they ran, where they were timed (DEBUG=2).
        mem_used: Bytes of storage alive; not reset.
        mem_peak: Largest `mem_used` so far.
    """

    kernel_count: int = 0
    global_ops: int = 0
    global_mem: int = 0
    time_sum_s: float = 0.0
    mem_used: int = 0
    mem_peak: int = 0

    def reset(self) -> None:
        """Start counting anew; storage that is alive stays counted."""
        used = self.mem_used
        for field in fields(self):
            setattr(self, field.name, field.default)
        self.mem_used = self.mem_peak = used


GlobalCounters: Final = Counters()
