"""Tensors of models: found by name, counted once, loaded."""

from typing import NamedTuple

import numpy as np
import pytest

from core import Tensor, dtypes, nn
from core.foundation.errors import ShapeError


class Pair(NamedTuple):
    left: Tensor
    right: Tensor


class Block:
    def __init__(self):
        self.first = nn.Linear(2, 3)
        self.name = "block"
        self.parts = [Tensor([1.0]), {"a": Tensor([2.0])}, None, 3]


class Model:
    def __init__(self):
        self.blocks = (Block(), Block())
        self.shared = self.blocks[0].first
        self.itself = self


def test_names_are_paths_in_order_of_definition():
    assert list(nn.state.get_state_dict(Block())) == [
        "first.weight", "first.bias", "parts.0", "parts.1.a"]
    assert list(nn.state.get_state_dict(nn.BatchNorm(2), "norm.")) == [
        "norm.weight", "norm.bias", "norm.running_mean", "norm.running_var",
        "norm.num_batches_tracked"]


def test_shared_layers_are_named_twice_and_trained_once():
    model = Model()
    names = nn.state.get_state_dict(model)
    assert names["shared.weight"] is names["blocks.0.first.weight"]
    assert len(names) == 10
    assert len(nn.state.get_parameters(model)) == 8


def test_named_tuples_name_their_fields():
    pair = Pair(Tensor([1.0]), Tensor([2.0]))
    assert list(nn.state.get_state_dict([pair])) == ["0.left", "0.right"]


def test_a_deep_model_needs_no_recursion():
    model = [Tensor([1.0])]
    for _ in range(5000):
        model = [model]
    assert len(nn.state.get_parameters(model)) == 1


def test_loading_gives_the_values():
    source, target = nn.Linear(4, 3), nn.Linear(4, 3)
    x = Tensor(np.ones((2, 4), dtype=np.float32))
    assert (source(x).numpy() != target(x).numpy()).any()
    nn.state.load_state_dict(target, nn.state.get_state_dict(source))
    assert (source(x).numpy() == target(x).numpy()).all()
    source.weight.assign(Tensor.zeros(3, 4))
    assert (target.weight.numpy() != 0).all(), "the models share nothing"


def test_loading_takes_arrays_and_keeps_the_dtype():
    layer = nn.Linear(2, 1, bias=False)
    nn.state.load_state_dict(layer, {"weight": np.array([[1.5, 2.5]])})
    assert layer.weight.dtype is dtypes.float32
    assert layer.weight.tolist() == [[1.5, 2.5]]


def test_loading_refuses_what_does_not_fit_and_changes_nothing():
    layer = nn.Linear(2, 1)
    before = layer.weight.tolist()
    good = {"weight": Tensor([[1.0, 2.0]])}
    with pytest.raises(KeyError, match="missing \\['bias'\\], unknown nothing"):
        nn.state.load_state_dict(layer, good)
    with pytest.raises(KeyError, match="unknown \\['other'\\]"):
        nn.state.load_state_dict(layer, {**good, "bias": Tensor([1.0]), "other": Tensor([1.0])})
    with pytest.raises(ShapeError, match=r"bias has shape \(1,\)"):
        nn.state.load_state_dict(layer, {**good, "bias": Tensor([1.0, 2.0])})
    assert layer.weight.tolist() == before
    nn.state.load_state_dict(layer, good, strict=False)
    assert layer.weight.tolist() == [[1.0, 2.0]]
