"""Errors keep their builtin kind, and show cure and graph."""

import pickle

import pytest

from core.foundation import errors
from core.foundation.errors import CompileError, CoreError, DeviceError, PluginError


@pytest.mark.parametrize(
    ("kind", "builtin"),
    [
        (errors.ShapeError, ValueError),
        (errors.DTypeError, TypeError),
        (errors.OutOfMemoryError, MemoryError),
        (errors.UnsupportedError, NotImplementedError),
        (errors.IndexOutOfRangeError, IndexError),
        (errors.RewriteLimitError, CompileError),
        (PluginError, DeviceError),
    ],
)
def test_kinds(kind, builtin):
    with pytest.raises(builtin):
        raise kind("no")
    assert issubclass(kind, CoreError)


def test_text_holds_message_cure_and_the_beginning_of_the_graph():
    error = CompileError("it failed", cure="do that", graph="\n".join(map(str, range(100))))
    lines = str(error).splitlines()
    assert lines[:3] == ["it failed", "cure: do that", "0"]
    assert lines[-1] == "... 60 more lines in error.graph"
    assert len(error.graph.splitlines()) == 100


def test_pickle_keeps_everything():
    error = pickle.loads(pickle.dumps(DeviceError("no", cure="yes", graph="g")))
    assert (error.message, error.cure, error.graph) == ("no", "yes", "g")
