"""Walks: order, substitution, open ranges; nothing recurses, nothing leaks."""

from core.ir import (
    AxisType,
    Op,
    UOp,
    bounds,
    device_of,
    dtypes,
    open_ranges,
    substitute,
    toposort,
    users,
)

LONG = 20_000


def chain(length):
    x = UOp.variable("n", 0, 3, dtypes.int32)
    for k in range(length):
        x = x.alu(Op.ADD, k % 7)
    return x


def test_long_chains_are_walked_without_recursion():
    x = chain(LONG)
    assert len(toposort(x)) == LONG + 1 + 7 + 1
    assert open_ranges(x) == frozenset()
    assert bounds(x)[0] == sum(k % 7 for k in range(LONG))
    leaf = next(n for n in toposort(x) if n.op is Op.PARAM)
    replaced = substitute(x, {leaf: UOp.const(1, dtypes.int32)})
    assert bounds(replaced) == (bounds(x)[0] + 1,) * 2


def test_toposort_puts_sources_first():
    a, b = UOp.variable("a", 0, 9), UOp.variable("b", 0, 9)
    order = toposort((a + b) * (a + b) + a)
    position = {n: k for k, n in enumerate(order)}
    assert all(position[s] < position[n] for n in order for s in n.src)
    assert len(users(order)[a]) == 2


def test_ranges_open_and_close():
    outer, inner = UOp.range(4, 0), UOp.range(5, 1, AxisType.REDUCE)
    value = (outer * 5 + inner).cast(dtypes.float32)
    assert open_ranges(value) == {outer, inner}
    total = value.reduce(Op.ADD, inner)
    assert open_ranges(total) == {outer}
    place = UOp.param(0, dtypes.float32, (4,)).index(outer)
    assert open_ranges(place.store(total)) == {outer}
    assert open_ranges(place.store(total).end(outer)) == frozenset()
    assert open_ranges(outer) == {outer}


def test_device_is_that_of_the_first_source_that_has_one():
    x = UOp.new_buffer("GPU:1", dtypes.float32, (2,))
    assert device_of(UOp.const(1.0, dtypes.float32) + x) == "GPU:1"
    assert device_of(UOp(Op.COPY, (x,), "ANY")) == "ANY"
    assert device_of(UOp.const(1)) is None
