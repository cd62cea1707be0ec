"""A lock that is known to survive a fork is free in the child."""

import os
import threading

import pytest

from core.foundation.fork import survive_fork


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.parametrize("make", [threading.Lock, threading.RLock])
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_lock_is_free_in_the_child_whoever_holds_it(make):
    lock = survive_fork(make())
    taken = threading.Event()

    def hold():
        with lock:
            taken.set()
            threading.Event().wait(0.2)

    holder = threading.Thread(target=hold)
    holder.start()
    taken.wait()
    child = os.fork()
    if child == 0:
        os._exit(0 if lock.acquire(timeout=5) else 1)
    holder.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert lock.acquire(timeout=5)  # and in the parent
    lock.release()
