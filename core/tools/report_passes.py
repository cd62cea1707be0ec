"""`core passes`: the compiler's table of contents, and its size in lines."""

from __future__ import annotations

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
    """Lines of the counted layers, comments and blank lines included, and their sum."""
    package = Path(__file__).resolve().parent.parent
    rows = []
    for layer in COUNTED:
        files = sorted((package / layer).rglob("*.py"))
        lines = sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)
        rows.append({"layer": layer, "files": len(files), "lines": lines})
    files_sum, lines_sum = (sum(int(str(row[key])) for row in rows) for key in ("files", "lines"))
    total = {"layer": f"sum (limit {LINE_LIMIT})", "files": files_sum, "lines": lines_sum}
    return [*rows, total]
