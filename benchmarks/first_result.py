"""Time until a fresh process has printed its first result, caches empty, beside peers.

    python benchmarks/first_result.py [--rounds 7] tinygrad:/work/peers_venv/bin/python

Budget (issue A): under 0.7 of tinygrad's time in the same run.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

PROGRAMS = {
    "core": "from core import Tensor\nprint((Tensor([1,2,3])+1).tolist())",
    "tinygrad": "from tinygrad import Tensor\nprint((Tensor([1,2,3])+1).tolist())",
    "torch": "import torch\nprint((torch.tensor([1,2,3])+1).tolist())",
    "jax": "import jax.numpy as n\nprint((n.array([1,2,3])+1).tolist())",
}


def seconds(name, python, folder):
    """Of a fresh process with its caches in `folder`."""
    environment = {**os.environ, "CORE_CACHE_DIR": folder, "XDG_CACHE_HOME": folder,
                   "CACHEDB": os.path.join(folder, "cache.db")}
    started = time.perf_counter()
    done = subprocess.run([python, "-c", PROGRAMS[name]], env=environment, check=True,
                          capture_output=True, text=True)
    taken = time.perf_counter() - started
    if done.stdout.strip() != "[2, 3, 4]":
        sys.exit(f"{name} printed {done.stdout!r}")
    return taken


def main():
    """Measure in interleaved rounds; ratios are medians of those within rounds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("peers", nargs="*", help="an engine and the interpreter that has it")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    rows = [("core", sys.executable), *(p.split(":", 1) for p in arguments.peers)]
    cold = {name: [] for name, _ in rows}
    warm = {name: [] for name, _ in rows}
    for _ in range(arguments.rounds):
        for name, python in rows:
            with tempfile.TemporaryDirectory() as folder:
                cold[name].append(seconds(name, python, folder))
                warm[name].append(seconds(name, python, folder))
    for name, _ in rows:
        ratios = [a / b for a, b in zip(cold["core"], cold[name], strict=True)]
        print(f"{name:10} cold {statistics.median(cold[name]):.3f} s, warm "
              f"{statistics.median(warm[name]):.3f} s, core / it {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
