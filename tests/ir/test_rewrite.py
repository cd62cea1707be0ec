"""The engine: fixed points, fuel, commutative patterns, and its growth with the graph."""

import pytest

from core import Context
from core.foundation.errors import RewriteLimitError
from core.ir import Op, Rule, RuleSet, UOp, const_var, dtypes, node, rewrite, var
from core.ir.rewrite import COUNTERS

x, y, c = var("x"), var("y"), const_var("c")
ADD_ZERO = Rule("add-zero", x + 0, lambda x: x, kinds=frozenset({"weak_int"}))
FOLD = Rule("fold", node(Op.ADD, c, const_var("d")), lambda c, d: UOp.const(c.value + d.value))


def variable(name="n"):
    return UOp.variable(name, 0, 100)


def test_rules_fire_to_a_fixed_point():
    n = variable()
    assert rewrite((n + 0) + (UOp.const(2) + 0), RuleSet(ADD_ZERO, FOLD)) is n + 2


def test_commutative_patterns_match_both_orders():
    n = variable()
    assert rewrite(0 + n, RuleSet(ADD_ZERO)) is n


def test_a_repeated_name_is_the_same_node():
    double = Rule("double", x + x, lambda x: x * 2)
    a, b = variable("a"), variable("b")
    assert rewrite(a + a, RuleSet(double)) is a * 2
    assert rewrite(a + b, RuleSet(double)) is a + b


def test_float_literals_match_by_bits():
    rule = Rule("minus-zero", x + -0.0, lambda x: x)
    f = UOp.variable("f", 0, 1, dtypes.float32)
    assert rewrite(f + -0.0, RuleSet(rule)) is f
    assert rewrite(f + 0.0, RuleSet(rule)) is f + 0.0


def test_context_and_declining():
    seen = []

    def decline(context, x):
        seen.append(context)

    rule = Rule("look", node(Op.NEG, x), decline)
    n = -variable()
    assert rewrite(n, RuleSet(rule), context="here") is n
    assert seen == ["here"]


def test_endless_rules_run_out_of_fuel_and_show_themselves():
    grow = Rule("grow", node(Op.NEG, x, name="n"), lambda n, x: -(x + 1))
    with pytest.raises(RewriteLimitError, match="did not end after 51 rewrites") as caught:
        rewrite(-variable(), RuleSet(grow), fuel=50)
    rows = str(caught.value).splitlines()
    assert sum(row.startswith("    → ") for row in rows) == 10
    assert "NEG" in rows[1]


def test_rules_that_grow_a_graph_endlessly_run_out_of_fuel():
    grow = Rule("grow", node(Op.NEG, x, name="n"), lambda n, x: -(x + 1))
    with pytest.raises(RewriteLimitError, match="did not end after 20001 rewrites"):
        rewrite(-variable(), RuleSet(grow))
    with Context(FUEL=15_000), pytest.raises(RewriteLimitError, match="after 45001 rewrites"):
        rewrite(-variable(), RuleSet(grow))


def test_rules_that_undo_each_other_run_out_of_fuel():
    there = Rule("there", node(Op.NEG, x), lambda x: x * -1)
    back = Rule("back", x * -1, lambda x: -x)
    with pytest.raises(RewriteLimitError, match="→ 0 ="):
        rewrite(-variable(), RuleSet(there, back), fuel=50)


def visits_of(length):
    n = variable()
    for k in range(length):
        n = (n + (k % 5 + 1)) + 0
    COUNTERS.visits = COUNTERS.rules_tried = 0
    rewrite(n, RuleSet(ADD_ZERO, FOLD))
    return COUNTERS.visits, COUNTERS.rules_tried


def test_work_grows_linearly_with_the_graph():
    small, large = visits_of(2_000), visits_of(20_000)
    for few, many in zip(small, large, strict=True):
        assert many <= 1.1 * 10 * few
