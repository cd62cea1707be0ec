"""What the lanes of a warp do together: shuffles, votes, products of small matrices.

Fragments are laid out as "PTX ISA", section "Matrix multiply-accumulate operation using mma
instruction", draws them: `g` is a lane's number divided by 4, `t` the rest.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from core.plugin import DeviceError
from core_plugin_cuda.simulator.arithmetic import widen_bfloat16

WARP: Final = 32
_LANES: Final = np.arange(WARP)
_G, _T = _LANES // 4, _LANES % 4


class Warps:
    """The lanes of a launch as warps.

    Args:
        warp_of: Warp of each lane.
        lane_of: Number of each lane within its warp.
        count: Warps.
    """

    def __init__(self, warp_of: Any, lane_of: Any, count: int) -> None:
        self._warp_of, self._lane_of, self._count = warp_of, lane_of, count

    def _spread(self, values: Any, lanes: Any, fill: Any = 0) -> Any:
        """Values of some lanes as a row for each warp."""
        values = np.asarray(values)
        rows = np.full((self._count, WARP), fill, values.dtype)
        rows[self._warp_of[lanes], self._lane_of[lanes]] = values
        return rows

    def _gather(self, rows: Any, lanes: Any) -> Any:
        return rows[self._warp_of[lanes], self._lane_of[lanes]]

    def check(self, mask: Any, lanes: Any) -> None:
        """Every lane that a mask names must be here.

        Raises:
            DeviceError: One is elsewhere: the warp has diverged.
        """
        here = self._spread(np.ones(np.shape(self._warp_of[lanes]), np.bool_), lanes)
        bits = (here.astype(np.uint64) << np.arange(WARP, dtype=np.uint64)).sum(1)
        there = self._spread(np.ones(len(self._warp_of), np.bool_), slice(None))
        exist = (there.astype(np.uint64) << np.arange(WARP, dtype=np.uint64)).sum(1)
        warp = self._warp_of[lanes]
        wanted = np.asarray(mask).astype(np.uint64) & exist[warp]
        if (wanted & ~bits[warp]).any():
            raise DeviceError("lanes of a warp that should act together stand at different places")

    def shuffle(self, mode: str, value: Any, amount: Any, control: Any, lanes: Any
                ) -> tuple[Any, Any]:
        """(the value of another lane, whether that lane is within the segment)."""
        rows = self._spread(value, lanes)
        lane = self._lane_of[lanes].astype(np.int64)
        amount = np.asarray(amount).astype(np.int64) & 31
        clamp = np.asarray(control).astype(np.int64) & 31
        segment = (np.asarray(control).astype(np.int64) >> 8) & 31
        low, high = lane & segment, (lane & segment) | (clamp & ~segment)
        if mode == "up":
            source = lane - amount
            inside = source >= high
        else:
            source = {"down": lane + amount, "bfly": lane ^ amount,
                      "idx": low | (amount & ~segment)}[mode]
            inside = source <= high
        source = np.where(inside, source, lane)
        return rows[self._warp_of[lanes], source], inside

    def vote(self, mode: str, value: Any, lanes: Any) -> Any:
        """all, any, uni as predicates; ballot as bits."""
        value = np.broadcast_to(value, np.shape(self._warp_of[lanes]))
        rows = self._spread(value, lanes, fill=mode == "all")
        if mode == "ballot":
            bits = (rows.astype(np.uint64) << np.arange(WARP, dtype=np.uint64)).sum(1)
            found = bits.astype(np.uint32)
        else:
            here = self._spread(np.ones_like(value), lanes)
            some, every = rows.any(1), (rows | ~here).all(1)
            found = {"any": some, "all": rows.all(1), "uni": every | ~some}[mode]
        return found[self._warp_of[lanes]]

    def multiply(self, shape: str, kind: str, a: list[Any], b: list[Any], c: list[Any], lanes: Any
                 ) -> list[Any]:
        """mma: rows of `a` times columns of `b` plus `c`, all of them fragments; in float32."""
        depth = int(shape.rpartition("k")[2])
        left, right, total = (np.zeros((self._count, *size), np.float32)
                              for size in ((16, depth), (depth, 8), (16, 8)))
        each = 1 if kind == "tf32" else 2
        for k, register in enumerate(a):
            for e, part in enumerate(_parts(self._spread(register, lanes), kind)):
                left[:, _G + 8 * (k & 1), _T * each + e + 4 * each * (k >> 1)] = part
        for k, register in enumerate(b):
            for e, part in enumerate(_parts(self._spread(register, lanes), kind)):
                right[:, _T * each + e + 4 * each * k, _G] = part
        for k, register in enumerate(c):
            total[:, _G + 8 * (k >> 1), _T * 2 + (k & 1)] = self._spread(register, lanes)
        result = left @ right + total
        return [self._gather(result[:, _G + 8 * (k >> 1), _T * 2 + (k & 1)], lanes)
                for k in range(4)]


def _parts(bits: Any, kind: str) -> list[Any]:
    """The numbers of a register of 32 bits, as float32."""
    if kind == "tf32":
        return [(bits & np.uint32(0xFFFFE000)).view(np.float32)]
    halves = [(bits >> np.uint32(16 * e)).astype(np.uint16) for e in (0, 1)]
    if kind == "bf16":
        return [widen_bfloat16(half) for half in halves]
    return [half.view(np.float16).astype(np.float32) for half in halves]
