"""`simplify` on random expressions: same values everywhere, bounds that hold, one fixed point."""

from functools import reduce
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.ir import Op, UOp, bounds, dtypes, live_count, toposort
from core.ir.arguments import Invalid
from core.ir.text import text
from core.simplify import INDEX_RULES, prove, simplify, simplify_valid
from core.testing.rule_instances import assignment, leaves_of
from core.testing.scalar_evaluation import evaluate_scalars, same_values

R, J, K = UOp.range(4, 0), UOp.range(6, 1), UOp.range(3, 2)
N = UOp.variable("n", 1, 5, slot=3)
M = UOp.variable("m", -4, 4, slot=4)
COEFFICIENTS = st.sampled_from([-6, -4, -3, -2, -1, 1, 2, 3, 4, 6, 8, 12])


def weak(depth):
    leaf = st.one_of(st.sampled_from([R, J, K, N, M]), st.integers(-9, 9).map(UOp.const))
    if depth == 0:
        return leaf
    inner = weak(depth - 1)
    return st.one_of(
        leaf,
        st.builds(lambda a, b: a + b, inner, inner),
        st.builds(lambda a, b: a - b, inner, inner),
        st.builds(lambda a, k: a * k, inner, COEFFICIENTS),
        st.builds(lambda a, k, b: a * k + b, inner, COEFFICIENTS, inner),
        st.builds(lambda a, k: a // k, inner, COEFFICIENTS),
        st.builds(lambda a, k: a % k, inner, COEFFICIENTS),
        st.builds(lambda a, b: a.maximum(b), inner, inner),
        st.builds(lambda a, k, m: a // k * m + a % k, inner, COEFFICIENTS, COEFFICIENTS),
        st.builds(lambda a, k, m: a // k % 2 * m + a % k, inner, COEFFICIENTS, COEFFICIENTS),
        st.builds(lambda a, k, m: a * m - a % k, inner, COEFFICIENTS, COEFFICIENTS),
        st.builds(lambda a: (a * N + K) // N, inner),
        st.builds(lambda a: (a * N + K) % N, inner),
        st.builds(lambda g, a, b: g.where(a, b), truth(depth - 1), inner, inner),
        st.builds(lambda g, a: a.valid(g), truth(depth - 1), inner),
        st.builds(lambda a: -a, inner),
        st.builds(lambda a: a.cast(dtypes.int32).cast(dtypes.weak_int), inner),
    )


def truth(depth):
    inner = weak(depth)
    compare = st.one_of(
        st.builds(lambda a, b: a < b, inner, inner), st.builds(lambda a, b: a >= b, inner, inner),
        st.builds(lambda a, b: a.eq(b), inner, inner),
        st.builds(lambda a, b: a.ne(b), inner, inner))
    if depth == 0:
        return compare
    less = truth(depth - 1)
    return st.one_of(
        compare, st.builds(lambda a, b: a & b, less, less),
        st.builds(lambda a, b: a | b, less, less),
        st.builds(lambda a: a.logical_not(), less))


def machine(depth, dtype):
    variables = [UOp.param(k, dtype) for k in range(3)]
    values = [0, 1, 2, 7, dtype.maximum, dtype.minimum] if dtype.is_integer else [
        0.0, -0.0, 1.0, -1.0, 2.0, 0.3, float("inf"), float("nan")]
    leaf = st.sampled_from([*variables, *(UOp.const(v, dtype) for v in values)])
    if depth == 0:
        return leaf
    inner = machine(depth - 1, dtype)
    binary = [Op.ADD, Op.SUB, Op.MUL, Op.MAX] + (
        [Op.FLOORDIV, Op.FLOORMOD, Op.TRUNCDIV, Op.TRUNCMOD, Op.AND, Op.OR, Op.XOR, Op.SHL, Op.SHR]
        if dtype.is_integer else [Op.FDIV])
    return st.one_of(
        leaf,
        st.builds(lambda op, a, b: a.alu(op, b), st.sampled_from(binary), inner, inner),
        st.builds(lambda a: -a, inner),
        st.builds(lambda a, b, c, d: (a < b).where(c, d), inner, inner, inner, inner),
        st.builds(lambda a, b, c: a.eq(b).logical_not().where(c, a), inner, inner, inner),
        st.builds(lambda d, a: a.cast(d).cast(dtype), st.sampled_from(
            [dtypes.int64, dtypes.float64, dtypes.uint8, dtypes.float32, dtypes.bool]), inner),
    )


def agree(before, after, points, seed=0):
    random = Random(seed)
    leaves = leaves_of(before, after)
    assert after.dtype is before.dtype
    low, high = bounds(after)
    for _ in range(points):
        values, ranges = assignment(leaves, random)
        left, right = (evaluate_scalars(n, values, ranges) for n in (before, after))
        assert same_values(left, right), (
            f"{left} != {right} at {values} {ranges}\n{text(before)}\n→\n{text(after)}")
        if right[0] is not Invalid and not before.dtype.is_float:
            assert low <= right[0] <= high


@settings(max_examples=300, deadline=None)
@given(weak(3))
def test_index_expressions(expression):
    agree(expression, simplify(expression), 40)


@settings(max_examples=200, deadline=None)
@given(truth(2))
def test_conditions(condition):
    agree(condition, simplify(condition), 40)
    known = prove(condition)
    if known is not None:
        random = Random(1)
        for _ in range(40):
            values, ranges = assignment(leaves_of(condition), random)
            value = evaluate_scalars(condition, values, ranges)[0]
            assert value is Invalid or value == known


@settings(max_examples=200, deadline=None)
@given(truth(1), weak(2))
def test_gated_indices(gate, value):
    index = simplify(value).valid(simplify(gate))
    agree(index, simplify_valid(index), 40)


@pytest.mark.parametrize("dtype", [dtypes.int8, dtypes.uint8, dtypes.int32, dtypes.uint64,
                                   dtypes.float16, dtypes.float32, dtypes.float64], ids=str)
def test_machine_expressions(dtype):
    @settings(max_examples=80, deadline=None)
    @given(machine(3, dtype))
    def check(expression):
        agree(expression, simplify(expression), 20)

    check()


@settings(max_examples=200, deadline=None)
@given(weak(3))
def test_simplifying_again_changes_nothing(expression):
    once = simplify(expression)
    for node in toposort(once):
        assert INDEX_RULES.apply(node) is None


@settings(max_examples=100, deadline=None)
@given(st.permutations([R, J * 3, K % 2, J // 2, J % 4, M * N, N, UOp.const(5)]),
       st.permutations(range(8)))
def test_sums_have_one_order(terms, groups):
    total = UOp.const(0)
    for term in terms:
        total = total + term
    other = UOp.const(0)
    for k in groups:
        other = terms[k] + other
    assert simplify(total) is simplify(other)


def test_reshape_of_every_split_gives_the_parts_back():
    for n, m in [(4, 6), (1, 5), (7, 1), (3, 8)]:
        i, j = UOp.range(n, 5), UOp.range(m, 6)
        flat = i * m + j
        zero = UOp.const(0)
        assert simplify(flat // m) is (i if n > 1 else zero)
        assert simplify(flat % m) is (j if m > 1 else zero)
    i, j, k = UOp.range(2, 0), UOp.range(3, 1), UOp.range(4, 2)
    flat = (i * 3 + j) * 4 + k
    assert simplify((flat // 2) % 6 * 2 + flat % 2) is simplify(j * 4 + k)
    assert simplify((flat // 12) * 12 + (flat % 12)) is simplify(flat)


def test_symbolic_sizes():
    m = UOp.range(N, 9)
    assert simplify((R * N + m) // N) is R
    assert simplify((R * N + m) % N) is m
    assert prove(m < N) is True
    assert prove((R + 1) * N - R * N >= 1) is True
    assert prove(N < 3) is None


def test_nothing_is_kept_alive():
    def work(number):
        x = UOp.new_buffer("TEST", dtypes.int32, (number,))
        return simplify((x + 0) * 1 + x)

    work(3)
    before = live_count()
    for number in range(4, 40):
        work(number)
    assert live_count() <= before + 4


def test_a_very_long_gate_implies_nothing_by_a_part_of_it():
    """WHERE(g, WHERE(h, x, y), z): h has one clause more than g, past those that are looked at."""
    flags = [UOp.variable(f"v{k}", 0, 1, slot=10 + k).ne(0) for k in range(40)]
    inner = reduce(UOp.__and__, flags)
    outer = reduce(UOp.__and__, flags[1:])
    value = outer.where(inner.where(UOp.const(1), UOp.const(2)), UOp.const(3))
    at = {leaf: int(leaf.arg.slot > 10) for leaf in leaves_of(value)}
    assert evaluate_scalars(value, at) == evaluate_scalars(simplify(value), at) == [2]
