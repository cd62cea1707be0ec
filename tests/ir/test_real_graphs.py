"""Interning and text on the graphs of real programs."""

import gc
import pickle
import subprocess
import sys

import numpy as np
import pytest

from core import Tensor, nn
from core.compiler import pipeline
from core.ir import Op, live_count, parse, text, toposort
from core.render import code_for_op
from core.runtime import storage_of_value
from core.schedule.callify import callify
from core.testing.pass_checks import TARGET


class Network:
    """A convolution, batchnorm, dropout and a linear layer."""

    def __init__(self):
        self.convolution = nn.Conv2d(1, 4, 3, padding=1)
        self.normalize = nn.BatchNorm(4)
        self.linear = nn.Linear(64, 3)

    def __call__(self, x):
        x = self.normalize(self.convolution(x)).relu().max_pool2d(2)
        return self.linear(x.flatten(1).dropout(0.2))


def training():
    """A function that trains one step and gives the loss."""
    model = Network()
    optimizer = nn.optim.Adam(nn.state.get_parameters(model), lr=0.01)
    # Not a leaf of the gradient: it would gather a graph from step to step.
    images = Tensor(np.random.default_rng(0).standard_normal((12, 1, 8, 8), np.float32),
                    requires_grad=False)
    labels = Tensor(np.arange(12, dtype=np.int32) % 3)

    def step(k):
        with Tensor.train():
            batch = slice(k % 3 * 4, k % 3 * 4 + 4)
            optimizer.zero_grad()
            loss = model(images[batch]).cross_entropy(labels[batch])
            loss.backward()
            loss.realize(*optimizer.schedule_step())
        return loss.item()

    return step


def test_live_nodes_are_constant_from_step_to_step_without_the_collector():
    step = training()
    for k in range(4):
        step(k)
    gc.collect()
    gc.disable()
    try:
        counts = []
        for k in range(4, 10):
            step(k)
            counts.append(live_count())
    finally:
        gc.enable()
    # A batch at offset 0 has one constant less: every third step is like the one three before.
    assert counts[:3] == counts[3:]


def graphs():
    """Tensor graphs, kernels, schedules and programs of a training step."""
    x = Tensor(np.zeros((4, 1, 8, 8), np.float32))
    model = Network()
    with Tensor.train():
        loss = model(x).cross_entropy(Tensor([0, 1, 2, 0]))
    trained = nn.optim.SGD(nn.state.get_parameters(model), lr=0.1).parameters
    gradients = loss.gradient(*trained)
    values = [t.uop for t in (loss, *gradients, Tensor.rand(7), x.exp().sum().cast("float16"))]
    body = callify(values, "ANY", storage_of_value).call.src[0]
    linear = pipeline.schedule(body, TARGET)
    ops = code_for_op(fma=True)
    kernels = [c.src[0] for c in linear.src if c.src[0].op is Op.SINK]
    programs = [pipeline.generate(sink, TARGET, ops) for sink in kernels]
    return [*values, body, linear, *kernels, *programs]


def test_text_and_pickle_give_the_same_node():
    found = graphs()
    assert len(found) > 30
    for graph in found:
        assert parse(text(graph)) is graph
        assert pickle.loads(pickle.dumps(graph)) is graph


def test_another_process_reads_what_was_pickled():
    value = graphs()[0]
    code = ("import pickle, sys; from core.ir import text; "
            "sys.stdout.write(text(pickle.load(sys.stdin.buffer)))")
    found = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(value),
                           capture_output=True, check=True)
    assert found.stdout.decode() == text(value)


@pytest.mark.parametrize("depth", [20_000])
def test_a_long_chain_goes_through_text(depth):
    x = Tensor(np.zeros(2, np.float32)).uop
    for k in range(depth):
        x = x + 1.0 if k % 2 else x * 0.5
    assert parse(text(x)) is x
    assert len(toposort(pickle.loads(pickle.dumps(x)))) == len(toposort(x))
