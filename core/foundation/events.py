"""Things that happen while core works, as typed events, and the list of those who watch.

Observers are the profiler, ``DEBUG`` lines and extensions' `core_event`. Events are made only while
somebody watches, and never per launch. The compiler's passes have an observer of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, kw_only=True)
class Event:
    """Base of all events.

    Args:
        device: Canonical name of the device concerned, such as ``"CUDA:1"``; empty for none.
    """

    device: str = ""


@dataclass(frozen=True, kw_only=True)
class Opened(Event):
    """A device opened: by which distribution and version, and how long it took."""

    distribution: str
    version: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Compiled(Event):
    """A program was compiled: its name, the size of its binary and how long the compiler took."""

    program: str
    size_bytes: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class CacheHit(Event):
    """A program's binary was found in the disk cache instead of being compiled."""

    program: str


@dataclass(frozen=True, kw_only=True)
class Failed(Event):
    """Something failed: at which stage (open, compile, load, run) and why."""

    stage: str
    reason: str


#: Observers in order of arrival. Ask ``if observers:`` before making an event.
observers: Final[list[Callable[[Event], None]]] = []
#: Failures of observers, by name of the observer: shown by ``core doctor``.
failures: Final[dict[str, int]] = {}


def emit(event: Event) -> None:
    """Show `event` to every observer. One that raises is counted and the others still see it."""
    for observer in tuple(observers):
        try:
            observer(event)
        except KeyboardInterrupt:
            raise
        except BaseException:  # noqa: BLE001 - an observer may not break what it watches
            name = getattr(observer, "__qualname__", repr(observer))
            failures[name] = failures.get(name, 0) + 1


@contextmanager
def observing(observer: Callable[[Event], None]) -> Iterator[None]:
    """Show every event inside the block to `observer`."""
    observers.append(observer)
    try:
        yield
    finally:
        observers.remove(observer)
