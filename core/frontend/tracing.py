"""What `jit` and `function` share: placeholders for tensors while a Python function runs once.

While a function runs for a trace, every tensor that exists (arguments, and whatever it may reach by
closure) stands for a placeholder. What it returns, assigns or leaves in `.grad` is then a graph
over placeholders, and the tensors are given back what they named before.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any, Final

from core.foundation.errors import CoreError
from core.foundation.user_frame import user_frame
from core.frontend import realization
from core.frontend.base import TensorBase, assigned_tensors, live_tensors, named_tensors
from core.frontend.tensor import Tensor
from core.ir import UOp

_PLAIN: Final = (bool, int, float, str, bytes, type(None))


class JitError(CoreError, RuntimeError):
    """A traced function wants a value, or cannot be traced."""


class Running:
    """The answers of a running trace; see `realization.Trace`."""

    def __init__(self, stand: Stand) -> None:
        self._stand = stand

    def adopt(self, tensor: TensorBase) -> None:
        """Let a tensor that was created just now name a placeholder."""
        self._stand.add(tensor)

    def realize(self, values: Sequence[UOp]) -> list[UOp]:
        """Nothing is computed: the values are results of the program."""
        return [v if realization.is_storage(v) else v.contiguous() for v in values]

    def refuse_to_read(self) -> None:
        """A value is wanted."""
        file, line = user_frame()
        raise JitError(f"{file}:{line} reads the value of a tensor inside a traced function, where "
                       "nothing is computed",
                       cure="return the tensor and read it outside, or choose with where()")


class Stand:
    """The placeholders of a trace, and what each tensor named before it."""

    def __init__(self, arguments: Sequence[TensorBase]) -> None:
        self.before: dict[int, tuple[TensorBase, UOp, TensorBase | None]] = {}
        self.placeholders: dict[UOp, TensorBase] = {}
        self.assigned = dict(assigned_tensors)
        for tensor in (*arguments, *list(live_tensors.values())):
            self.add(tensor)
            if tensor.grad is not None:
                self.add(tensor.grad)

    def add(self, tensor: TensorBase) -> None:
        """Let a tensor name a placeholder."""
        if id(tensor) in self.before or not all(isinstance(n, int) for n in tensor.shape):
            return
        self.before[id(tensor)] = (tensor, tensor.uop, tensor.grad)
        placeholder = UOp.new_buffer(tensor.device, tensor.dtype, tensor.shape)
        self.placeholders[placeholder] = tensor
        tensor.uop = placeholder

    def changed(self) -> tuple[list[TensorBase], list[tuple[TensorBase, TensorBase | None]]]:
        """Tensors assigned to; and those with another `.grad`, each with the one before."""
        assigned = [t for p, t in self.placeholders.items() if t.uop is not p]
        grads = [(t, g) for t, _, g in self.before.values() if t.grad is not g]
        return assigned, grads

    def restore(self) -> None:
        """Give every tensor back what it named, and its `.grad`."""
        for tensor, uop, grad in self.before.values():
            tensor.uop, tensor.grad = uop, grad
        for key in list(assigned_tensors):
            if key not in self.assigned:
                assigned_tensors.pop(key, None)


def tensors_in(value: Any, *, attributes: bool = False) -> list[TensorBase]:
    """Tensors in nested tuples, lists and dictionaries, each once.

    Args:
        value: Where to look.
        attributes: Look into the attributes of other objects too, such as layers.
    """
    found: dict[int, TensorBase] = {}
    seen: dict[int, Any] = {}
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, TensorBase):
            found.setdefault(id(item), item)
        elif isinstance(item, (tuple, list)):
            pending.extend(reversed(item))
        elif isinstance(item, dict):
            pending.extend(reversed(list(item.values())))
        elif attributes and id(item) not in seen and _is_record(item):
            seen[id(item)] = item
            pending.extend(reversed(list(vars(item).values())))
    return list(found.values())


def _is_record(value: Any) -> bool:
    """Whether an object is a bundle of attributes: no module, class or function."""
    return hasattr(value, "__dict__") and not callable(getattr(value, "__get__", None)) and (
        not isinstance(value, (type, ModuleType)))


def rebuilt(value: Any, fresh: dict[int, UOp]) -> Any:
    """A result with new tensors in the places of the traced ones."""
    if isinstance(value, TensorBase):
        tensor = Tensor._of(fresh[id(value)])
        named_tensors[id(tensor)] = tensor
        return tensor
    if isinstance(value, dict):
        return {k: rebuilt(v, fresh) for k, v in value.items()}
    if isinstance(value, (tuple, list)):
        items = [rebuilt(v, fresh) for v in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def signature_of(value: Any, seen: dict[int, int], *, attributes: bool = False) -> Any:
    """What a trace depends on: shapes, dtypes, devices, which arguments are one, plain values.

    Args:
        value: Arguments.
        seen: Numbers given to tensors and objects so far.
        attributes: An object counts by what its attributes are; otherwise it is itself.
    """
    if isinstance(value, TensorBase):
        number = seen.setdefault(id(value), len(seen))
        return number, value.shape, value.dtype, value.device, value.requires_grad
    if isinstance(value, (tuple, list)):
        return type(value), tuple(signature_of(v, seen, attributes=attributes) for v in value)
    if isinstance(value, dict):
        return dict, tuple(
            (k, signature_of(v, seen, attributes=attributes)) for k, v in value.items())
    if isinstance(value, _PLAIN):
        return type(value), value
    if attributes and _is_record(value):
        if id(value) in seen:
            return seen[id(value)]
        seen[id(value)] = len(seen)
        return type(value), signature_of(dict(vars(value)), seen, attributes=True)
    return type(value), id(value)
