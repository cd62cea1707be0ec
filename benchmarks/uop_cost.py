"""Cost of the IR: a new node, a node found again, simplifying what is simple, checking.

    python benchmarks/uop_cost.py

Budgets (issue A), collector's threshold raised: a new UOp under 2 us, a hit under 0.6 us; a
simple graph simplifies to itself at under 3 us a node; SPEC=1 slows compiling at most 2 x.
"""

from __future__ import annotations

import gc
import os
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import count as count_from

from core import Context
from core.ir import Op, UOp, dtypes, toposort
from core.simplify import simplify

COUNT, ROUNDS = 20_000, 7
FRESH = count_from(1)

COMPILE = """
from core import Tensor, nn
from core.compiler.compile import STATISTICS
import time
model = [nn.Conv2d(1, 8, 3), nn.Conv2d(8, 8, 3), nn.Linear(128, 10)]
optimizer = nn.optim.Adam(nn.state.get_parameters(model))
Tensor.ones(4, 1, 8, 8).contiguous().realize()
started = time.process_time()
x = Tensor.ones(4, 1, 8, 8, requires_grad=False).contiguous()
y = model[2](model[1](model[0](x).relu()).relu().flatten(1)).square().mean()
y.backward()
y.realize(*optimizer.schedule_step())
print(time.process_time() - started)
"""


def chain(count, first=0):
    """So many different nodes that nothing simplifies, from a leaf of some number on."""
    node = UOp.param(first, dtypes.float32, ())
    other = UOp.param(1_000_000, dtypes.float32, ())
    for k in range(count):
        node = UOp(Op.MUL if k % 2 else Op.ADD, (node, other))
    return node


def microseconds(work, count):
    """Median over rounds of one unit of work out of `count`."""
    taken = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        kept = work()
        taken.append((time.perf_counter() - started) / count * 1e6)
        del kept
    return statistics.median(taken)


def compile_seconds(spec):
    """Of the kernels of a small training step in a fresh process with an empty cache."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "CORE_SPEC": spec, "CORE_CACHE_DIR": folder}
        done = subprocess.run([sys.executable, "-c", COMPILE], env=environment, check=True,
                              capture_output=True, text=True)
    return float(done.stdout)


def main():
    """Print each cost beside its budget."""
    gc.set_threshold(200_000)
    with Context(SPEC=0):
        new = microseconds(lambda: chain(COUNT), COUNT)
        kept = chain(COUNT)
        hit = microseconds(lambda: chain(COUNT), COUNT)
        nodes = len(toposort(simplify(kept)))
        again = microseconds(lambda: simplify(kept), nodes)
        build = microseconds(lambda: chain(COUNT, next(FRESH)), nodes)
        first = microseconds(lambda: simplify(chain(COUNT, next(FRESH))), nodes) - build
    print(f"new UOp             {new:6.2f} us  {new / 2:5.2f} of the budget")
    print(f"UOp found again     {hit:6.2f} us  {hit / 0.6:5.2f} of the budget")
    print(f"simplify a new node {first:6.2f} us")
    print(f"simplify it again   {again:6.2f} us  {again / 3:5.2f} of the budget")
    rounds = [(compile_seconds("0"), compile_seconds("1")) for _ in range(3)]
    ratio = statistics.median(b / a for a, b in rounds)
    print(f"compiling, SPEC=1   {ratio:6.2f} x   {ratio / 2:5.2f} of the budget")


if __name__ == "__main__":
    main()
