"""`core passes`: the compiler's table of contents, and its size in lines."""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path
from typing import Any, Final

from core.foundation.errors import UnsupportedError
from core.foundation.lazy_import import load

#: Layers whose lines count against the limit, and the limit: the core is to stay small.
COUNTED: Final = ("ir", "simplify", "schedule", "codegen", "render")
LINE_LIMIT: Final = 9000


def pass_rows() -> list[dict[str, Any]]:
    """One row per pass of `core.compiler.pipeline`, in order.

    Raises:
        UnsupportedError: This installation has no compiler.
    """
    try:
        passes = load("core.compiler.pipeline:all_passes")()
    except ImportError as error:
        raise UnsupportedError(f"there is no pipeline to list: {error}") from error
    return [
        {
            "pass": step.name,
            "leaves": step.produces.name,
            "because": step.because,
        }
        for step in passes
    ]


def size_rows() -> list[dict[str, Any]]:
    """For each counted layer its files, its lines, and those of them that hold code.

    The limit is on code: docstrings, comments and blank lines are for the reader
    (docs/decisions/0011).
    """
    package = Path(__file__).resolve().parent.parent
    rows: list[dict[str, Any]] = []
    for layer in COUNTED:
        files = sorted((package / layer).rglob("*.py"))
        texts = [file.read_text(encoding="utf-8") for file in files]
        rows.append({
            "layer": layer, "files": len(texts),
            "lines": sum(len(text.splitlines()) for text in texts),
            "code": sum(map(code_lines, texts)),
        })
    total = {key: sum(row[key] for row in rows) for key in ("files", "lines", "code")}
    return [*rows, {"layer": f"sum (limit of code {LINE_LIMIT})", **total}]


def code_lines(text: str) -> int:
    """Lines of a Python text that hold more than a comment or a part of a docstring."""
    told: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) \
                and ast.get_docstring(node, clean=False) is not None:
            told |= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    silent = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
              tokenize.ENDMARKER}
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in silent:
            lines |= set(range(token.start[0], token.end[0] + 1))
    return len(lines - told)
