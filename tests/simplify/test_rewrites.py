"""What the rows are for, one picture a line: before and after."""

import pytest

from core.ir import AxisType, Op, UOp, dtypes, toposort
from core.simplify import (
    INDEX_RULES,
    drop_unit_ranges,
    prove,
    shrink_ranges,
    simplify,
    simplify_valid,
)

R, J, K = UOp.range(4, 0), UOp.range(6, 1), UOp.range(3, 2)
X, Y = UOp.param(0, dtypes.int32), UOp.param(1, dtypes.int32)
F, H = UOp.param(2, dtypes.float32), UOp.param(3, dtypes.float32)
P, Q = UOp.param(4, dtypes.bool), UOp.param(5, dtypes.bool)
A = UOp.param(6, dtypes.float32, (2, 3))
B = UOp.param(7, dtypes.float32, (6,))
TRUE, FALSE = UOp.const(True, dtypes.bool), UOp.const(False, dtypes.bool)
NOTHING = UOp.invalid()
ZERO = UOp.const(0)


@pytest.mark.parametrize(("before", "after"), [
    # sums
    (R - R, ZERO), (R * 2 + R * 3, R * 5), (J + R, R + J), (5 + R, R + 5), (R - J, R + J * -1),
    (-(R - 2), R * -1 + 2), ((R + 1) * 4, R * 4 + 4), (R * 0, ZERO), (J % 4 + J // 4 * 4, J),
    (J - J % 4, J // 4 * 4), (UOp.range(1, 7) + R, R), ((J // 2) % 2 * 2 + J % 2, J % 4),
    # division
    ((R * 6 + J) // 6, R), ((R * 6 + J) % 6, J), ((R * 12 + J) // 4, R * 3 + J // 4),
    ((R * 4 + K) // 8, R // 2), ((R * 4 + K) % 8, K + R % 2 * 4), (J // 2 // 2, J // 4),
    (J // 8, ZERO), (J % 8, J), ((J % 4) % 2, J % 2), ((J + 1) // 8, ZERO), ((J - 9) // 12,
     UOp.const(-1)), ((J % 4) // 2, J // 2 % 2), (J // -2, (J * -1) // 2), ((J + 10) % 4,
     (J + 2) % 4), ((R * 5 + 20) // 5, R + 4), (((J + 1) % 4 + R * 8) % 4, (J + 1) % 4),
    # comparison
    (R < 4, TRUE), (R < 0, FALSE), (R + 3 < 5, R < 2), (R * 3 < 7, R < 3), (R * 4 + K < 8, R < 2),
    (R.eq(5), FALSE), (R.eq(R), TRUE), ((J + 2).eq(4), J.eq(2)), ((R * 2).eq(3), FALSE),
    ((R < 2).logical_not(), R * -1 < -1), ((X + 3).eq(7), X.eq(4)), (X.eq(X), TRUE),
    ((X < 5).logical_not(), X > 4), (X < X, FALSE),
    (F.eq(H).logical_not(), F.ne(H)), (P.logical_not().logical_not(), P),
    (P.cast(dtypes.int32).ne(0), P),
    # choice and logic
    (P.where(F, F), F), (P.logical_not().where(F, H), P.where(H, F)), (P & P, P), (P & (P | Q), P),
    (P | (P & Q), P), (P & P.logical_not(), FALSE), (P | P.logical_not(), TRUE),
    (TRUE.where(F, H), F), (P.where(P.where(F, H), H), P.where(F, H)), (P.where(TRUE, FALSE), P),
    (P.where(FALSE, TRUE), P.logical_not()), (P.where(Q, FALSE), P & Q),
    (P.where(F, P.where(H, F)), P.where(F, F)), ((R < 3) & (R < 2), R < 2),
    ((R < 2) & (R * -1 < -2), FALSE),
    # gates
    (R.valid(P) + J, (R + J).valid(P)), (R.valid(P) * 0, ZERO.valid(P)),
    (R.valid(P).valid(Q), R.valid(P & Q)), ((J % 4).valid(J < 4), J.valid(J < 4)),
    (J.valid((J < 3) & (R + J < 20)), J.valid(J < 3)), (J.valid((J < 2) & (J * -1 < -3)), NOTHING),
    (P.where(B.index(J.valid(P & Q)).load(), 0.0), B.index(J.valid(P & Q)).load()),
    (B.index(NOTHING).load(), F.const_like(0)),
    # machine numbers
    (X + 0, X), (X * 1, X), (X * 0, X.const_like(0)), (X - X, X.const_like(0)),
    ((X + 3) + 4, X + 7),
    (X & 0, X.const_like(0)), (X ^ X, X.const_like(0)), (X & -1, X), (X | -1, X.const_like(-1)),
    ((X << 2) << 3, X << 5), ((-F).alu(Op.NEG), F), (F * 1.0, F), (F - 0.0, F), (F + -0.0, F),
    (F / 4.0, F * 0.25), (F * -1.0, -F), (F + (-H), F - H), (X.maximum(X), X),
    # casts
    (X.cast(dtypes.int64).cast(dtypes.int32), X), (X.cast(dtypes.float64).cast(dtypes.int32), X),
    (F.cast(dtypes.float64).cast(dtypes.float32), F),
    (R.cast(dtypes.int32).cast(dtypes.weak_int), R),
    (X.cast(dtypes.int16).cast(dtypes.int8), X.cast(dtypes.int8)),
    # movement
    (A.reshape((3, 2)).reshape((6,)), A.reshape((6,))), (A.reshape((6,)).reshape((2, 3)), A),
    (A.permute((1, 0)).permute((1, 0)), A), (A.flip((True, False)).flip((True, False)), A),
    (A.expand((4,)).expand((5,)), A.expand((5, 4))),
    (A.pad((1, 0), (4, 3)).shrink((1, 0), (2, 3)), A),
    (A.shrink((1, 0), (1, 3)).shrink((0, 1), (1, 2)), A.shrink((1, 1), (1, 2))),
    (UOp.stack(F, H).index(1), H), (UOp.stack(F, H).index(-2), F), (A.expand((4,)).index(2), A),
    # reductions
    (X.reduce(Op.ADD, R), X * 4), (F.reduce(Op.MAX, R), F), (X.expand((3,)).reduce(Op.ADD, axes=1),
     X * 3),
    (R.eq(J // 2).where(R * 3, 0).reduce(Op.ADD, R), J // 2 * 3),
], ids=lambda value: "")
def test_becomes(before, after):
    assert simplify(before) is simplify(after)
    assert simplify(before) is not before


@pytest.mark.parametrize("node", [
    F - F, F * 0.0, F / F, F.ne(F), F + 0.0, 0.0 - F, (F + 1.0) + 2.0, (F * 2.0) * 3.0, F + (H + F),
    (F < H).logical_not(), F / 3.0, F.reduce(Op.ADD, R), (F * H).reduce(Op.ADD, R),
    X.cast(dtypes.float32).cast(dtypes.int32), F.cast(dtypes.int32).cast(dtypes.float32),
    F.cast(dtypes.float16).cast(dtypes.float32), X.cast(dtypes.int8).cast(dtypes.int32), F * F,
    P.where(B.index(J.valid(Q)).load(), 0.0), P.where(B.index(J.valid(P & Q)).load(), -0.0),
    (X + 1) < X, (X * 2) // 2, X // X, F.eq(F), F < F, X % 4, F.maximum(0.0),
])
def test_stays(node):
    assert simplify(node) is node


def test_a_long_gate_says_what_it_says_of_sums():
    """Padding of a convolution: the row of a window, from its flat position."""
    row = R + K - 1
    inside = (row >= 0) & (row < 4)
    index = simplify((J * 4 + row).valid(inside))
    again = simplify(((J * 4 + row) // 4).valid(inside))
    assert index is simplify((J * 4 + R + K - 1).valid(inside))
    assert again is simplify(J.valid(inside))
    assert simplify_valid(again) is again


def test_prove():
    assert prove(R < 5) is True
    assert prove(R >= 4) is False
    assert prove(R < 2) is None
    assert prove((R * 6 + J) < 24) is True
    assert prove((R * 6 + J).eq(J + R * 6)) is True


def _sink(loop, index, value):
    return UOp.sink(UOp.param(0, dtypes.float32, (16,)).index(index).store(value).end(loop))


def test_a_loop_shrinks_to_its_gate():
    loop = UOp.range(8, 0)
    data = UOp.param(1, dtypes.float32, (16,))
    small = shrink_ranges(_sink(loop, loop.valid(loop < 3), data.index(loop).load()))
    assert [n.src[0].value for n in toposort(small) if n.op is Op.RANGE] == [3]
    shorter = UOp.range(3, 0)
    assert simplify(small) is _sink(shorter, shorter, data.index(shorter).load())


def test_a_reduction_shrinks_to_its_gate():
    loop = UOp.range(8, 0, AxisType.REDUCE)
    value = loop.cast(dtypes.float32).valid((loop < 5) & P)
    total = value.reduce(Op.ADD, loop)
    assert [n.src[0].value for n in toposort(shrink_ranges(total)) if n.op is Op.RANGE] == [5]


def test_a_loop_that_does_more_does_not_shrink():
    loop = UOp.range(8, 0)
    gated = UOp.param(0, dtypes.float32, (16,)).index(loop.valid(loop < 3)).store(F)
    free = UOp.param(1, dtypes.float32, (16,)).index(loop).store(F)
    sink = UOp.sink(gated.end(loop), free.end(loop))
    assert shrink_ranges(sink) is sink
    either = UOp.sink(UOp.group(gated, free).end(loop))
    assert shrink_ranges(either) is either


def test_loops_of_one_iteration():
    one, loop = UOp.range(1, 0), UOp.range(8, 1)
    place = UOp.param(0, dtypes.float32, (16,)).index(one * 8 + loop)
    result = simplify(drop_unit_ranges(UOp.sink(place.store(F).end(one, loop))))
    assert one not in toposort(result)
    assert result.src[0].src[1:] == (loop,)
    table = one.stage(one)
    assert drop_unit_ranges(table) is table


def test_every_rule_has_a_name_in_kebab_case():
    for rule in INDEX_RULES:
        assert rule.name == rule.name.lower().replace("_", "-").replace(" ", "-")
