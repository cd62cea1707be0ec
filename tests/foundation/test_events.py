"""Observers see events; one that fails is counted and disturbs nobody."""

from core.foundation import events


def test_observers_see_events_and_failures_are_counted():
    seen = []

    def broken(event):
        raise RuntimeError("no")

    event = events.CacheHit(device="FOO", program="k")
    with events.observing(broken), events.observing(seen.append):
        events.emit(event)
        events.emit(event)
    events.emit(event)
    assert seen == [event, event]
    assert events.failures.pop(broken.__qualname__) == 2
