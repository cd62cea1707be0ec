"""Rows of tensors made of nothing but their arguments; where an operand is taken, of its shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from core.frontend import Tensor
from core.ir import dtypes
from core.testing.operations.row import ANY, FLOATS, NUMBERS, Array, Row

_SHAPES: Final = ((3, 5), (0, 4), ())


def _made(
    method: str, call: Callable[[Any], Tensor], oracle: Callable[[Array], Any], **options: Any
) -> Row:
    """A creation: its operand says only dtype and device."""
    options.setdefault("takes", ANY)
    options.setdefault("shapes", _SHAPES)
    return Row(method=method, call=call, oracle=oracle, special=False, **options)


def _like(x: Tensor) -> dict[str, Any]:
    return {"dtype": x.dtype, "device": str(x.device)}


ROWS: Final = (
    _made("zeros", lambda x: Tensor.zeros(*x.shape, **_like(x)), np.zeros_like),
    _made("ones", lambda x: Tensor.ones(*x.shape, **_like(x)), np.ones_like),
    _made("full", lambda x: Tensor.full(x.shape, 1, **_like(x)), np.ones_like),
    _made("zeros_like", lambda x: x.zeros_like(), np.zeros_like),
    _made("ones_like", lambda x: x.ones_like(), np.ones_like),
    _made("full_like", lambda x: x.full_like(7), lambda x: np.full_like(x, 7), takes=NUMBERS),
    _made("arange", lambda x: Tensor.arange(2, 40, 3, **_like(x)),
          lambda x: np.arange(2, 40, 3).astype(x.dtype), takes=NUMBERS, shapes=((),)),
    _made("arange", lambda x: Tensor.arange(5, -6, -2, **_like(x)),
          lambda x: np.arange(5, -6, -2).astype(x.dtype), variant="down", shapes=((),),
          takes=(*FLOATS, dtypes.int32, dtypes.int8, dtypes.int64)),
    _made("linspace", lambda x: Tensor.linspace(-1, 2, 13, **_like(x)),
          lambda x: np.linspace(-1, 2, 13), takes=FLOATS, shapes=((),), ulps=4, sums=1),
    _made("eye", lambda x: Tensor.eye(3, 5, **_like(x)), lambda x: np.eye(3, 5, dtype=x.dtype),
          shapes=((),)),
)
