"""Layout of the table by which threads of the host replay a list of calls.

`core.runtime.worker_programs` writes the programs that walk it; the plugin whose recording runs
them fills it and owns its memory. All words are int64.
"""

from __future__ import annotations

import struct
from typing import Final

#: Words of a row, and their order.
ROW_WORDS: Final = 8
FUNCTION, ARGUMENTS, ITEMS, SHARE, MEET, TAKEN = range(6)
#: One row: two addresses, four numbers, and two words that fill the cache line.
ROW: Final = struct.Struct("QQqqqq16x")
#: Rows that the table holds.
TABLE_ROWS: Final = 512
#: Words of the control block, and where each lies. Words that change hands lie on cache lines of
#: their own.
CONTROL_WORDS: Final = 32
GENERATION, SLEEPING, MET = 0, 8, 16
ROWS, THREADS, BASE, STOP = 24, 25, 26, 27
#: Scalar arguments of the programs, behind the two buffers (control, table): addresses of two C
#: functions, the number of the futex call, how often a worker looks before it sleeps.
SCALARS: Final = ("syscall", "sched_yield", "futex_number", "patience")
