"""Bound schedules are kept up to a limit, the least recently used go first."""

import sys

from core import Context, Tensor


def test_the_setting_bounds_what_is_kept():
    x = Tensor([1.0, 2.0]).realize()
    kept = sys.modules["core.runtime.realize"]._bound  # the package has a function of this name
    with Context(SCHEDULE_CACHE=2):
        for k in range(5):
            (x * (k + 0.125)).realize()
        assert len(kept) == 2
        first, second = kept
        (x * 3.125).realize()
        assert list(kept) == [second, first], "what is used again goes last"
