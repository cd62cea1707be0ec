"""What plugins cost: the scan of names among 200 other distributions, and opening a device.

    python benchmarks/plugin_cost.py [--rounds 9] [--device CPU] [--check]

The folder of made-up distributions is scanned in a fresh process each round, as `import core` and
the first use of a device would; the files are in the system's cache after the first round. Opening
is split into the plugin's own hooks and imports, and the rest, which is core's. With --check it
ends with status 1 when a budget is passed.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

OTHERS = 200
SCAN_BUDGET_MS, OPEN_BUDGET_MS = 5.0, 20.0
SCAN = """
import sys, time
from core.plugin.discovery import scan
start = time.perf_counter()
found = list(scan([sys.argv[1]]))
print((time.perf_counter() - start) * 1e3, len(found))
"""
OPEN = """
import importlib, sys, time
import numpy, core
from core.plugin import opening
from core.plugin.registry import registry
spec = registry.describe(sys.argv[1]).spec
start = time.perf_counter()
module = importlib.import_module(spec.module)
plugin = time.perf_counter() - start
ask = opening._ask

def timed(question, hook, *arguments, **options):
    global plugin
    if hook == "hooks":
        return ask(question, hook, *arguments, **options)
    start = time.perf_counter()
    try:
        return ask(question, hook, *arguments, **options)
    finally:
        plugin += time.perf_counter() - start

opening._ask = timed
before = plugin
start = time.perf_counter()
registry.open(sys.argv[1])
whole = time.perf_counter() - start + before
print(whole * 1e3, plugin * 1e3, (whole - plugin) * 1e3)
"""


def make_distributions(folder: Path) -> None:
    """Metadata of 200 packages with entry points of their own, and of one plugin."""
    for k in range(OTHERS):
        information = folder / f"package_{k}-1.{k}.dist-info"
        information.mkdir()
        (information / "METADATA").write_text(f"Name: package-{k}\nVersion: 1.{k}\n" * 20)
        (information / "entry_points.txt").write_text(
            "[console_scripts]\n" + "".join(f"tool{i} = package_{k}:main{i}\n" for i in range(5)))
    information = folder / "core_plugin_foo-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Name: core-plugin-foo\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[core.plugins.v1]\nFOO = foo\n")


def medians(script: str, argument: str, rounds: int) -> list[float]:
    """Median of each number that a script prints, over fresh processes."""
    rows = [[float(word) for word in subprocess.run(
        [sys.executable, "-c", script, argument], check=True, capture_output=True,
        text=True).stdout.split()] for _ in range(rounds)]
    return [statistics.median(column) for column in zip(*rows, strict=True)]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--device", default="CPU")
    parser.add_argument("--check", action="store_true", help="fail when a budget is passed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        make_distributions(Path(name))
        milliseconds, found = medians(SCAN, name, options.rounds)
    print(f"scan of {OTHERS + 1} distributions: {milliseconds:.2f} ms, {found:.0f} plugin "
          f"(budget {SCAN_BUDGET_MS:g} ms)")
    whole, plugin, own = medians(OPEN, options.device, options.rounds)
    print(f"opening {options.device}: {whole:.1f} ms, of which core's own {own:.1f} ms "
          f"(budget {OPEN_BUDGET_MS:g} ms), imports and hooks of the plugin {plugin:.1f} ms")
    if options.check and (milliseconds > SCAN_BUDGET_MS or own > OPEN_BUDGET_MS):
        sys.exit("over budget")


if __name__ == "__main__":
    main()
