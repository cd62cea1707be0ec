"""`jit`: trace a function of tensors once, then replay its program.

While the function runs for a trace, every tensor that exists (arguments, and whatever it
may reach by closure) stands for a placeholder, a BUFFER without a block. What
the function returns, assigns or leaves in `.grad` becomes one CALL over placeholders. A replay puts
the storage that the tensors name at that moment in their places, and fresh storage for results.
"""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, ParamSpec, TypeVar

from core.foundation.errors import CoreError
from core.foundation.fork import survive_fork
from core.foundation.settings import settings
from core.foundation.user_frame import user_frame
from core.frontend import realization
from core.frontend.base import TensorBase, assigned_tensors, live_tensors, named_tensors
from core.frontend.tensor import Tensor
from core.ir import Op, UOp, substitute
from core.runtime import Piece, piece_of, run_body, storage_of_value
from core.schedule.callify import callify, contiguous_slice

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
_REMEMBERED: Final = 64
_PLAIN: Final = (bool, int, float, str, bytes, type(None))
_lock: Final = survive_fork(threading.RLock())


class JitError(CoreError, RuntimeError):
    """A traced function wants a value, or cannot be traced."""


class _Running:
    """The answers of a running trace; see `realization.Trace`."""

    def __init__(self, stand: _Stand) -> None:
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
        raise JitError(f"{file}:{line} reads the value of a tensor inside a jitted function, where "
                       "nothing is computed",
                       cure="return the tensor and read it outside, or choose with where()")


class _Stand:
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


class _Trace:
    """A program and where its arguments come from and its results go."""

    def __init__(self, function: Callable[..., Any], args: Any, kwargs: Any) -> None:
        inputs = tensors_in((args, kwargs))
        stand = _Stand(inputs)
        realization.running.trace = _Running(stand)
        try:
            result = function(*args, **kwargs)
            assigned, grads = stand.changed()
            self.returned = tensors_in(result)
            values = [t.uop for t in (*self.returned, *assigned, *(t.grad for t, _ in grads
                                                                  if t.grad is not None))]
            made = callify(values, realization.default_device(), storage_of_value)
        finally:
            realization.running.trace = None
            stand.restore()
        self.result = result
        self.body = None if made.call is None else made.call.src[0]
        self.arguments = [] if made.call is None else [piece_of(a) for a in made.call.src[1:]]
        self.outputs = made.outputs
        places = {id(t): k for k, t in enumerate(inputs)}
        # An argument is read from this call's arguments, another tensor through itself.
        self.sources: dict[UOp, int | TensorBase] = {
            p: places.get(id(t), t) for p, t in stand.placeholders.items()
        }
        self.assigned = [places.get(id(t), t) for t in assigned]
        self.grads = [(places.get(id(t), t), g) for t, g in grads]
        self.fresh = [o for _, o in made.stored]
        used = {a.buffer for a in self.arguments} | {root_of(o) for o in self.outputs}
        self.sources = {p: s for p, s in self.sources.items() if p in used}

    def fits(self, inputs: Sequence[TensorBase]) -> bool:
        """Whether `.grad` is there where it was, and missing where it was missing."""
        return all((_from(t, inputs).grad is None) == (g is None) for t, g in self.grads)

    def run(self, inputs: Sequence[TensorBase]) -> Any:
        """Replay with the storage that the tensors name now."""
        tensors = {p: _from(s, inputs) for p, s in self.sources.items()}
        actual = {p: t.uop for p, t in tensors.items()}
        if not all(map(_is_argument, actual.values())):
            actual = self._computed(tensors, inputs)
        for buffer in map(root_of, self.fresh):
            actual[buffer] = UOp.new_buffer(buffer.arg.device, buffer.dtype, buffer.shape)
        if self.body is not None:
            pieces = {p: piece_of(u) for p, u in actual.items()}
            run_body(self.body, [_placed_piece(a, pieces) for a in self.arguments])
        outputs = [_placed(o, actual) for o in self.outputs]
        return self._name_results(outputs, inputs)

    @staticmethod
    def _computed(
        tensors: dict[UOp, TensorBase], inputs: Sequence[TensorBase]
    ) -> dict[UOp, UOp]:
        """What the tensors name; those that are not computed are, in storage of their own."""
        missing = [t for t in tensors.values() if not _is_argument(t.uop)]
        found = dict(zip(map(id, missing),
                         realization.realize([t.uop.contiguous() if realization.is_storage(t.uop)
                                              else t.uop for t in missing]), strict=True))
        for tensor in missing:
            if not any(tensor is t for t in inputs):
                tensor.uop = found[id(tensor)]  # a closure tensor is computed once, outside
        return {p: found.get(id(t), t.uop) for p, t in tensors.items()}

    def _name_results(self, outputs: list[UOp], inputs: Sequence[TensorBase]) -> Any:
        count, last = len(self.returned), len(self.returned) + len(self.assigned)
        for where, uop in zip(self.assigned, outputs[count:last], strict=True):
            tensor = _from(where, inputs)
            tensor.uop = uop
            assigned_tensors.pop(id(tensor), None)
        targets = [t for t, _ in self.grads if t is not None]
        for where, uop in zip(targets, outputs[last:], strict=False):
            tensor = _from(where, inputs)
            if tensor.grad is None:
                tensor.grad = Tensor._of(uop)
            else:
                tensor.grad.uop = uop
        fresh = {id(t): o for t, o in zip(self.returned, outputs, strict=False)}
        return rebuilt(self.result, fresh)


def _from(where: Any, inputs: Sequence[TensorBase]) -> Any:
    return inputs[where] if isinstance(where, int) else where


def root_of(storage: UOp) -> UOp:
    """The BUFFER below reshapes and slices."""
    while storage.op in (Op.RESHAPE, Op.SHRINK):
        storage = storage.src[0]
    return storage


def _without_reshape(uop: UOp) -> UOp:
    while uop.op is Op.RESHAPE:
        uop = uop.src[0]
    return uop


def _is_argument(uop: UOp) -> bool:
    """Whether a value is some storage, or a contiguous piece of it."""
    uop = _without_reshape(uop)
    return uop.op is Op.BUFFER or contiguous_slice(uop) is not None


def _placed_piece(argument: Piece, pieces: dict[UOp, Piece]) -> Piece:
    """An argument of the traced call, in the storage that stands there now."""
    actual = pieces.get(argument.buffer)
    if actual is None:
        return argument
    return Piece(actual.buffer, actual.first_byte + argument.first_byte, argument.size_bytes)


def _placed(storage: UOp, actual: dict[UOp, UOp]) -> UOp:
    """Storage seen as a traced one was, in the place of which it stands."""
    root = root_of(storage)
    found = actual.get(root)
    if found is None:
        return storage
    return found if storage is root and found.shape == root.shape else substitute(
        storage, {root: found.reshape(root.shape)})


def tensors_in(value: Any) -> list[TensorBase]:
    """Tensors in nested tuples, lists and dictionaries, each once."""
    found: dict[int, TensorBase] = {}
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, TensorBase):
            found.setdefault(id(item), item)
        elif isinstance(item, (tuple, list)):
            pending.extend(reversed(item))
        elif isinstance(item, dict):
            pending.extend(reversed(list(item.values())))
    return list(found.values())


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


def _signature(value: Any, seen: dict[int, int]) -> Any:
    """What a trace depends on: shapes, dtypes, devices, which arguments are one, plain values."""
    if isinstance(value, TensorBase):
        number = seen.setdefault(id(value), len(seen))
        return number, value.shape, value.dtype, value.device, value.requires_grad
    if isinstance(value, (tuple, list)):
        return type(value), tuple(_signature(v, seen) for v in value)
    if isinstance(value, dict):
        return dict, tuple((k, _signature(v, seen)) for k, v in value.items())
    if isinstance(value, _PLAIN):
        return type(value), value
    return type(value), id(value)


class Jit(Generic[Arguments, Result]):
    """A function that is traced once per signature, and replayed.

    Args:
        function: Takes tensors (in nested lists, tuples and dictionaries too) and static values.
    """

    def __init__(self, function: Callable[Arguments, Result]) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._traces: OrderedDict[Any, tuple[_Trace, Any]] = OrderedDict()

    def __call__(self, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        """Replay, or trace first.

        Raises:
            JitError: The function reads a value.
        """
        if realization.running.trace is not None:
            return self._function(*args, **kwargs)
        inputs = tensors_in((args, kwargs))
        key = (_signature((args, kwargs), {}), Tensor.training, settings.FLOAT, settings.INT,
               realization.default_device())
        with _lock:
            found = self._traces.get(key)
            if found is None or not found[0].fits(inputs):
                # The arguments are kept, so that an object known by its identity stays the one.
                static = tuple(a for a in (*args, *kwargs.values())
                               if not isinstance(a, TensorBase))
                found = self._traces[key] = (_Trace(self._function, args, kwargs), static)
                while len(self._traces) > _REMEMBERED:
                    self._traces.popitem(last=False)
            result: Result = found[0].run(inputs)
            return result

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Bind to an object, as a method does."""
        return self if instance is None else functools.partial(self, instance)

    def reset(self) -> None:
        """Forget every trace."""
        self._traces.clear()


def jit(function: Callable[Arguments, Result]) -> Jit[Arguments, Result]:
    """Trace a function of tensors at its first call, and replay its program at later ones.

    Results are what it returns, every tensor it assigns to and every `.grad` it sets. Other shapes,
    dtypes, devices or static values trace again. A value may not be read inside.
    """
    return Jit(function)
