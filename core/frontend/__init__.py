"""`Tensor` and what goes with it."""

from core.frontend.tensor import Tensor

__all__ = ["Tensor"]
