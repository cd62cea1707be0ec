"""callify: values to realise become one CALL whose body is the same from step to step."""

import numpy as np
import pytest

from core import Tensor
from core.ir import Op, UOp, dtypes, toposort
from core.reference.evaluate import evaluate_stores
from core.runtime import realize, storage_of_value
from core.schedule.callify import callify


def values(*shape):
    return Tensor(np.arange(np.prod(shape), dtype=np.float32).reshape(shape))


def body_of(*tensors):
    return callify([t.uop for t in tensors], "ANY", storage_of_value).call.src[0]


def read(uop):
    return Tensor(uop).numpy() if not isinstance(uop, UOp) else Tensor._of(uop).numpy()


def test_bodies_hold_no_storage_and_are_equal_for_equal_programs():
    one, other = body_of(values(3, 4) * 2), body_of(values(3, 4) * 2)
    assert one is other
    assert not [n for n in toposort(one) if n.op is Op.BUFFER]


def test_outputs_come_first_and_every_argument_is_used():
    x, y = values(3), values(3)
    call = callify([(x + y).uop, (x * y).uop], "ANY", storage_of_value).call
    slots = {n.arg.slot for n in toposort(call.src[0]) if n.op is Op.PARAM}
    assert slots == set(range(len(call.src) - 1)) == {0, 1, 2, 3}
    assert [s.src[0].arg.slot for s in call.src[0].src] == [0, 1]


def test_one_value_wanted_twice_is_stored_once():
    x = values(5) + 1
    found = callify([x.uop, x.uop], "ANY", storage_of_value)
    assert found.outputs[0] is found.outputs[1]
    assert len(found.call.src[0].src) == 1


def test_what_is_storage_needs_no_call():
    found = callify([values(5).uop, values(2, 3).reshape(6).uop], "ANY", storage_of_value)
    assert found.call is None


@pytest.mark.parametrize("take", [
    lambda x, k: x[2 * k:2 * k + 2], lambda x, k: x[k], lambda x, k: x[k, 1:3],
    lambda x, k: x.reshape(4, 15)[k, 3:9],
])
def test_contiguous_slices_are_arguments(take):
    x = values(4, 3, 5)
    bodies = {body_of(take(x, k) * 2) for k in range(2)}
    assert len(bodies) == 1
    for k in range(2):
        assert np.array_equal((take(x, k) * 2).numpy(), take(x.numpy(), k) * 2)


def test_other_slices_are_part_of_the_body():
    x = values(4, 6)
    assert body_of(x[:, 0:3] * 2) is not body_of(x[:, 3:6] * 2)
    assert np.array_equal((x[:, 3:6] * 2).numpy(), x.numpy()[:, 3:] * 2)


def test_values_that_were_computed_before_are_arguments():
    x = values(6)
    y = x.exp()
    z = y * 2
    with_y = body_of(z)
    assert Op.EXP in {n.op for n in toposort(with_y)}
    y.realize()
    assert Op.EXP not in {n.op for n in toposort(body_of(z))}


def param(slot, *shape):
    return UOp.param(slot, dtypes.float32, shape)


def test_parameters_of_a_graph_body_are_not_those_of_the_call_around_it():
    """The body's PARAM 1 is not the schedule's, and storage it closes over is an argument."""
    x, y, closed = values(4), values(4) * 10, values(4) + 100
    realize([y.uop, closed.uop])
    kept = storage_of_value(closed.uop)
    body = param(1, 4) * 2.0 + param(0, 4) + kept
    value = body.call((x * 3).uop, y.uop)
    data = np.arange(4, dtype=np.float32)
    assert np.array_equal(read(value), 20 * data + 3 * data + data + 100)


def test_calls_inside_of_calls():
    x, y = values(4), values(4) + 5
    inner = param(0, 4) * 2.0 - param(1, 4)
    outer = inner.call(param(1, 4), param(0, 4)) + param(0, 4)
    data = np.arange(4, dtype=np.float32)
    assert np.array_equal(read(outer.call(x.uop, y.uop)), 2 * (data + 5) - data + data)


def test_two_calls_of_one_body():
    x, y = values(4), values(4) + 5
    body = param(0, 4) * 2.0
    data = np.arange(4, dtype=np.float32)
    value = body.call(x.uop) + body.call(y.uop) * 10.0
    assert np.array_equal(read(value), 2 * data + 20 * (data + 5))


def test_an_argument_that_the_body_does_not_use():
    x, y = values(4), values(4) + 5
    value = (param(1, 4) * 2.0).call(x.uop, y.uop)
    assert np.array_equal(read(value), 2 * (np.arange(4, dtype=np.float32) + 5))


def test_variables_are_arguments():
    n = UOp.variable("n", 1, 6, slot=-1)
    value = values(6).uop + n.cast(dtypes.float32)
    call = callify([value], "ANY", storage_of_value).call
    assert n in call.src[1:]
    (slot,) = {p for p in toposort(call.src[0]) if p.op is Op.PARAM and p.arg.name == "n"}
    assert call.src[1 + slot.arg.slot] is n


def test_the_body_computes_the_values():
    x, y = values(3, 4), values(4) + 1
    tensors = (x * y).sum(1), x - y
    call = callify([t.uop for t in tensors], "ANY", storage_of_value).call
    leaves = {n: n for n in toposort(call.src[0]) if n.op is Op.PARAM and n.arg.slot >= 2}
    given = {n: Tensor._of(call.src[1 + n.arg.slot]).numpy().reshape(n.shape) for n in leaves}
    found = evaluate_stores(call.src[0], given)
    for tensor, (_, array) in zip(tensors, sorted(
            found.items(), key=lambda kv: kv[0].arg.slot), strict=True):
        np.testing.assert_allclose(array, tensor.numpy(), rtol=1e-6)
