"""Rules for the source text that ruff has no rule for; used by ``tests/architecture``.

They work on text and syntax trees, so that the source can be checked wherever it lies.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from core.plugin.catalogue import FIRST_PARTY

MAXIMUM_LINES: Final = 500
MAXIMUM_STATEMENTS: Final = 40
#: A module of this name gathers what has no home; a thing has a name of its own.
BANNED_NAMES: Final = frozenset({"utils", "util", "helpers", "helper", "common", "misc"})
#: Devices of core and of the plugins in its repository.
DEVICE_NAMES: Final = frozenset({*FIRST_PARTY, "REFERENCE", "NULL"})


def source_files(*folders: Path) -> list[Path]:
    """Every Python file below `folders`, in order."""
    return sorted(file for folder in folders for file in folder.rglob("*.py"))


def too_long(file: Path) -> str:
    """What is wrong with the length of a file; empty if nothing is."""
    lines = len(file.read_text(encoding="utf-8").splitlines())
    return f"{file}: {lines} lines, at most {MAXIMUM_LINES}" if lines > MAXIMUM_LINES else ""


def banned_name(file: Path) -> str:
    """What is wrong with the name of a module or of a folder it is in."""
    names = {file.stem, *file.parent.parts} & BANNED_NAMES
    return f"{file}: {names.pop()} says nothing about what it holds" if names else ""


def long_functions(file: Path) -> Iterator[str]:
    """Functions with too many statements; those of functions inside count for themselves."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            count = _statements(node)
            if count > MAXIMUM_STATEMENTS:
                place = f"{file}:{node.lineno}"
                yield f"{place}: {node.name} has {count} statements, at most {MAXIMUM_STATEMENTS}"


def late_imports(file: Path) -> Iterator[str]:
    """Imports inside functions; the one place for them is `core.foundation.lazy_import`."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for function in ast.walk(tree):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for node in ast.walk(function):
                if isinstance(node, (ast.Import, ast.ImportFrom)):
                    yield f"{file}:{node.lineno}: import inside {function.name}"


def device_names(file: Path) -> Iterator[str]:
    """Texts that are the name of a device, alone or with an index, variant or renderer.

    A test takes its device from the fixture `device`, or is silent about it and gets the default
    one: so it runs on whatever device is under test.
    """
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) \
                and node.value.split(":")[0] in DEVICE_NAMES:
            yield (f"{file}:{node.lineno}: the device {node.value!r} is named; use the fixture "
                   "`device`")


def _statements(function: ast.AST) -> int:
    count = 0
    pending = list(ast.iter_child_nodes(function))
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            count += 1
            continue
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        count += isinstance(node, ast.stmt) and not is_docstring
        pending.extend(ast.iter_child_nodes(node))
    return count
