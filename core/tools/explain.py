"""`core explain FILE`: what each compiler pass made of the program, as differences of text."""

from __future__ import annotations

import difflib
import runpy
import sys
from collections.abc import Sequence
from typing import Any

import click

from core.foundation import events
from core.foundation.settings import Context
from core.ir import text


def explain_file(file: str, arguments: Sequence[str] = (), only: str = "") -> None:
    """Run a Python file as a script and print each pass that changes something.

    Args:
        file: Path of the script.
        arguments: Its command-line arguments.
        only: Show only passes whose name contains this.
    """
    seen: dict[str, int] = {}

    def observer(event: events.Event) -> None:
        if not isinstance(event, events.PassRan):
            return
        seen[event.name] = seen.get(event.name, 0) + 1
        if only in event.name and event.before is not event.after:
            click.echo("\n".join(describe(event)))

    before = sys.argv
    sys.argv = [file, *arguments]
    try:
        with events.observing(observer), Context(CACHE=False):
            runpy.run_path(file, run_name="__main__")
    finally:
        sys.argv = before
    click.echo(f"{sum(seen.values())} runs of {len(seen)} passes")


def describe(event: events.PassRan) -> list[str]:
    """Heading and difference of one pass."""
    subject = f" of {event.subject}" if event.subject else ""
    heading = f"=== {event.name}{subject} ({event.seconds * 1e3:.2f} ms)"
    lines = difflib.unified_diff(_lines(event.before), _lines(event.after), lineterm="", n=2)
    # The first two lines of a unified diff name files, of which there are none.
    return [heading, *[line for line in lines if not line.startswith(("---", "+++"))]]


def _lines(graph: Any) -> list[str]:
    return text(graph).splitlines() if graph is not None else []
