"""A sum of floats is computed in one place: where it is compared with itself, it is equal.

Two loop nests add in two orders. The gradient of a maximum asks which elements equal it: were they
computed twice, none might, and the gradient would be 0 / 0.
"""

import numpy as np
import pytest

from core import Device, Tensor, nn
from core.compiler import pipeline
from core.ir import Op
from core.runtime import storage_of_value
from core.schedule.assign_ranges import assign_ranges
from core.schedule.callify import callify
from core.schedule.prepare_graph import prepare_graph
from core.simplify import simplify
from core.testing.pass_checks import TARGET

NAMES = ["convolution.weight", "normalize.weight", "normalize.bias", "linear.weight",
         "convolution.bias", "linear.bias"]


class Network:
    """Small statistics, of so little work that a launch costs more."""

    def __init__(self, device):
        self.convolution = nn.Conv2d(1, 4, 3, padding=1)
        self.normalize = nn.BatchNorm(4)
        self.linear = nn.Linear(64, 3)
        generator = np.random.default_rng(1)
        for name, old in nn.state.get_state_dict(self).items():
            if name in NAMES:
                new = generator.standard_normal(old.shape).astype(np.float32) * 0.1
                old.assign(Tensor(new))
            old.to_(device)

    def gradients(self, images, labels):
        with Tensor.train():
            hidden = self.normalize(self.convolution(images)).relu().max_pool2d(2)
            loss = self.linear(hidden.flatten(1)).cross_entropy(labels)
        state = nn.state.get_state_dict(self)
        return loss.gradient(*(state[name] for name in NAMES))


def gradients(device):
    data = np.random.default_rng(0).standard_normal((4, 1, 8, 8)).astype(np.float32)
    images = Tensor(data, device=device)
    return Network(device).gradients(images, Tensor([0, 1, 2, 0], device=device))


def test_gradients_through_pooled_statistics_are_those_of_the_reference():
    found, expected = gradients(Device.DEFAULT), gradients("REFERENCE")
    for name, one, other in zip(NAMES, found, expected, strict=True):
        np.testing.assert_allclose(
            one.numpy(), other.numpy(), rtol=1e-3, atol=1e-5, err_msg=name)


def rand(*shape):
    return Tensor.rand(*shape, device="NULL")


def rounding_sums(tensors):
    """How often each sum of floats is computed in the schedule of some tensors."""
    body = callify([t.uop for t in tensors], "TEST", storage_of_value).call.src[0]
    sink = prepare_graph(simplify(body), TARGET)
    plan = assign_ranges(list(dict.fromkeys(s.src[1] for s in sink.src)), TARGET)
    return [len(found) for node, found in plan.computations.items()
            if node.op is Op.REDUCE and node.arg.op is Op.ADD and node.dtype.is_float]


@pytest.mark.parametrize("make", [
    lambda: gradients("NULL"),
    lambda: [(x := rand(8, 16).layernorm()).max(0), x.max(1)],
    lambda: [(x := rand(70, 9).sum(0)), x.max(), x.exp()],
    lambda: [(x := rand(9, 70) @ rand(70, 9)), x.max(0)],
    lambda: [rand(6, 6).softmax(0) @ rand(6, 5)],
])
def test_no_sum_of_floats_is_computed_twice(make):
    counts = rounding_sums(make())
    assert counts
    assert max(counts) == 1


def test_a_result_that_is_read_and_stored_is_one_kernel_if_it_is_read_in_its_place():
    x = rand(70, 9).realize().sum(0)
    body = callify([x.uop, (x * 2).uop], "NULL", storage_of_value).call.src[0]
    assert len(pipeline.schedule(body, TARGET).src) == 1


def test_a_maximum_that_was_read_before_has_the_same_gradient():
    """It is in storage, and the elements under it are computed again."""
    generator = np.random.default_rng(0)
    a, b = (generator.standard_normal(n, np.float32) for n in ((37, 53), (53, 41)))

    def gradient(*, read):
        x = Tensor(a)
        largest = (x @ Tensor(b)).layernorm().max(1)
        if read:
            largest.numpy()
        return (largest * largest).sum().gradient(x)[0].numpy()

    np.testing.assert_allclose(gradient(read=True), gradient(read=False), rtol=1e-3, atol=1e-5)
