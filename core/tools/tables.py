"""Rows on the terminal as a table, or as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

#: Colour of a cell, by its text.
_STYLES = {
    "open": "green",
    "ready": "green",
    "passed": "green",
    "failed": "red",
    "offered twice": "red",
    "no hardware": "yellow",
}


def show(title: str, rows: Sequence[Mapping[str, Any]], *, as_json: bool) -> None:
    """Print rows of equal keys.

    Args:
        title: Heading of the table.
        rows: One mapping per row; the keys of the first are the columns.
        as_json: Print a JSON list of the rows instead.
    """
    if as_json:
        click.echo(json.dumps(list(rows), indent=2, default=str))
        return
    table = Table(title=title, title_justify="left", title_style="bold")
    for column in rows[0] if rows else ():
        table.add_column(column.replace("_", " "), overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(v), style=_STYLES.get(_cell(v), "")) for v in row.values()))
    console = Console()
    if not console.is_terminal:  # a pipe has no width, and wrapped cells are hard to search
        console = Console(width=max(200, console.width))
    console.print(table)


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
