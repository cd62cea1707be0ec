"""What runs in the child process that asks plugins about hardware: it may hang or crash.

The parent (`probing`) passes tasks as JSON and reads one line per event: ``begin KEY`` before a
task, ``end KEY JSON`` after it. What probes print goes to standard error, so that it cannot be
taken for an answer.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Final

from core.foundation.lazy_import import load
from core.plugin.description import Probe
from core.plugin.hook_calls import hooks_of


def probe(place: str) -> dict[str, Any]:
    """Run a probe: count and reason."""
    answer = load(place)()
    if not isinstance(answer, Probe):
        return {"count": 0, "reason": f"{place} returned {answer!r}, not a Probe", "fault": True}
    count: Any = answer.count
    if not isinstance(count, int):
        reason = f"{place} counts {count!r} devices, not an int"
        return {"count": 0, "reason": reason, "fault": True}
    return {"count": count, "reason": str(answer.reason)}


def checks(module: str, name: str) -> list[dict[str, Any]]:
    """Ask a stub for the rows of `core doctor`."""
    answers = hooks_of(importlib.import_module(module)).core_checks(name=name)
    return [asdict(check) for answer in answers for check in answer]


#: Signals of a crash, as far as the system has them.
_FAULTS: Final = tuple(getattr(signal, name) for name in (
    "SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT") if hasattr(signal, name))
_ACTIONS: Final[dict[str, Callable[..., Any]]] = {"probe": probe, "checks": checks}


def main() -> None:
    """Run the tasks of the command line's JSON: a list of [key, action, argument, ...]."""
    answers = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)
    for key, action, *arguments in json.loads(sys.argv[2]):
        # What one driver catches must not hide the crash of another (seen of OpenCL's).
        for fault in _FAULTS:
            signal.signal(fault, signal.SIG_DFL)
        print(f"begin {key}", file=answers)
        try:
            answer = _ACTIONS[action](*arguments)
        except BaseException as error:  # noqa: BLE001 - a plugin may do anything
            answer = {"count": 0, "reason": f"{type(error).__name__}: {error}", "fault": True}
        print(f"end {key} {json.dumps(answer)}", file=answers)
