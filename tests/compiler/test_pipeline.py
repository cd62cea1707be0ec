"""The pipeline as data: no pass is there without need, and each result is verified."""

import dataclasses

import pytest

from core.compiler import pipeline
from core.compiler.passes import observe, run_passes
from core.foundation.errors import VerificationError
from core.foundation.settings import Context
from core.ir import Op, UOp, dtypes
from core.plugin.registry import registry
from core.testing.pass_checks import CHECKS, TARGET, matmul

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


def malformed(graph, target):
    """A kernel graph with an argument of rank 2, a tensor graph with a LOAD, a weak program."""
    matrix = UOp.param(1, dtypes.float32, (2, 3), "TEST")
    call = UOp.sink().call(UOp.param(0, dtypes.float32, (6,), "TEST"), matrix)
    return UOp(Op.LINEAR, (call, UOp.range(6, 0)))


@pytest.mark.parametrize("step", pipeline.all_passes(), ids=lambda step: step.name)
def test_with_spec_a_malformed_result_names_its_pass_and_shows_the_graph(step):
    broken = dataclasses.replace(step, rewrite=malformed)
    with Context(SPEC=1), pytest.raises(VerificationError) as caught:
        run_passes(matmul(4), (broken,), TARGET)
    assert f"the {step.produces.name} after {step.name} is malformed" in str(caught.value)
    assert "RANGE" in str(caught.value)
    assert "shape=(2, 3)" in str(caught.value) or "PARAM" in str(caught.value)


def test_without_spec_nothing_is_verified():
    broken = dataclasses.replace(pipeline.SCHEDULE[-1], rewrite=malformed)
    with Context(SPEC=0):
        assert run_passes(matmul(4), (broken,), TARGET).op is Op.LINEAR


def test_a_scheduler_that_leaves_a_view_between_kernels_is_caught(monkeypatch):
    """Every CALL argument has rank 0 or 1: the error names the CALL, the pass and the graph."""
    schedule = pipeline.SCHEDULE[-1]

    def with_matrix(graph, target):
        linear = schedule.rewrite(graph, target)
        call = linear.src[0]
        matrix = UOp.param(1, dtypes.float32, (4, 4), "TEST")
        return linear.replace(src=(call.replace(src=(*call.src[:-1], matrix)),))

    monkeypatch.setattr(pipeline, "SCHEDULE", (
        *pipeline.SCHEDULE[:-1], dataclasses.replace(schedule, rewrite=with_matrix)))
    out, x = (UOp.param(k, dtypes.float32, (4, 4), "TEST") for k in (0, 1))
    with Context(SPEC=1), pytest.raises(VerificationError, match="after create-schedule") as caught:
        pipeline.schedule(UOp.sink(out.store(x * 7.0)), TARGET)
    message = str(caught.value)
    assert "CALL must be" in message
    assert "rank 0 or 1" in message
    assert "(4, 4)" in message or "CONST" in message


def test_observers_see_every_pass_in_order():
    seen = []
    with observe(lambda step, before, after, seconds: seen.append((step.name, seconds >= 0))):
        pipeline.generate(matmul(4), TARGET, frozenset(Op))
    assert seen == [(name, True) for name in NAMES if name not in {
        step.name for step in pipeline.SCHEDULE}]


def test_an_interpreter_takes_the_kernel_itself():
    reference = registry.open("REFERENCE").target
    program = pipeline.generate(matmul(4), reference, frozenset(Op))
    assert program.src[1] is matmul(4)


def test_equal_bodies_are_scheduled_once():
    out, x = (UOp.param(k, dtypes.float32, (5,), "TEST") for k in (0, 1))
    body = UOp.sink(out.store(x * 3.0))
    assert pipeline.schedule(body, TARGET) is pipeline.schedule(body, TARGET)
    seen = []
    with observe(lambda *step: seen.append(step)):
        pipeline.schedule(body, TARGET)
    assert not seen


def test_the_schedule_cache_is_bounded_and_holds_no_storage(monkeypatch):
    monkeypatch.setattr(pipeline, "_REMEMBERED_SCHEDULES", 4)
    out = UOp.param(0, dtypes.float32, (5,), "TEST")
    for k in range(9):
        x = UOp.param(1, dtypes.float32, (5,), "TEST")
        pipeline.schedule(UOp.sink(out.store(x * float(k))), TARGET)
    assert len(pipeline._schedules) == 4
