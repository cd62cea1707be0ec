"""`core explain FILE`: what each compiler pass made of the program, as differences of text."""

from __future__ import annotations

import difflib
import runpy
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence

import click

from core.compiler.passes import Pass, observe
from core.foundation.settings import Context
from core.ir import UOp, text


def explain_file(file: str, arguments: Sequence[str] = (), only: str = "") -> None:
    """Run a Python file as a script and print each pass that changes something.

    Args:
        file: Path of the script.
        arguments: Its command-line arguments.
        only: Show only passes whose name contains this.
    """
    runs: Counter[str] = Counter()
    seconds_of: defaultdict[str, float] = defaultdict(float)

    def observer(step: Pass, before: UOp, after: UOp, seconds: float) -> None:
        runs[step.name] += 1
        seconds_of[step.name] += seconds
        if only in step.name and before is not after:
            click.echo("\n".join(describe(step.name, before, after, seconds)))

    arguments_before = sys.argv
    sys.argv = [file, *arguments]
    try:
        with observe(observer), Context(CACHE=False):
            runpy.run_path(file, run_name="__main__")
    finally:
        sys.argv = arguments_before
    for name, count in runs.items():
        click.echo(f"{name}: {count} runs, {seconds_of[name] * 1e3:.1f} ms")
    click.echo(f"{runs.total()} runs of {len(runs)} passes")


def describe(name: str, before: UOp, after: UOp, seconds: float) -> list[str]:
    """Heading and difference of one pass."""
    old, new = text(before).splitlines(), text(after).splitlines()
    lines = difflib.unified_diff(old, new, lineterm="", n=2)
    # The first two lines of a unified diff name files, of which there are none.
    shown = [line for line in lines if not line.startswith(("---", "+++"))]
    return [f"=== {name} ({seconds * 1e3:.2f} ms)", *shown]
