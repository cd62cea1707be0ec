"""`core cache`: how large the cache folder is, and emptying it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class CacheSize:
    """Files and bytes of one folder."""

    files: int
    size_bytes: int


def measure(folder: Path) -> CacheSize:
    """Size of a folder; files that vanish meanwhile do not count."""
    files = total = 0
    for path in folder.rglob("*") if folder.is_dir() else ():
        try:
            if path.is_file():
                total += path.stat().st_size
                files += 1
        except OSError:
            continue
    return CacheSize(files, total)


def clear(folder: Path) -> CacheSize:
    """Delete everything in a folder that core owns; programs that run now only compile again.

    Returns:
        What was deleted.
    """
    size = measure(folder)
    if folder.is_dir():
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
    return size
