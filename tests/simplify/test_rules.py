"""Every row of every rule set: both sides are equal, bit by bit, wherever it fires."""

import math
from random import Random

import pytest

from core.ir import Op, Rule, UOp, dtypes, toposort, var
from core.ir.pattern import FLOATS, INTEGERS
from core.ir.text import text
from core.simplify import FACTOR_OUT_OF_SUM, INDEX_RULES, RULES, UNIT_RANGES
from core.simplify.facts import filled
from core.testing.rule_instances import Instances, MismatchError, assignment, leaves_of
from core.testing.scalar_evaluation import evaluate_scalars, same_values

TRIES, FIRINGS, POINTS = 6000, 40, 12
ALL = [*INDEX_RULES, *UNIT_RANGES, *FACTOR_OUT_OF_SUM]


def firings(rule, random, wanted=FIRINGS, tries=TRIES):
    instances = Instances(random)
    seen = set()
    for _ in range(tries):
        if len(seen) >= wanted:
            return
        try:
            before = instances.of(rule)
        except MismatchError:
            continue
        if before in seen:
            continue
        after = rule(before)
        if after is not None and after is not before:
            seen.add(before)
            yield before, after


def agree(before, after, random, points):
    leaves = leaves_of(before, after)
    for _ in range(points):
        values, ranges = assignment(leaves, random)
        left, right = (evaluate_scalars(n, values, ranges) for n in (before, after))
        assert same_values(left, right), (
            f"{left} != {right} at {values} {ranges}\n{text(before)}\n→\n{text(after)}")


def all_agree(rule, random):
    for before, after in firings(rule, random):
        agree(before, after, random, 50)


@pytest.mark.parametrize("rule", ALL, ids=lambda rule: rule.name)
def test_row(rule):
    random = Random(rule.name)
    fired = 0
    for before, after in firings(rule, random):
        fired += 1
        assert after.dtype is before.dtype
        assert after.shape == before.shape, f"{text(before)}\n→\n{text(after)}"
        if not (rule in FACTOR_OUT_OF_SUM.rules and before.dtype.is_float):
            agree(before, after, random, POINTS if leaves_of(before) else 1)
    assert fired, f"no instance of {rule.name} was found: it is never tested"


def test_names_are_unique():
    names = [rule.name for rule in ALL]
    assert len(names) == len(set(names))


def test_rules_of_every_stage_need_no_weak_integers():
    assert not any(rule.unbounded for rule in RULES)
    assert set(RULES) < set(INDEX_RULES)


def test_the_error_of_factoring_out_of_a_sum():
    x, c = UOp.param(0, dtypes.float32, (64,)), UOp.param(1, dtypes.float32)
    before = (x * c).reduce(Op.ADD, axes=1)
    after = FACTOR_OUT_OF_SUM.apply(before)
    assert after is x.reduce(Op.ADD, axes=1) * c
    random = Random(0)
    for _ in range(20):
        values = {x: [random.uniform(-1, 1) for _ in range(64)], c: random.uniform(-100, 100)}
        (left,), (right,) = (evaluate_scalars(n, values) for n in (before, after))
        size = sum(map(abs, values[x])) * abs(values[c])
        assert math.isclose(left, right, abs_tol=64 * 2**-23 * size)


def test_rows_that_may_round_are_in_no_general_set():
    assert not set(FACTOR_OUT_OF_SUM) & set(INDEX_RULES)


def test_a_wrong_row_is_found():
    """x + 0.0 → x loses the sign of -0.0; the test above must see it."""
    wrong = Rule("wrong", var("x", FLOATS) + 0.0, lambda x: x)
    random = Random(0)
    with pytest.raises(AssertionError):
        all_agree(wrong, random)


def test_a_row_that_drops_invalid_is_found():
    wrong = Rule("wrong", var("x", INTEGERS) * 0, lambda x: filled(0, x))
    random = Random(0)
    with pytest.raises(AssertionError):
        all_agree(wrong, random)


def test_evaluation_reaches_every_node():
    for rule in INDEX_RULES:
        for before, _ in firings(rule, Random(rule.name), wanted=1, tries=500):
            assert toposort(before)[-1] is before
