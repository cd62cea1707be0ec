"""`Tensor` and what goes with it."""

from core.frontend.jit import Jit, JitError, jit
from core.frontend.tensor import Tensor

__all__ = ["Jit", "JitError", "Tensor", "jit"]
