"""Launches that follow each other on one device become one recording: see `Loader.record`.

A call has to wait for those before it where they touch the same bytes and one of them writes,
unless the same thread runs both: calls of a single item are run by the caller, in order
(algorithms 4.6).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

from core.compiler.compile import compile_linears
from core.foundation.errors import UnsupportedError
from core.plugin.interfaces import OpenDevice, RecordedCall, Recording, offers
from core.plugin.opening import OpenedDevice
from core.runtime import worker_programs

if TYPE_CHECKING:
    from core.runtime.launch import Launch


class Span(NamedTuple):
    """Bytes of an argument of the schedule that a call touches."""

    first: int
    end: int
    written: bool


class _Touched:
    """What calls have touched since all threads met, by argument of the schedule."""

    def __init__(self) -> None:
        self._spans: dict[int, list[Span]] = {}

    def add(self, launch: Launch) -> None:
        """Note what a call touches."""
        for slot, span in _spans(launch):
            self._spans.setdefault(slot, []).append(span)

    def conflicts(self, launch: Launch) -> bool:
        """Whether a call must not run beside one of these."""
        return any(
            (span.written or other.written) and span.first < other.end and other.first < span.end
            for slot, span in _spans(launch) for other in self._spans.get(slot, ()))

    def clear(self) -> None:
        """Forget them: all threads have met."""
        self._spans.clear()


def _spans(launch: Launch) -> list[tuple[int, Span]]:
    written = set(launch.info.writes)
    return [(place.slot, Span(place.offset, place.offset + place.size_bytes, slot in written))
            for place, slot in zip(launch.places, launch.info.buffers, strict=True)]


def recorded_calls(launches: Sequence[Launch]) -> list[RecordedCall]:
    """The launches with what each has to wait for."""
    calls = []
    alone, shared = _Touched(), _Touched()  # by whether one thread or all of them run a call
    for launch in launches:
        items = launch.global_size[0]
        meet = shared.conflicts(launch) or (items > 1 and alone.conflicts(launch))
        if meet:
            alone.clear()
            shared.clear()
        (shared if items > 1 else alone).add(launch)
        calls.append(RecordedCall(
            program=launch.program,
            blocks=tuple(place.slot for place in launch.places),
            offsets=tuple(place.offset for place in launch.places),
            scalars=launch.scalars, items=items, share=launch.local_size[0], meet=meet,
            global_size=launch.global_size, local_size=launch.local_size))
    return calls


_support: WeakKeyDictionary[OpenDevice, dict[str, bytes]] = WeakKeyDictionary()


class _Support(Mapping[str, bytes]):
    """The programs of a device's threads, made when its plugin asks for the first of them."""

    def __init__(self, opened: OpenedDevice) -> None:
        self._opened = opened

    def __getitem__(self, name: str) -> bytes:
        return _support_of(self._opened)[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_support_of(self._opened))

    def __len__(self) -> int:
        return len(_support_of(self._opened))


def _support_of(opened: OpenedDevice) -> dict[str, bytes]:
    """The programs of the device's threads, compiled once."""
    found = _support.get(opened.device)
    if found is None:
        pause = opened.target.pause
        found = _support[opened.device] = compile_linears({
            "worker": worker_programs.worker(pause), "replay": worker_programs.replay(pause),
            "stop": worker_programs.stop(),
        }, opened)
    return found


def record(launches: Sequence[Launch]) -> Recording | None:
    """One native object for some launches of a device; None where it makes none."""
    opened = launches[0].opened
    if not offers(opened.loader, "record"):
        return None
    try:
        return opened.loader.record(recorded_calls(launches), _Support(opened))
    except UnsupportedError:
        return None
