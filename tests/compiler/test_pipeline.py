"""The pipeline as data: no pass is there without need, and each result is verified."""

import pytest

from core.compiler import pipeline
from core.testing.pass_checks import CHECKS

NAMES = [step.name for step in pipeline.all_passes()]


@pytest.fixture
def without(monkeypatch):
    """Leaves a pass out of the pipeline; nothing is remembered."""
    def leave_out(name):
        for group in ("SCHEDULE", "LOWER", "FINISH"):
            kept = tuple(p for p in getattr(pipeline, group) if p.name != name)
            monkeypatch.setattr(pipeline, group, kept)
        if name == "decompose":
            monkeypatch.setattr(pipeline, "decompose", lambda graph, target, ops: graph)
        monkeypatch.setattr(pipeline, "_schedules", type(pipeline._schedules)())

    return leave_out


def test_every_pass_has_a_check():
    assert list(CHECKS) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_check_of_a_pass_fails_without_it(name, without):
    CHECKS[name].check()
    without(name)
    with pytest.raises(CHECKS[name].failure) as caught:
        CHECKS[name].check()
    assert type(caught.value) is CHECKS[name].failure
