"""What a pass is, and how a list of passes is run, checked and watched."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from core.foundation.settings import settings
from core.ir import UOp
from core.ir.specification import Specification, verify
from core.plugin import Target


def every_target(target: Target) -> bool:
    """A pass applies to every target unless it says otherwise."""
    return True


@dataclass(frozen=True)
class Pass:
    """One step of the compiler.

    Attributes:
        name: Verb phrase in kebab-case; the file and the test have the same name.
        rewrite: (graph, target) → graph.
        produces: What the result may hold, verified with SPEC=1.
        because: Why the pass stands at this place.
        applies_to: For which targets it runs.
    """

    name: str
    rewrite: Callable[[UOp, Target], UOp]
    produces: Specification
    because: str
    applies_to: Callable[[Target], bool] = every_target


Observer = Callable[[Pass, UOp, UOp, float], None]
_observers: Final[list[Observer]] = []


@contextmanager
def observe(observer: Observer) -> Iterator[None]:
    """Call `observer(pass, before, after, seconds)` after each pass in this block."""
    _observers.append(observer)
    try:
        yield
    finally:
        _observers.remove(observer)


def run_passes(graph: UOp, passes: Sequence[Pass], target: Target) -> UOp:
    """Run passes in order.

    Raises:
        VerificationError: With SPEC=1, a result that its specification does not allow; the
            message names the pass and shows the graph.
    """
    for step in passes:
        if not step.applies_to(target):
            continue
        before, started = graph, time.perf_counter()
        graph = step.rewrite(graph, target)
        if settings.SPEC:
            verify(graph, step.produces, step.name)
        for observer in _observers:
            observer(step, before, graph, time.perf_counter() - started)
    return graph


@contextmanager
def quiet_collector() -> Iterator[None]:
    """Raise the garbage collector's threshold: a compiler makes many objects and no cycles."""
    threshold = gc.get_threshold()
    gc.set_threshold(200_000, threshold[1], threshold[2])
    try:
        yield
    finally:
        gc.set_threshold(*threshold)
