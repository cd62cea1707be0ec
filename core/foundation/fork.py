"""Locks and `fork`: a child must not inherit a lock that a thread of its parent holds."""

from __future__ import annotations

import os
import threading
from typing import TypeVar

AnyLock = TypeVar("AnyLock", bound="threading.Lock | threading.RLock")


def survive_fork(lock: AnyLock) -> AnyLock:
    """The lock, held by whoever forks, so that in the child nobody has it.

    Locks are taken in the reverse of the order in which they were made known: modules below are
    imported first, and those above call them with their own lock held.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release,
                            after_in_child=lock.release)
    return lock
