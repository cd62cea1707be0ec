"""Every error that core raises on purpose, and the one warning category.

An error says what happened in the user's words; `cure` says what to do about it in one line, and
`graph` holds the text of the program it happened in, where there is one. Both are shown after the
message, so a traceback alone is enough to act on.
"""

from __future__ import annotations

#: An error shows at most this many lines of the graph it carries; `error.graph` keeps all of it.
SHOWN_GRAPH_LINES = 40


class CoreError(Exception):
    """Base of all errors of core.

    Args:
        message: What happened, in the user's words.
        cure: What to do about it, one line; shown as ``cure: ...``.
        graph: Text of the program concerned; shown below the message, shortened.
    """

    def __init__(self, message: str = "", *, cure: str = "", graph: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.cure = cure
        self.graph = graph

    def __str__(self) -> str:
        """The message, then the cure, then the first lines of the graph."""
        parts = [self.message]
        if self.cure:
            parts.append(f"cure: {self.cure}")
        if self.graph:
            lines = self.graph.splitlines()
            parts.extend(lines[:SHOWN_GRAPH_LINES])
            if len(lines) > SHOWN_GRAPH_LINES:
                parts.append(f"... {len(lines) - SHOWN_GRAPH_LINES} more lines in error.graph")
        return "\n".join(parts)


class ShapeError(CoreError, ValueError):
    """Shapes do not fit each other or the operation."""


class DTypeError(CoreError, TypeError):
    """The operation is not defined for this dtype, or a value does not fit it."""


class IndexOutOfRangeError(CoreError, IndexError):
    """An index or an axis lies outside of the tensor."""


class SettingError(CoreError, ValueError):
    """A setting has no such name, or its value cannot be read."""


class CompileError(CoreError, RuntimeError):
    """A program could not be compiled; `graph` holds its text."""


class RewriteLimitError(CompileError):
    """Rewriting did not come to an end within its fuel; the message ends with the last rewrites."""


class VerificationError(CompileError):
    """A graph breaks the specification of its stage: a fault of core, not of the user."""


class UnsupportedError(CoreError, NotImplementedError):
    """The device, or core, does not offer this; the message says what offers it."""


class DeviceError(CoreError, RuntimeError):
    """A device is unknown, does not open, or failed while it ran."""


class FormatError(CoreError, ValueError):
    """A file is damaged, or not of the format that it was read as; nothing was changed."""


class PluginError(DeviceError):
    """A plugin breaks the contract of `core.plugin`; the message names it, its version, a cure."""


class OutOfMemoryError(CoreError, MemoryError):
    """A device has no room left; the message gives bytes wanted, free and the limit."""


class CoreWarning(UserWarning):
    """Something works, but not the way the user may think; an error under ``CORE_STRICT=1``."""
