"""`Tensor` and what goes with it."""

from core.frontend.function import Function, FunctionError, function
from core.frontend.jit import Jit, jit
from core.frontend.tensor import Tensor
from core.frontend.tracing import JitError
from core.frontend.variable import Variable

__all__ = ["Function", "FunctionError", "Jit", "JitError", "Tensor", "Variable", "function", "jit"]
