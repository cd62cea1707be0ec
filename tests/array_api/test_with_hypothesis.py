"""Arrays, indices and assignments that hypothesis draws by the standard, against numpy."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.array_api import make_strategies_namespace

import core.array_api as xp

drawn = make_strategies_namespace(xp, api_version="2024.12")
DTYPES = st.one_of(drawn.boolean_dtypes(), drawn.integer_dtypes(), drawn.unsigned_integer_dtypes(),
                   drawn.floating_dtypes())


def same(found, expected):
    return (found.dtype.name == expected.dtype.name and found.shape == expected.shape
            and np.array_equal(found.numpy(), expected, equal_nan=expected.dtype.kind == "f"))


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_indices_choose_and_assign_as_in_numpy(data):
    dtype = data.draw(DTYPES)
    x = data.draw(drawn.arrays(dtype, drawn.array_shapes(max_dims=3, max_side=4)))
    array = x.numpy()
    key = data.draw(drawn.indices(x.shape, allow_newaxis=True))
    assert same(x[key], np.asarray(array[key]))
    key, value = data.draw(drawn.indices(x.shape)), data.draw(drawn.from_dtype(dtype))
    x[key] = value
    array[key] = value
    assert same(x, array)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_operators_broadcast_and_promote_as_in_numpy(data):
    kind = data.draw(st.sampled_from([drawn.integer_dtypes(), drawn.floating_dtypes()]))
    shapes = data.draw(drawn.mutually_broadcastable_shapes(2, max_dims=3, max_side=3))
    x, y = (data.draw(drawn.arrays(data.draw(kind), s)) for s in shapes.input_shapes)
    for name in ("add", "multiply", "subtract", "maximum", "less"):
        with np.errstate(all="ignore"):
            expected = getattr(np, name)(x.numpy(), y.numpy())
        assert same(getattr(xp, name)(x, y), np.asarray(expected))
