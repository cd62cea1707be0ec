"""Largest error of every decomposed function, over all of float32 and samples of float64.

    python benchmarks/accuracy.py [--step 97] [--functions EXP,SIN]

float32 functions of one argument are evaluated at every `step`-th bit pattern (`--step 1`:
exhaustive, an hour), POW and float64 at random bit patterns and where results are ordinary
numbers. The reference is the longest float of numpy. Errors are units in the last place; `nodes`
counts operations without constants and leaves. Three kinds of target get different graphs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from core.ir import Op, UOp, dtypes, toposort
from core.testing.elementwise import NUMPY, evaluate, lower, target_with, units

UNARY: dict[Op, Callable[[Any], Any]] = {
    Op.EXP: np.exp, Op.EXP2: np.exp2, Op.LOG: np.log, Op.LOG2: np.log2, Op.SIN: np.sin,
    Op.COS: np.cos,
}
BOUNDS = {dtypes.float32: 2, dtypes.float64: 8}
TARGETS = {
    "processor": target_with(fma=True),
    "GPU": target_with(fma=True, global_limit=(1, 1, 1)),
    "without fused multiply-add": target_with(fma=False),
}
BLOCK = 1 << 18
SAMPLES = 1 << 20


def float32_blocks(step: int) -> Iterator[Any]:
    """Every step-th bit pattern of float32."""
    for start in range(0, 1 << 32, BLOCK * step):
        stop = min(start + BLOCK * step, 1 << 32)
        yield np.arange(start, stop, step, dtype=np.uint64).astype(np.uint32).view(np.float32)


def float64_blocks(rng: np.random.Generator) -> Iterator[Any]:
    """Random bit patterns, and random numbers of ordinary size."""
    for _ in range(SAMPLES // BLOCK):
        yield rng.integers(0, 1 << 64, BLOCK, np.uint64).view(np.float64)
        yield rng.normal(size=BLOCK) * 300
        yield rng.uniform(0.5, 2, BLOCK)


def power_blocks(dtype: Any, rng: np.random.Generator) -> Iterator[tuple[Any, Any]]:
    """(x, y): random bit patterns, and pairs whose power covers the exponents."""
    unsigned, most = (np.uint32, 150) if dtype == np.float32 else (np.uint64, 1075)
    for _ in range(SAMPLES // BLOCK):
        top = np.iinfo(unsigned).max
        x, y = (rng.integers(0, top, BLOCK, unsigned).view(dtype) for _ in range(2))
        yield x, y
        for base in (rng.uniform(0.5, 2, BLOCK), rng.lognormal(0, 20, BLOCK)):
            with np.errstate(all="ignore"):
                x = base.astype(dtype)
                y = rng.uniform(-most, most, BLOCK) / np.log2(x.astype(np.float64))
            yield x, y.astype(dtype)


def measure(op: Op, dtype: Any, blocks: Callable[[], Iterator[Any]], exact: Any) -> None:
    """Print one row: node counts, worst errors and where, on each kind of target."""
    row = [f"{op.name:5} {dtype.name}"]
    count, before = 0, time.perf_counter()
    for target in TARGETS.values():
        leaves = [UOp.param(k, dtype, (BLOCK,)) for k in range(2 if op is Op.POW else 1)]
        graph = lower(UOp(op, tuple(leaves)), target=target)
        nodes = sum(n.op not in (Op.CONST, Op.PARAM, Op.STACK) for n in toposort(graph))
        worst, place = -1.0, ""
        for block in blocks():
            inputs = block if isinstance(block, tuple) else (block,)
            got = evaluate(graph, dict(zip(leaves, inputs, strict=True)))
            with np.errstate(all="ignore"):
                errors = units(got, exact(*(x.astype(np.longdouble) for x in inputs)))
            at = int(errors.argmax())
            count += len(got)
            if errors[at] > worst:
                worst, place = float(errors[at]), ", ".join(str(x[at]) for x in inputs)
        row.append(f"{nodes:4} nodes {worst:6.3f} at {place:25.25}")
    seconds = time.perf_counter() - before
    print(" | ".join(row), f"| {count // len(TARGETS)} arguments, {seconds:.0f} s", flush=True)


def main() -> None:
    """Print a row for each function and dtype."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--step", type=int, default=97)
    parser.add_argument("--functions", default=",".join(op.name for op in (*UNARY, Op.POW)))
    options = parser.parse_args()
    print(" | ".join(("function", *TARGETS)))
    for name in options.functions.split(","):
        op = Op[name]
        for dtype in BOUNDS:
            rng = np.random.default_rng(0)
            if op is Op.POW:
                held = NUMPY[dtype]
                measure(op, dtype, lambda held=held, rng=rng: power_blocks(held, rng), np.power)
            elif dtype is dtypes.float32:
                measure(op, dtype, lambda: float32_blocks(options.step), UNARY[op])
            else:
                measure(op, dtype, lambda rng=rng: float64_blocks(rng), UNARY[op])


if __name__ == "__main__":
    main()
