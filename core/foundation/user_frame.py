"""Where the user's own code stands: the first frame outside of core and its plugins."""

from __future__ import annotations

import os
import sys
import warnings
from types import FrameType
from typing import Final

from core.foundation.errors import CoreWarning
from core.foundation.settings import settings

_PACKAGE_FOLDER: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_PLUGIN_PREFIX: Final = "core_plugin_"


def is_user_frame(frame: FrameType) -> bool:
    """Whether `frame` runs code that is neither core's nor a first-party plugin's."""
    if frame.f_code.co_filename.startswith(_PACKAGE_FOLDER):
        return False
    return not str(frame.f_globals.get("__name__", "")).startswith(_PLUGIN_PREFIX)


def user_frame() -> tuple[str, int]:
    """File and line of the innermost frame of the user's code; ``("", 0)`` when there is none."""
    frame: FrameType | None = sys._getframe(1)  # inspect.stack() takes ms
    while frame is not None:
        if is_user_frame(frame):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return "", 0


def warn(message: str, cure: str = "") -> None:
    """Warn at the user's line; under ``CORE_STRICT=1`` raise the warning instead.

    Raises:
        CoreWarning: `settings.STRICT` is on.
    """
    text = f"{message} ({cure})" if cure else message
    if settings.STRICT:
        raise CoreWarning(text)
    file, line = user_frame()
    warnings.warn_explicit(text, CoreWarning, file or "core", line)
