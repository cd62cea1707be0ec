"""Courses of learning rates: their ends, their formulas, and what they compile."""

import math

import pytest

from core import Tensor, nn
from core.compiler.compile import STATISTICS
from core.nn import schedules


def rates(course, count):
    return [course(step) for step in range(count)]


def test_constant_with_a_warm_up():
    assert rates(schedules.constant(0.4), 3) == [0.4] * 3
    assert rates(schedules.constant(0.4, warmup=3), 5) == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.4])


def test_exponential_and_stepwise():
    assert rates(schedules.exponential(0.8, 0.5), 4) == [0.8, 0.4, 0.2, 0.1]
    assert rates(schedules.stepwise(1.0, [2, 3]), 5) == pytest.approx([1, 1, 0.1, 0.01, 0.01])


def test_linear_and_polynomial_end_where_they_say():
    assert rates(schedules.linear(1.0, 4, end=0.2), 6) == pytest.approx(
        [1, 0.8, 0.6, 0.4, 0.2, 0.2])
    assert rates(schedules.polynomial(1.0, 4, power=2), 5) == pytest.approx(
        [1, 9 / 16, 1 / 4, 1 / 16, 0])
    assert rates(schedules.linear(1.0, 4, warmup=2), 5) == pytest.approx([1 / 3, 2 / 3, 1, 0.5, 0])


def test_cosine_is_half_a_cosine():
    expected = [0.1 + 0.9 * (1 + math.cos(math.pi * k / 8)) / 2 for k in range(9)]
    assert rates(schedules.cosine(1.0, 8, end=0.1), 10) == pytest.approx([*expected, 0.1])


def test_restarts_begin_anew_and_grow():
    found = rates(schedules.cosine_restarts(1.0, 2, growth=2), 7)
    assert [found[k] for k in (0, 2, 6)] == [1.0, 1.0, 1.0]
    assert found[1] == pytest.approx(0.5)
    assert found[4] == pytest.approx(0.5)


def test_one_cycle_goes_up_and_down():
    found = rates(schedules.one_cycle(1.0, 10, rise=0.4), 10)
    assert found[0] == pytest.approx(1 / 25)
    assert found[3] == pytest.approx(1.0)
    assert found[9] == pytest.approx(1 / 25e4)
    assert found[:4] == sorted(found[:4])
    assert found[3:] == sorted(found[3:], reverse=True)


def test_a_schedule_sets_the_rate_and_compiles_nothing():
    w = Tensor([1.0, 2.0])
    optimizer = nn.optim.SGD([w], lr=9.0)
    schedule = schedules.Schedule(optimizer, schedules.linear(0.5, 5))
    expected, compiled = [1.0, 2.0], []
    for rate in (0.5, 0.4, 0.3, 0.2):
        assert optimizer.lr.item() == pytest.approx(rate)
        optimizer.zero_grad()
        (w * w).sum().backward()
        optimizer.step()
        schedule.step()
        expected = [x - 2 * rate * x for x in expected]
        assert w.tolist() == pytest.approx(expected, abs=1e-6)
        compiled.append(STATISTICS.kernels)
    assert compiled[1:] == [compiled[1]] * 3
    schedule.go_to(1)
    assert schedule.lr == pytest.approx(0.4)
    assert optimizer.lr.item() == pytest.approx(0.4)


def test_courses_that_make_no_sense_are_refused():
    for make in (lambda: schedules.linear(1, 3, warmup=3), lambda: schedules.cosine(1, 0),
                 lambda: schedules.stepwise(1, [3, 2]), lambda: schedules.one_cycle(1, 1),
                 lambda: schedules.cosine_restarts(1, 0)):
        with pytest.raises(ValueError, match=r"\d"):
            make()
