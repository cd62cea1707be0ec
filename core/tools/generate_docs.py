"""Fill the generated blocks of `docs/`: `python -m core.tools.generate_docs [--check]`.

A page is written by hand except between a pair of comments:

    <!-- generated: passes -->
    ...
    <!-- end -->

`BLOCKS` says what stands in each. `tests/documentation/test_generated.py` compares.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import click

from core.compiler.pipeline import all_passes
from core.foundation.settings import SETTINGS
from core.ir.operation import OPERATIONS, Op
from core.ir.specification import ALL_SPECIFICATIONS
from core.tools import plugin_reference, tour

_BLOCK: Final = re.compile(r"(<!-- generated: ([\w -]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def table(columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """A Markdown table."""
    columns = list(columns)
    lines = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    for row in rows:
        cells = [str(cell).replace("|", "\\|").replace("\n", " ") for cell in row]
        lines.append("| " + " | ".join(cells).replace("|  |", "| |") + " |")
    return "\n".join(lines).replace("|  |", "| |")


def operations() -> str:
    """Every operation, a table for each group."""
    groups = dict.fromkeys(row.group for row in OPERATIONS.values())
    parts = []
    for group in groups:
        rows = [(op.name, row.sources, row.argument, row.meaning)
                for op, row in OPERATIONS.items() if row.group == group]
        parts.append(f"### {group}\n\n{table(('op', 'sources', 'argument', 'meaning'), rows)}")
    return "\n\n".join(parts)


def specifications() -> str:
    """What each stage may hold, a table for each."""
    parts = []
    for specification in ALL_SPECIFICATIONS:
        rows = [(_names(row.ops), row.meaning) for row in specification.rows]
        parts.append(f"### {specification.name}\n\n{table(('ops', 'must be'), rows)}")
    return "\n\n".join(parts)


def _names(ops: Iterable[Op]) -> str:
    """Names in the order of the table; a whole group by its name."""
    wanted = set(ops)
    names = []
    for group in dict.fromkeys(row.group for row in OPERATIONS.values()):
        members = [op for op, row in OPERATIONS.items() if row.group == group]
        if len(members) > 8 and wanted.issuperset(members):
            names.append(f"all of *{group}*")
        else:
            names += [op.name for op in members if op in wanted]
    return ", ".join(names)


def passes() -> str:
    """Every pass in order."""
    rows = [(k, step.name, step.produces.name, step.because)
            for k, step in enumerate(all_passes(), 1)]
    return table(("", "pass", "leaves a", "why here"), rows)


def settings() -> str:
    """Every setting."""
    rows = []
    for name, row in SETTINGS.items():
        default = f"`{row.default!r}`" if isinstance(row.default, str) else f"`{row.default}`"
        variables = f"`{row.variable}`" + (f" or `{row.alias}`" if row.alias else "")
        choices = f" One of {', '.join(c for c in row.choices if c)}." if row.choices else ""
        rows.append((f"`{name}`", variables, default, row.text + choices))
    return table(("setting", "in the environment", "default", "meaning"), rows)


def _code(text: str, language: str = "") -> str:
    return f"```{language}\n{text}\n```"


BLOCKS: Final[dict[str, Callable[[], str]]] = {
    "operations": operations,
    "specifications": specifications,
    "passes": passes,
    "settings": settings,
    "assembly": lambda: _code(tour.machine_code(), "asm"),
    **plugin_reference.BLOCKS,
}


def block_text(name: str, old: str) -> str:
    """What stands in a block; assembly of another LLVM, or without one, stays as it is.

    Raises:
        KeyError: There is no block of that name.
    """
    if name.startswith("tour "):
        return _code(tour.stages()[name.removeprefix("tour ")])
    if name == "assembly":
        try:
            version = tour.llvm_version()
        except ModuleNotFoundError:
            return old
        if old and version not in old:
            return old
    return BLOCKS[name]()


def fill(page: str) -> str:
    """A page with its blocks as they should be."""

    def replace(match: re.Match[str]) -> str:
        start, name, old, end = match.groups()
        return f"{start}{block_text(name, old.strip())}\n{end}"

    return _BLOCK.sub(replace, page)


def pages(folder: Path) -> list[Path]:
    """The pages that have generated blocks."""
    return [page for page in sorted(folder.rglob("*.md"))
            if _BLOCK.search(page.read_text(encoding="utf-8"))]


@click.command()
@click.option("--check", is_flag=True, help="Write nothing; end with status 1 if a page is stale.")
@click.option("--folder", default="docs", show_default=True, type=click.Path(exists=True))
def main(*, check: bool, folder: str) -> None:
    """Fill the generated blocks of the pages in a folder."""
    stale = []
    for page in pages(Path(folder)):
        before = page.read_text(encoding="utf-8")
        after = fill(before)
        if after != before:
            stale.append(page)
            click.echo(f"{page}: {'is stale' if check else 'written'}")
            if not check:
                page.write_text(after, encoding="utf-8")
    sys.exit(bool(check and stale))


if __name__ == "__main__":
    main()
