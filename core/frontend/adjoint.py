"""The gradient of INDEX: a gather for a window, a pad for a number, else a scatter."""

from __future__ import annotations

from core.frontend.operations.movement import placed
from core.frontend.scattering import scatter_add
from core.frontend.windows import window_gradient
from core.ir import Op, UOp


def index_gradient(g: UOp, node: UOp) -> UOp:
    """Gradient of INDEX(x, index...) with respect to x."""
    x, indices = node.src[0], node.src[1:]
    if all(i.op is Op.CONST for i in indices):
        offsets = [i.value % n for i, n in zip(indices, x.shape, strict=False)]
        rest = x.shape[len(indices):]
        box = g.reshape((*(1 for _ in indices), *rest))
        return placed(box, [*offsets, *(0 for _ in rest)], x.shape, g.const_like(0))
    found = window_gradient(g, node)
    return found if found is not None else scatter_add(x.shape, indices, g)
