"""Binaries on disk: safe against concurrent writers, killed processes and corrupt entries.

One file per entry, named by the digest of its key: a header with the digest of the content, then
the content. Files are written beside and renamed, so a reader sees a whole entry or none. An
entry that does not match its digest is removed and made anew.
"""

from __future__ import annotations

import hashlib
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from core.foundation.folders import WRITING_PREFIX, cache_folder, write_atomically
from core.foundation.settings import settings

_DIGEST_BYTES: Final = 32
_LARGEST_BYTES: Final = 512 << 20
# Entries are counted at one write in so many, whichever process makes it: the key decides.
_CHECK_EVERY: Final = 64
_LONGEST_WRITE_SECONDS: Final = 600.0


class DiskCache:
    """Bytes by key in a folder below the cache folder."""

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def folder(self) -> Path:
        """Where entries are; need not exist."""
        return cache_folder() / self.name

    def path(self, key: str) -> Path:
        """File of an entry; need not exist."""
        return self.folder / hashlib.sha256(key.encode()).hexdigest()

    def get(self, key: str) -> bytes | None:
        """Content of an entry, or None; a corrupt entry is removed."""
        if not settings.CACHE:
            return None
        path = self.path(key)
        try:
            raw = path.read_bytes()
        except OSError:
            return None
        digest, content = raw[:_DIGEST_BYTES], raw[_DIGEST_BYTES:]
        if hashlib.sha256(content).digest() != digest:
            with suppress(OSError):  # the folder may be read only
                path.unlink()
            return None
        return content

    def put(self, key: str, content: bytes) -> None:
        """Store an entry; a folder that cannot be written is no error: nothing is cached."""
        if not settings.CACHE:
            return
        try:
            path = self.path(key)
            write_atomically(path, hashlib.sha256(content).digest() + content)
            if int(path.name, 16) % _CHECK_EVERY == 0:
                self.shrink()
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

    def shrink(self) -> None:
        """Remove what killed writers left, and the oldest entries until the rest fits."""
        entries = sorted(self._entries())
        total = sum(size for _, size, _ in entries)
        forgotten = time.time() - _LONGEST_WRITE_SECONDS
        for changed, size, path in entries:
            torn = Path(path).name.startswith(WRITING_PREFIX) and changed < forgotten
            if torn or total > _LARGEST_BYTES:
                Path(path).unlink(missing_ok=True)
                total -= size
