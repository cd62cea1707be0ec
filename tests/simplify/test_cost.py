"""Work of the simplifier grows with the graph; simplifying again is nearly free."""

import pytest

from core.ir import Op, UOp, dtypes
from core.ir.rewrite import COUNTERS
from core.simplify import simplify
from core.simplify.rule_sets import INDEX_RULES, rewrite


def _floats(length):
    node, other = UOp.param(0, dtypes.float32), UOp.param(1, dtypes.float32)
    for _ in range(length):
        node = node + other
    return node


def _integers(length):
    node, other = UOp.param(0, dtypes.int32), UOp.param(1, dtypes.int32)
    for _ in range(length):
        node = node + other
    return node


def _indices_in_order(length):
    node = UOp.range(2, 0)
    for number in range(1, length):
        node = node + UOp.range(2, number)
    return node


def _indices_backwards(length):
    node = UOp.range(2, length)
    for number in range(1, length):
        node = node + UOp.range(2, length - number)
    return node


def _weak_constants(length):
    node = UOp.range(4, 0)
    for number in range(length):
        node = node + number % 3
    return node


def _conditions(length):
    node = UOp.range(9, 0).eq(0)
    for number in range(1, length):
        node = node & UOp.range(9, number).eq(1)
    return node


def _casts_and_choices(length):
    node, flag = UOp.param(0, dtypes.float32), UOp.param(1, dtypes.bool)
    for number in range(length // 3):
        node = flag.where(node.cast(dtypes.float16).cast(dtypes.float32), node * (number + 2.5))
    return node


def _work(make, length):
    graph = make(length)
    visits, tried = COUNTERS.visits, COUNTERS.rules_tried
    rewrite(graph, INDEX_RULES)
    return COUNTERS.visits - visits, COUNTERS.rules_tried - tried


@pytest.mark.parametrize("make", [_floats, _integers, _indices_in_order, _indices_backwards,
                                  _weak_constants, _conditions, _casts_and_choices])
def test_work_is_linear(make):
    small, large = _work(make, 2_000), _work(make, 20_000)
    for few, many in zip(small, large, strict=True):
        assert many <= 10 * few * 1.1


def test_a_simplified_graph_is_looked_at_once():
    graph = simplify(_indices_in_order(500) + UOp.range(3, 1000) * 4)
    visits = COUNTERS.visits
    assert simplify(graph) is graph
    assert COUNTERS.visits == visits


def test_each_node_is_visited_once_when_nothing_is_left_to_do():
    graph = simplify(_floats(1000))
    visits = COUNTERS.visits
    assert rewrite(graph, INDEX_RULES) is graph
    assert COUNTERS.visits - visits == 1000 + 3  # two PARAMs share the STACK of their shape
    assert graph.op is Op.ADD
