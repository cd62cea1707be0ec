"""The one cost function: compute a value where it is used, in a row of scratch, or in a kernel.

Four numbers of `Target` decide: nanoseconds per operation, per byte of memory, per byte of cache,
per launch. Formulas and their derivation: algorithms 4.1 of the design, checked there against a
list of kernel counts that `tests/schedule/test_kernel_counts.py` holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from math import prod
from typing import Final

from core.ir import UOp, largest_dimension, maximum_of
from core.plugin import Target

# Accumulators of a register tile, over which loads of loops outside a REDUCE are amortised.
_TILE: Final = 64
# Rows of scratch alive at once: the rows of a register tile.
_ROWS: Final = 6
# A sum is computed inside of the one that takes its elements, if that is at most so much work.
_MELTED_WORK: Final = 2.0
# A reduction with few results and more work than this is a kernel of its own.
_LONG_REDUCTION_NANOSECONDS: Final = 20_000.0


class Choice(Enum):
    """Where a value is computed."""

    INLINE = auto()
    ROW = auto()
    BOUNDARY = auto()


@dataclass
class Load:
    """What computing one element costs if everything below is inlined."""

    flops: float = 0.0
    bytes: float = 0.0


def nanoseconds(load: Load, target: Target) -> float:
    """Time for one element."""
    return load.flops * target.flop_nanoseconds + load.bytes * target.cache_byte_nanoseconds


@dataclass
class Use:
    """One distinct demand as the cost function sees it.

    Attributes:
        ranges: RANGEs that its index mentions.
        bare: Those that stand alone as one component of the index.
        kernel: Number of the kernel.
        output_ranges: RANGEs of the kernel's outputs.
    """

    ranges: frozenset[UOp]
    bare: Mapping[UOp, int]
    kernel: int
    output_ranges: frozenset[UOp]


@dataclass
class Question:
    """Everything that the choice for one node depends on.

    Attributes:
        shape: Its shape, symbolic sizes at their maximum.
        itemsize: Bytes of one element.
        load: Work of one element, all inlined.
        is_reduce: Whether it is a REDUCE.
        rounds: It is a sum or product of floats: computed twice, in loops of other shapes, it may
            differ in its last bit, and so may what compares the two.
        uses: Its distinct demands.
        homes: For each REDUCE range, the ranges round its REDUCE.
        melts: It is a sum of which only another sum takes elements: the two can be one loop nest.
        leaf_axes: Storage below the node (its bytes) and along which axes of the node it varies.
    """

    shape: tuple[int, ...]
    itemsize: int
    load: Load
    is_reduce: bool
    uses: Sequence[Use]
    homes: Mapping[UOp, frozenset[UOp]]
    melts: bool = False
    rounds: bool = False
    leaf_axes: Mapping[UOp, frozenset[int]] = field(default_factory=dict)


def extent(loop: UOp) -> int:
    """Iterations of a RANGE, at the maximum of a symbolic bound."""
    return int(maximum_of(loop.src[0]))


def _evaluations(use: Use, homes: Mapping[UOp, frozenset[UOp]]) -> float:
    count: float = prod(extent(r) for r in use.ranges)
    around = frozenset().union(*(homes[r] for r in use.ranges if r in homes)) - use.ranges
    if around:
        count *= max(1.0, prod(extent(r) for r in around) / _TILE)
    return count


def common_ranges(uses: Sequence[Use], shape: Sequence[int]) -> frozenset[UOp]:
    """Output ranges that stand bare, at one position, in every use; the rows of a scratch.

    A range that leaves the value of `shape` (it is padded) is none: a row has no gate.
    """
    first = uses[0]
    shared = first.output_ranges.intersection(*(u.ranges for u in uses))
    return frozenset(
        r for r in shared if all(u.bare.get(r) == first.bare.get(r, -1) for u in uses)
        and extent(r) <= shape[first.bare[r]]
    )


def _row_fits(q: Question, common: frozenset[UOp], target: Target) -> bool:
    """Whether enough rows run in parallel, and what a row needs stays in half of L2."""
    rows = prod(extent(r) for r in common)
    if rows < 2 * target.cores:
        return False
    positions = {q.uses[0].bare[r]: extent(r) for r in common}
    if target.global_limit is not None:  # a work group has one row; others may want some, too
        return target.has_local and prod(q.shape) * q.itemsize / rows <= target.scratch_bytes / 4
    scratch = prod(q.shape) * q.itemsize / rows * min(_ROWS, max(positions.values(), default=1))
    invariant = 0.0
    for leaf, axes in q.leaf_axes.items():
        bytes_ = prod(map(largest_dimension, leaf.shape)) * leaf.dtype.itemsize
        invariant += bytes_ / prod(n for p, n in positions.items() if p in axes)
    return scratch + invariant <= target.l2_bytes / 4


def choose(q: Question, target: Target, *, boundary_forced: bool = False) -> Choice:
    """The cheapest place to compute a value.

    Args:
        q: The node and its demands.
        target: Four cost numbers, cores and the size of L2.
        boundary_forced: The value must be stored whatever it costs.
    """
    if boundary_forced:
        return Choice.BOUNDARY
    uses = q.uses
    if not q.is_reduce and len(uses) == 1 and not (uses[0].ranges & q.homes.keys()):
        return Choice.INLINE
    numel = prod(q.shape)
    each = nanoseconds(q.load, target)
    inline = sum(_evaluations(u, q.homes) for u in uses) * each
    once = numel * each
    passes = 1 + len(uses)
    boundary = (
        once + numel * q.itemsize * target.dram_byte_nanoseconds * passes
        + target.launch_nanoseconds
    )
    row = float("inf")
    common = common_ranges(uses, q.shape)
    if (len({u.kernel for u in uses}) == 1 and (len(uses) > 1 or q.is_reduce)
            and common and _row_fits(q, common, target)):
        row = once + numel * q.itemsize * target.cache_byte_nanoseconds * passes
    if q.is_reduce:
        results = prod(extent(r) for r in frozenset().union(
            *(u.ranges & u.output_ranges for u in uses)))
        if results < 2 * target.cores and once > _LONG_REDUCTION_NANOSECONDS:
            inline = row = float("inf")
        if q.rounds and len(uses) > 1:
            inline = float("inf")
        if q.melts and inline <= _MELTED_WORK * once:
            return Choice.INLINE
        if any(r in q.homes for u in uses for r in u.ranges):
            inline = float("inf")
        if len(uses) == 1 and inline <= once * 1.001:
            return Choice.INLINE
    best = min(inline, row, boundary)
    if best == inline:
        return Choice.INLINE
    return Choice.ROW if best == row else Choice.BOUNDARY
