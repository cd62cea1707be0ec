"""A chain of 20,000 operations: nothing recurses, and work grows as the chain does."""

import itertools
import sys

import numpy as np
import pytest

from core import Tensor
from core.compiler import pipeline
from core.ir import toposort
from core.ir.rewrite import COUNTERS
from core.runtime import storage_of_value
from core.schedule.callify import callify
from core.simplify import simplify
from core.testing.pass_checks import TARGET

FACTORS = itertools.count(1)


def chain(length):
    """(input, value) of alternating products and sums; no two calls give equal nodes.

    A graph that an earlier test left alive would have its memos share the work of a later one.
    """
    factor = 0.5 + next(FACTORS) * 2.0**-20
    x = Tensor(np.linspace(0.9, 1.1, 16, dtype=np.float32), device="NULL", requires_grad=True)
    y = Tensor(np.ones(16, np.float32), device="NULL")
    value = x
    for k in range(length):
        value = value + y if k % 2 else value * x * factor
    return x, value


def forward(length):
    return chain(length)[1]


def backward(length):
    x, value = chain(length)
    return value.sum().gradient(x)[0]


def scheduled(value):
    call = callify([value.uop], "NULL", storage_of_value).call
    pipeline._schedules.clear()  # an earlier test may have scheduled an equal chain
    return pipeline.schedule(call.src[0], TARGET)


def simplified(value):
    return simplify(value.uop)


def counts(step, value):
    """(nodes visited, rules tried) by the rewriting engine."""
    COUNTERS.visits = COUNTERS.rules_tried = 0
    step(value)
    return COUNTERS.visits, COUNTERS.rules_tried


@pytest.mark.parametrize(("step", "make"), [
    (simplified, forward), (simplified, backward), (scheduled, forward)])
def test_visits_and_rules_grow_linearly(step, make):
    few, many = counts(step, make(2_000)), counts(step, make(20_000))
    for small, large in zip(few, many, strict=True):
        # A kernel more tries a few rules more, whatever its length.
        assert large <= 1.1 * 10 * small + 500, (few, many)


@pytest.mark.full
def test_visits_and_rules_of_a_gradient_grow_linearly():
    """From a length on at which values of the forward pass have to be stored."""
    few, many = counts(scheduled, backward(4_000)), counts(scheduled, backward(20_000))
    for small, large in zip(few, many, strict=True):
        assert large <= 1.1 * 5 * small, (few, many)


def calls(action):
    """Function calls of Python that an action makes: work that no counter names."""
    made = 0

    def count(frame, event, argument):
        nonlocal made
        made += event == "call"

    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(None)
    return made


@pytest.mark.parametrize("action", [
    forward, backward, lambda n: scheduled(forward(n)),
], ids=["build", "differentiate", "schedule"])
def test_all_work_grows_linearly(action):
    assert calls(lambda: action(8_000)) <= 1.1 * 4 * calls(lambda: action(2_000))


def test_kernels_that_would_read_too_much_are_planned_again_only_twice():
    """Work on a gradient: values of the forward pass are stored, in few rounds for any length."""
    once = calls(lambda: scheduled(backward(1_000)))
    assert calls(lambda: scheduled(backward(6_000))) <= 1.1 * 3 * 6 * once


def test_the_graph_of_a_gradient_is_as_long_as_its_chain():
    assert len(toposort(backward(20_000).uop)) <= 8 * 20_000


def test_a_gradient_is_right_where_its_chain_is_cut():
    """On a chain that takes many kernels."""
    x = Tensor([1.0, 2.0], requires_grad=True)
    value = x
    for k in range(4_000):
        value = value * 0.9999 + x * 0.0001 if k % 2 else value + x - x
    (found,) = value.sum().gradient(x)
    np.testing.assert_allclose(found.numpy(), [1.0, 1.0], rtol=1e-3)
