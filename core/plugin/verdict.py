"""What became of a probe; apart from `probing`, which needs modules that take long to load."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Verdict:
    """What a probe found.

    Args:
        count: Usable devices.
        reason: What was found, or why there is nothing.
        fault: The probe itself failed: raised, crashed or hung.
    """

    count: int
    reason: str = ""
    fault: bool = False
