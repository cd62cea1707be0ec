"""What a device can do, as pure data: the only thing the compiler knows about a device.

The heuristic, the cost function and the decompositions read these numbers and never a device's
name. Abilities that an object shows by what it overrides (a copy queue, `host_view`, `record`) are
not repeated here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from core.ir import DType


@dataclass(frozen=True, kw_only=True)
class MatrixUnit:
    """One instruction that multiplies small matrices: (m, k) x (k, n) + (m, n).

    Args:
        name: What the renderer calls it.
        m: Rows of the result.
        n: Columns of the result.
        k: Extent of the sum.
        operand: dtype of both operands.
        accumulator: dtype of the addend and the result.
        threads: Work items that execute it together; 1 where a single thread does.
    """

    name: str
    m: int
    n: int
    k: int
    operand: DType
    accumulator: DType
    threads: int = 1


@dataclass(frozen=True, kw_only=True)
class Target:
    """What one open device can do.

    Args:
        name: Family of the device, for people and cache keys: ``"CPU"``.
        architecture: Exactly what binaries are made for, for cache keys: ``"x86_64-avx512f"``.
        dtypes: dtypes that the device stores and computes in. core lowers all others.
        storage_dtypes: Those of `dtypes` that the device only loads, stores and casts; core
            computes them in float32 and rounds each result.
        vector_bytes: Bytes of one vector register; 0 where the device has none to address.
        vector_registers: Vector registers that a kernel may fill without spilling.
        l1_bytes: First-level data cache of one core.
        l2_bytes: Second-level cache of one core.
        cores: Cores, compute units or multiprocessors that run at the same time.
        has_threads: A kernel may have a THREAD axis: the loader splits it over `cores`.
        has_local: There is work-group memory and a BARRIER.
        local_is_fast: Work-group memory is a memory of its own, faster than what caches hold.
        scratch_bytes: Largest LOCAL memory of one kernel: of a work group, or core-private.
        max_buffers: Buffers that one kernel may take.
        global_limit: Largest number of work groups along each launch axis; None: no launch axes.
        local_limit: Largest work-group size along each launch axis; None: no launch axes.
        local_total: Largest product of a work-group's sizes; None: no launch axes.
        fma: MULACC is one instruction that rounds once.
        matrix_units: Matrix instructions, best first.
        timestamps: `wait=True` measures on the device itself.
        asynchronous: Launches return before the kernel is done.
        thread_safe: Several threads may launch at once. False: core locks around each launch.
        fork_safe: A forked child may go on using a device that its parent opened.
        wide_index: Addresses are 64 bits wide, and index arithmetic is best done so too.
        pause: Instruction, as the renderer's INS takes it, by which a thread of the host that waits
            eases its core; empty where there is none or threads of the host run nothing.
        stage: What the renderer takes: "program", a LINEAR, or "kernel", the SINK as it leaves the
            scheduler (an interpreter).
        flop_nanoseconds: Cost of one arithmetic operation of one element.
        dram_byte_nanoseconds: Cost of one byte to or from memory.
        cache_byte_nanoseconds: Cost of one byte to or from the cache.
        launch_nanoseconds: Cost of one more kernel.
    """

    name: str
    architecture: str
    dtypes: frozenset[DType]
    storage_dtypes: frozenset[DType] = frozenset()
    vector_bytes: int = 0
    vector_registers: int = 16
    l1_bytes: int = 32 * 1024
    l2_bytes: int = 1024 * 1024
    cores: int = 1
    has_threads: bool = False
    has_local: bool = False
    local_is_fast: bool = False
    scratch_bytes: int = 0
    max_buffers: int = 31
    global_limit: tuple[int, int, int] | None = None
    local_limit: tuple[int, int, int] | None = None
    local_total: int | None = None
    fma: bool = False
    matrix_units: tuple[MatrixUnit, ...] = ()
    timestamps: bool = False
    asynchronous: bool = False
    thread_safe: bool = True
    fork_safe: bool = False
    wide_index: bool = False
    pause: str = ""
    stage: str = "program"
    # The four numbers of the cost function; the defaults were measured on a 2-core server CPU
    # (algorithms.md 4.1).
    flop_nanoseconds: float = 1 / 100
    dram_byte_nanoseconds: float = 1 / 50
    cache_byte_nanoseconds: float = 1 / 400
    launch_nanoseconds: float = 2000.0

    def lanes(self, item_bytes: int) -> int:
        """Elements of `item_bytes` bytes in one vector register; 1 where there are no vectors."""
        return max(1, self.vector_bytes // item_bytes)
