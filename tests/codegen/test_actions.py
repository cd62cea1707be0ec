"""The schedule language: each action before → after, with values, replayed from text, refused."""

import numpy as np
import pytest

from core.codegen.actions import (
    ActionError,
    Merge,
    Order,
    Retype,
    Split,
    Stage,
    Tail,
    apply_actions,
    parse_actions,
)
from core.codegen.loop_nest import LoopNest
from core.ir import AxisType, Op, UOp, toposort
from core.reference.run import run
from core.testing.pass_checks import expect_values, kernel, matmul, place, program_of

LEFT, RIGHT = (np.arange(64, dtype=np.float32).reshape(8, 8) - k for k in (20, 30))
X = np.arange(77, dtype=np.float32) - 30


def transposed(rows=7, columns=11):
    """out[j, i] = 2 * x[i, j]: the loops are i (0) and j (1)."""
    i, j = UOp.range(rows, 0), UOp.range(columns, 1)
    value = place(1, rows * columns).index(i * columns + j).load() * 2.0
    return kernel(place(0, rows * columns).index(j * rows + i).store(value).end(i, j))


def row_sums():
    """out[i] = sum over k of x[i, k], 7 rows of 11."""
    i, k = UOp.range(7, 0), UOp.range(11, 1)
    value = place(1, 77).index(i * 11 + k).load().reduce(Op.ADD, k)
    return kernel(place(0, 7).index(i).store(value).end(i))


def loops(sink):
    """(number, extent, type) of every loop, by number."""
    return sorted((n.arg.id, n.src[0].value, n.arg.axis_type.name)
                  for n in toposort(sink) if n.op is Op.RANGE)


def applied(sink, text):
    """The kernel after some actions; replayed from its own text it is the same node."""
    after = apply_actions(sink, parse_actions(text))
    assert apply_actions(sink, parse_actions(" ".join(after.arg.actions))) is after
    assert after.arg.actions == tuple(map(str, parse_actions(text)))
    return after


def refused(sink, action, why):
    with pytest.raises(ActionError, match=why) as caught:
        action.apply(sink)
    assert "(" in str(caught.value) or "no loop" in str(caught.value)


TAILS = ["SPLIT(0, 7, UPCAST, EXACT)", "SPLIT(0, 3, UPCAST, CLAMP)", "SPLIT(0, 3, UPCAST, MASK)"]


@pytest.mark.parametrize("text", [
    *TAILS,
    "SPLIT(1, 4, LANE, CLAMP)", "SPLIT(1, 4, LANE, MASK)", "SPLIT(1, 16, LANE, MASK)",
    "SPLIT(0, 2, LOOP, MASK) SPLIT(1, 3, LOOP, CLAMP)",
    "SPLIT(0, 3, UPCAST, MASK) SPLIT(1, 4, LANE, MASK)",
    "SPLIT(0, 3, UPCAST, CLAMP) SPLIT(1, 4, LANE, CLAMP) RETYPE(3, THREAD)",
    "SPLIT(1, 4, LOOP, MASK) SPLIT(3, 2, UPCAST, MASK)",
    "ORDER(1, 0)", "ORDER(1, 0) RETYPE(1, THREAD)",
    "RETYPE(0, UPCAST)", "RETYPE(1, LANE)", "RETYPE(0, THREAD, DYNAMIC)", "STREAM(0)",
    "MERGE(0, 1)", "MERGE(0, 1) SPLIT(2, 8, LANE, CLAMP)", "MERGE(0, 1) RETYPE(2, THREAD)",
    "STAGE(0, 0, 1)", "STAGE(0, 1)", "STAGE(0, 1, 0)",
    "SPLIT(1, 4, LANE, CLAMP) STAGE(0, 2)",
])
def test_values_stay_the_same(text):
    after = applied(transposed(), text)
    expected = 2 * X.reshape(7, 11).T.ravel()
    expect_values(after, expected, X)
    expect_values(program_of(after), expected, X)


@pytest.mark.parametrize("text", [
    "SPLIT(1, 11, LANE, EXACT)", "SPLIT(1, 4, LANE, MASK)", "SPLIT(1, 4, UNROLL, MASK)",
    "SPLIT(1, 3, UPCAST, MASK)", "SPLIT(1, 4, LOOP, MASK) SPLIT(0, 3, UPCAST, CLAMP)",
    "SPLIT(0, 4, LANE, CLAMP)", "RETYPE(1, UNROLL)", "RETYPE(1, UPCAST)", "STAGE(0, 1)",
    "STAGE(0, 0, 1)",
])
def test_sums_stay_the_same(text):
    after = applied(row_sums(), text)
    expect_values(after, X.reshape(7, 11).sum(axis=1), X)
    expect_values(program_of(after), X.reshape(7, 11).sum(axis=1), X)


@pytest.mark.parametrize("text", [
    "ORDER(1, 0) SPLIT(1, 4, LANE, EXACT) SPLIT(0, 4, UPCAST, EXACT)",
    "SPLIT(1, 4, LANE, EXACT) SPLIT(0, 3, UPCAST, CLAMP) STAGE(1, 2, 4, 3) RETYPE(6, THREAD)",
    "SPLIT(2, 4, LOOP, EXACT) SPLIT(1, 8, LANE, EXACT) STAGE(1, 4, 3, 5)",
    "MERGE(0, 1) SPLIT(3, 16, LANE, EXACT)",
    "SPLIT(2, 3, UNROLL, MASK) SPLIT(0, 3, UPCAST, MASK) SPLIT(1, 3, LANE, CLAMP)",
])
def test_products_stay_the_same(text):
    after = applied(matmul(8), text)
    expect_values(after, (LEFT @ RIGHT).ravel(), LEFT.ravel(), RIGHT.ravel())
    expect_values(program_of(after), (LEFT @ RIGHT).ravel(), LEFT.ravel(), RIGHT.ravel())


def test_split_makes_an_outer_and_an_inner_loop():
    assert loops(applied(transposed(8), "SPLIT(0, 4, UPCAST, EXACT)")) == [
        (1, 11, "LOOP"), (2, 4, "UPCAST"), (3, 2, "LOOP")]
    for tail in ("CLAMP", "MASK"):
        assert loops(applied(transposed(), f"SPLIT(0, 4, LANE, {tail})")) == [
            (1, 11, "LOOP"), (2, 4, "LANE"), (3, 2, "LOOP")]


def test_split_by_the_whole_extent_leaves_one_loop():
    assert loops(applied(transposed(), "SPLIT(0, 7, LANE, EXACT)")) == [
        (1, 11, "LOOP"), (2, 7, "LANE")]


def test_clamp_stores_some_elements_twice_and_gates_nothing():
    after = applied(transposed(), "SPLIT(0, 4, LANE, CLAMP)")
    assert not [n for n in toposort(after) if n.is_invalid]
    masked = applied(transposed(), "SPLIT(0, 4, LANE, MASK)")
    assert [n for n in toposort(masked) if n.is_invalid]


def test_a_symbolic_loop_is_split_by_mask():
    n = UOp.variable("n", 1, 77, slot=2)
    i = UOp.range(n, 0)
    sink = kernel(place(0, 77).index(i).store(place(1, 77).index(i).load() + 1.0).end(i))
    refused(sink, Split(0, 4, AxisType.LANE, Tail.CLAMP), "symbolic; only MASK")
    refused(sink, Split(0, 1, AxisType.LANE), "symbolic; only MASK")
    refused(sink, Retype(0, AxisType.UPCAST), "symbolic")
    after = applied(sink, "SPLIT(0, 4, LANE, MASK)")
    for count in (1, 5, 8, 77):
        result = np.full(77, -1, np.float32)
        run(program_of(after), [result, X], [count])
        assert np.array_equal(result[:count], X[:count] + 1)
        assert (result[count:] == -1).all()


def test_order_permutes_the_loops_of_every_store():
    after = applied(transposed(), "ORDER(1, 0)")
    assert [r.arg.id for r in LoopNest(after).output_ranges] == [1, 0]


def test_merge_makes_one_loop_of_two():
    assert loops(applied(transposed(), "MERGE(0, 1)")) == [(2, 77, "LOOP")]


def test_retype_changes_the_type_alone():
    assert loops(applied(transposed(), "RETYPE(0, UPCAST)")) == [
        (0, 7, "UPCAST"), (1, 11, "LOOP")]


def test_stage_copies_the_whole_expression_of_the_load():
    """A gated, shifted load: the gate goes along into the fill."""
    i, j = UOp.range(8, 0), UOp.range(3, 1)
    shifted = place(1, 6).index((i - 2).valid(UOp.const(1) < i)).load()
    sink = kernel(place(0, 24).index(i * 3 + j).store(shifted).end(i, j))
    after = applied(sink, "ORDER(1, 0) STAGE(0, 0)")
    (stage,) = [n for n in toposort(after) if n.op is Op.STAGE]
    assert [n.op for n in toposort(stage) if n.op in (Op.LOAD, Op.WHERE)] == [Op.WHERE, Op.LOAD]
    expected = np.repeat(np.pad(X[:6], (2, 0)), 3)
    expect_values(program_of(after), expected, X[:6])


@pytest.mark.parametrize(("action", "why"), [
    (Split(0, 3, AxisType.UPCAST), "3 does not divide 7"),
    (Split(0, 0, AxisType.UPCAST, Tail.MASK), "a factor of 0"),
    (Split(0, 8, AxisType.UPCAST, Tail.CLAMP), "a factor of 8 for 7"),
    (Split(5, 2, AxisType.UPCAST), "no loop 5"),
    (Retype(5, AxisType.UPCAST), "no loop 5"),
    (Retype(1, AxisType.THREAD), "outermost"),
    (Order((0,)), "the output loops are \\[0, 1\\]"),
    (Order((0, 0)), "the output loops are"),
    (Merge(1, 0), "not neighbours"),
    (Merge(0, 7), "no loop 7"),
    (Merge(0, 0), "not neighbours"),
    (Stage(1, (0,)), "has 1 loads"),
    (Stage(0, ()), "a tile is of loops"),
    (Stage(0, (9,)), "no loop 9"),
])
def test_what_an_action_cannot_do_it_refuses(action, why):
    refused(transposed(), action, why)


def test_an_overlap_of_what_accumulates_is_refused():
    refused(row_sums(), Split(1, 4, AxisType.LANE, Tail.CLAMP), "accumulates")
    refused(row_sums(), Retype(1, AxisType.THREAD), "outermost output loop")
    i = UOp.range(7, 0)
    storage = place(0, 7)
    in_place = kernel(storage.index(i).store(storage.index(i).load() * 2.0).end(i))
    refused(in_place, Split(0, 4, AxisType.LANE, Tail.CLAMP), "reads what it writes")


def test_a_statement_has_lanes_along_one_loop():
    after = Retype(0, AxisType.LANE).apply(transposed())
    refused(after, Retype(1, AxisType.LANE), "another loop here has the lanes")
    refused(after, Split(1, 4, AxisType.LANE, Tail.MASK), "another loop here has the lanes")


def test_a_tile_holds_every_inner_loop_of_its_load():
    refused(Retype(0, AxisType.UPCAST).apply(transposed()), Stage(0, (1,)), "must hold every loop")
    expect = matmul(8)
    left, right = (np.arange(64, dtype=np.float32).reshape(8, 8) - k for k in (20, 30))
    expect_values(program_of(apply_actions(expect, [Stage(1, (1,))])), (left @ right).ravel(),
                  left.ravel(), right.ravel())


@pytest.mark.parametrize("text", ["JUMP(0)", "split(0, 2, LANE, EXACT)"])
def test_unknown_actions_are_refused(text):
    with pytest.raises(ValueError, match="unknown loop action"):
        parse_actions(text)


@pytest.mark.parametrize("text", [
    "SPLIT(0, 2, LANE", "SPLIT(0, 2)", "SPLIT(0, 2, LANES, EXACT)", "ORDER(a)", "SPLIT 0 2",
    "RETYPE(0, THREAD, QUICKLY)", "STREAM(0) and", "MERGE(0)", "STAGE()",
])
def test_malformed_text_is_refused(text):
    with pytest.raises(ValueError, match="malformed loop action"):
        parse_actions(text)
