"""Bound schedules are kept up to a limit, the least recently used go first."""

from core import Context, Tensor
from core.runtime import realize


def test_the_setting_bounds_what_is_kept():
    x = Tensor([1.0, 2.0])
    with Context(SCHEDULE_CACHE=2):
        for k in range(5):
            (x * (k + 0.125)).realize()
        assert len(realize._bound) == 2
        first, second = realize._bound
        (x * 3.125).realize()
        assert list(realize._bound) == [second, first], "what is used again goes last"
