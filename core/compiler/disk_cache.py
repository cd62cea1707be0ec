"""Binaries on disk: safe against concurrent writers, killed processes and corrupt entries.

One file per entry, named by the digest of its key: a header with the digest of the content, then
the content. Files are written beside and renamed, so a reader sees a whole entry or none. An
entry that does not match its digest is removed and made anew.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

from core.foundation.folders import cache_folder, write_atomically
from core.foundation.settings import settings

_DIGEST_BYTES: Final = 32
_LARGEST_BYTES: Final = 512 << 20
# Entries are counted now and then, not at each write: once in this many.
_CHECK_EVERY: Final = 64


class DiskCache:
    """Bytes by key in a folder below the cache folder."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._writes = 0

    @property
    def folder(self) -> Path:
        """Where entries are; need not exist."""
        return cache_folder() / self.name

    def _path(self, key: str) -> Path:
        return self.folder / hashlib.sha256(key.encode()).hexdigest()

    def get(self, key: str) -> bytes | None:
        """Content of an entry, or None; a corrupt entry is removed."""
        if not settings.CACHE:
            return None
        path = self._path(key)
        try:
            raw = path.read_bytes()
        except OSError:
            return None
        digest, content = raw[:_DIGEST_BYTES], raw[_DIGEST_BYTES:]
        if hashlib.sha256(content).digest() != digest:
            path.unlink(missing_ok=True)
            return None
        return content

    def put(self, key: str, content: bytes) -> None:
        """Store an entry; a folder that cannot be written is no error: nothing is cached."""
        if not settings.CACHE:
            return
        try:
            write_atomically(self._path(key), hashlib.sha256(content).digest() + content)
            self._writes += 1
            if self._writes % _CHECK_EVERY == 0:
                self._shrink()
        except OSError:
            return

    def _entries(self) -> list[tuple[float, int, str]]:
        """(time of last change, bytes, path) of each entry."""
        found = []
        try:
            with os.scandir(self.folder) as entries:
                for entry in entries:
                    try:
                        info = entry.stat()
                    except OSError:
                        continue
                    found.append((info.st_mtime, info.st_size, entry.path))
        except OSError:
            return []
        return found

    def size(self) -> tuple[int, int]:
        """(entries, bytes)."""
        entries = self._entries()
        return len(entries), sum(size for _, size, _ in entries)

    def clear(self) -> int:
        """Remove every entry; how many there were."""
        entries = self._entries()
        for _, _, path in entries:
            Path(path).unlink(missing_ok=True)
        return len(entries)

    def _shrink(self) -> None:
        """Remove the oldest entries until the rest fits."""
        entries = sorted(self._entries())
        total = sum(size for _, size, _ in entries)
        for _, size, path in entries:
            if total <= _LARGEST_BYTES:
                return
            Path(path).unlink(missing_ok=True)
            total -= size
