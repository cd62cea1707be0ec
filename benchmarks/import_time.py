"""Time of `import core` beside a bare interpreter and beside peers, each in fresh processes.

    python benchmarks/import_time.py [--rounds 15] [--check] [MODULE:PYTHON ...]

Budget (issue A): at most 80 ms more than a bare interpreter; neither numpy nor llvmlite nor
importlib.metadata is loaded. With --check it ends with status 1 when that is passed.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time

BUDGET_MS = 80.0
HEAVY = ("numpy", "llvmlite", "importlib.metadata", "pluggy", "click", "rich")


def seconds(python, code):
    """Of a fresh process that runs some code."""
    started = time.perf_counter()
    subprocess.run([python, "-c", code], check=True)
    return time.perf_counter() - started


def main():
    """Measure in interleaved rounds and print medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("peers", nargs="*", help="a module and the interpreter that has it")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--check", action="store_true", help="fail when the budget is passed")
    arguments = parser.parse_args()
    rows = [("core", sys.executable), *(p.split(":", 1) for p in arguments.peers)]
    taken = {name: ([], []) for name, _ in rows}
    for _ in range(arguments.rounds):
        for name, python in rows:
            taken[name][0].append(seconds(python, "pass"))
            taken[name][1].append(seconds(python, f"import {name}"))
    own = None
    for name, _ in rows:
        bare, full = map(statistics.median, taken[name])
        more = (full - bare) * 1e3
        own = more if own is None else own
        print(f"{name:10} bare {bare * 1e3:6.1f} ms, import {more:+8.1f} ms, core / it "
              f"{own / more:.2f}")
    listing = f"import core, sys; print(*(m for m in {HEAVY} if m in sys.modules))"
    found = subprocess.run([sys.executable, "-c", listing], check=True, capture_output=True,
                           text=True)
    print("heavy modules that import core loads:", found.stdout.strip() or "none")
    if arguments.check and (own > BUDGET_MS or found.stdout.strip()):
        sys.exit(f"over budget: {own:.1f} ms of {BUDGET_MS:g}, or something heavy")


if __name__ == "__main__":
    main()
