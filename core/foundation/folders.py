"""Where core keeps files between runs."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from core.foundation.lazy_import import lazy_import
from core.foundation.settings import settings

if TYPE_CHECKING:
    import platformdirs
else:
    platformdirs = lazy_import("platformdirs")

#: Names of files that are being written begin with it; a killed process leaves its own.
WRITING_PREFIX = ".writing-"


def cache_folder() -> Path:
    """Folder of the disk cache: the setting CACHE_DIR, else the user's cache folder.

    It need not exist yet. Everything in it may be deleted at any time.
    """
    return Path(settings.CACHE_DIR or platformdirs.user_cache_dir("core", appauthor=False))


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that readers see the old content or the new one, never a part.

    Raises:
        OSError: The folder cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=WRITING_PREFIX)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(temporary, path)  # noqa: PTH105 - atomic where the system can
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
