"""`Tensor` and what goes with it."""

from core.frontend.jit import Jit, JitError, jit
from core.frontend.tensor import Tensor
from core.frontend.variable import Variable

__all__ = ["Jit", "JitError", "Tensor", "Variable", "jit"]
