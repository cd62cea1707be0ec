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

from core.foundation.fork import survive_fork
from core.foundation.settings import settings
from core.frontend import realization
from core.frontend.base import TensorBase, assigned_tensors
from core.frontend.tensor import Tensor
from core.frontend.tracing import Running, Stand, rebuilt, signature_of, tensors_in
from core.ir import Op, UOp, substitute
from core.runtime import Piece, piece_of, run_body, storage_of_value
from core.schedule.callify import callify, contiguous_slice

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
_REMEMBERED: Final = 64
_lock: Final = survive_fork(threading.RLock())


class _Trace:
    """A program and where its arguments come from and its results go."""

    def __init__(self, function: Callable[..., Any], args: Any, kwargs: Any) -> None:
        inputs = tensors_in((args, kwargs))
        stand = Stand(inputs)
        realization.running.trace = Running(stand)
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
        self.steps = [(c.src[0], [piece_of(a) for a in c.src[1:]]) for c in made.calls]
        self.outputs = made.outputs
        places = {id(t): k for k, t in enumerate(inputs)}
        # An argument is read from this call's arguments, another tensor through itself.
        self.sources: dict[UOp, int | TensorBase] = {
            p: places.get(id(t), t) for p, t in stand.placeholders.items()
        }
        self.assigned = [places.get(id(t), t) for t in assigned]
        self.grads = [(places.get(id(t), t), g) for t, g in grads]
        self.fresh = [*made.between, *(root_of(o) for _, o in made.stored)]
        used = {a.buffer for _, arguments in self.steps for a in arguments} | {
            root_of(o) for o in self.outputs}
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
        for buffer in self.fresh:
            actual[buffer] = UOp.new_buffer(buffer.arg.device, buffer.dtype, buffer.shape)
        if self.steps:
            pieces = {p: piece_of(u) for p, u in actual.items()}
            for body, arguments in self.steps:
                run_body(body, [_placed_piece(a, pieces) for a in arguments])
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
        key = (signature_of((args, kwargs), {}), Tensor.training, settings.FLOAT, settings.INT,
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
