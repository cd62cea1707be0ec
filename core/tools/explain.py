"""`core explain FILE`: what each compiler pass made of the program, as differences of text."""

from __future__ import annotations

import difflib
import os
import runpy
import sys
import traceback
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

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

    Raises:
        SystemExit: The script ended so, or with an error, which is printed as Python would.
    """
    runs: Counter[str] = Counter()
    seconds_of: defaultdict[str, float] = defaultdict(float)

    def observer(step: Pass, before: UOp, after: UOp, seconds: float) -> None:
        runs[step.name] += 1
        seconds_of[step.name] += seconds
        if only in step.name and before is not after:
            click.echo("\n".join(describe(step.name, before, after, seconds)))

    try:
        with observe(observer), Context(CACHE=False):
            _run_script(file, arguments)
    finally:
        _summarize(runs, seconds_of)


def _run_script(file: str, arguments: Sequence[str]) -> None:
    """Run a file as ``python file arguments`` does."""
    arguments_before, path_before = sys.argv, list(sys.path)
    sys.argv = [file, *arguments]
    if not sys.flags.safe_path:
        sys.path.insert(0, os.path.dirname(os.path.abspath(file)))
    try:
        runpy.run_path(file, run_name="__main__")
    except BrokenPipeError:  # whoever read the output has seen enough
        raise
    except Exception as error:  # noqa: BLE001 - the user's own, shown from the user's frame on
        frames = error.__traceback__
        while frames is not None and frames.tb_frame.f_code.co_filename != file:
            frames = frames.tb_next
        click.echo("".join(traceback.format_exception(type(error), error, frames)), err=True,
                   nl=False)
        sys.exit(1)
    finally:
        sys.argv = arguments_before
        sys.path[:] = path_before


def _summarize(runs: Counter[str], seconds_of: Mapping[str, float]) -> None:
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
