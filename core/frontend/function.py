"""`function`: a Python function of tensors becomes one CALL.

    @function
    def block(x, w):                     CALL(RELU(MATMUL(PARAM 0, PARAM 1)), x, w)
        return (x @ w).relu()

The function runs once on placeholders; its arguments, and tensors that it reaches by closure or
assigns to, are arguments of the CALL. By default the body becomes part of the graph around it when
that is scheduled. With `precompile` it stays a unit: arguments and results are stored, and whatever
calls an equal body runs the same compiled programs, so 32 equal blocks compile as one. Either is
differentiated by a function of its own, which is a unit where the function is.
"""

from __future__ import annotations

import functools
import inspect
from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, Final, Generic, NamedTuple, ParamSpec, TypeVar, overload

from core.foundation.errors import CoreError
from core.foundation.settings import settings
from core.frontend import realization
from core.frontend.base import TensorBase
from core.frontend.derivative import derivative_of, with_derivative
from core.frontend.gradient import USER_GRADIENTS
from core.frontend.tensor import Tensor
from core.frontend.tracing import Running, Stand, rebuilt, signature_of, tensors_in
from core.ir import CallInfo, Op, UOp, map_graph, own_nodes

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
_REMEMBERED: Final = 64
_numbers = count()


class FunctionError(CoreError, RuntimeError):
    """A function cannot become a CALL."""


class _Body(NamedTuple):
    """A traced function.

    Attributes:
        graph: The value, or a TUPLE of them, on PARAMs: inputs first, then `captured`.
        is_tuple: Whether `graph` is a TUPLE that stands for several values.
        result: What the function returned, with the tensors of the trace.
        returned: Those tensors, in the order of the first values.
        captured: Tensors that it reached otherwise.
        assigned: Tensors that it assigned to, in the order of the last values; a number is that of
            an input.
    """

    graph: UOp | None
    is_tuple: bool
    result: Any
    returned: list[TensorBase]
    captured: list[TensorBase]
    assigned: list[TensorBase | int]


class Function(Generic[Arguments, Result]):
    """A function whose calls are CALLs; see `function`.

    Args:
        function: Takes tensors, also in nested containers and in attributes of objects, and static
            values.
        precompile: Whether it stays a unit.
        grad_fxn: Its gradient.
    """

    def __init__(
        self, function: Callable[Arguments, Result], *, precompile: bool = False,
        grad_fxn: Callable[..., Any] | None = None,
    ) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._name = getattr(function, "__name__", type(function).__name__)
        self._signature = inspect.signature(function)
        self._bodies: OrderedDict[Any, tuple[_Body, Any]] = OrderedDict()
        self._is_running = False
        gradient = "" if grad_fxn is None else f"{self._name}#{next(_numbers)}"
        self._grad_fxn = grad_fxn
        self._info = CallInfo(self._name, gradient, precompile)

    def __call__(self, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        """The results, as values of one CALL.

        Raises:
            TypeError: The arguments do not fit the function's signature.
            FunctionError: It calls itself, or sets a `.grad`.
            JitError: It reads a value.
        """
        try:
            self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self._name}{self._signature}: {error}") from None
        inputs = tensors_in((args, kwargs), attributes=True)
        body = self._body(args, kwargs, inputs)
        if body.graph is None:
            result: Result = body.result
            return result
        arguments = [t.uop for t in (*inputs, *body.captured)]
        if self._grad_fxn is not None:
            USER_GRADIENTS[self._info.gradient] = functools.partial(
                _user_rule, self._name, self._grad_fxn, len(inputs))
        call = body.graph.call(*arguments, info=self._info)
        values = ([call.gettuple(k) for k in range(len(body.graph.src))] if body.is_tuple
                  else [call])
        for where, value in zip(body.assigned, values[len(body.returned):], strict=True):
            (inputs[where] if isinstance(where, int) else where).uop = value
        fresh = {id(t): v for t, v in zip(body.returned, values, strict=False)}
        return rebuilt(body.result, fresh)  # type: ignore[no-any-return]

    def _body(self, args: Any, kwargs: Any, inputs: Sequence[TensorBase]) -> _Body:
        """The traced function; traced again for other shapes, dtypes, devices or static values.

        What a closure reaches may be another tensor next time, so that is not remembered.
        """
        key = (signature_of((args, kwargs), {}, attributes=True), Tensor.training, settings.FLOAT,
               settings.INT, realization.default_device())
        found = self._bodies.get(key)
        if found is None:
            if self._is_running:
                raise FunctionError(f"{self._name} calls itself",
                                    cure="write the recursion in a plain function around it")
            self._is_running = True
            try:
                body = _traced(self._function, args, kwargs, inputs)
            except Exception as error:
                error.add_note(f"in {self._name}({_described(inputs)})")
                raise
            finally:
                self._is_running = False
            # Static arguments are kept: an object known by its identity stays the one.
            found = body, (args, kwargs) if not inputs else _static(args, kwargs)
            if not body.captured and not body.assigned:
                self._bodies[key] = found
                while len(self._bodies) > _REMEMBERED:
                    self._bodies.popitem(last=False)
        return found[0]

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Bind to an object, as a method does."""
        return self if instance is None else functools.partial(self, instance)


def _static(args: Any, kwargs: Any) -> list[Any]:
    return [a for a in (*args, *kwargs.values()) if callable(a)]


def _described(inputs: Sequence[TensorBase]) -> str:
    return ", ".join(f"{t.dtype.name}{list(t.shape)}" for t in inputs)


def _traced(
    function: Callable[..., Any], args: Any, kwargs: Any, inputs: Sequence[TensorBase]
) -> _Body:
    stand = Stand(inputs)
    outer = realization.running.trace
    realization.running.trace = Running(stand)
    try:
        result = function(*args, **kwargs)
        assigned, grads = stand.changed()
        returned = tensors_in(result)
        values = [t.uop for t in (*returned, *assigned)]
    finally:
        realization.running.trace = outer
        stand.restore()
    if grads:
        raise FunctionError("a function may not set the .grad of a tensor",
                            cure="return gradients (y.gradient(x)), or use jit")
    reached = {n for v in values for n in own_nodes(v)}
    places = {id(t): k for k, t in enumerate(inputs)}
    captured = [t for p, t in stand.placeholders.items() if p in reached and id(t) not in places]
    slots = {id(t): k for k, t in enumerate((*inputs, *captured))}
    done = {p: UOp.param(slots[id(t)], p.dtype, p.shape, p.arg.device)
            for p, t in stand.placeholders.items() if id(t) in slots}
    on_parameters = [_renamed(v, done) for v in values]
    is_tuple = len(values) != 1
    graph = None if not values else UOp(Op.TUPLE, tuple(on_parameters)) if is_tuple else (
        on_parameters[0])
    return _Body(graph, is_tuple, result, returned, captured,
                 [places.get(id(t), t) for t in assigned])


def _renamed(value: UOp, done: dict[UOp, UOp]) -> UOp:
    """A value on other leaves; nodes that know their derivative go on knowing it."""

    def visit(node: UOp, original: UOp) -> UOp:
        known = derivative_of(original)
        if known is not None and node is not original:
            inputs = tuple(map_graph(i, visit, done) for i in known.inputs)
            with_derivative(node, inputs, known.rule)
        return node

    return map_graph(value, visit, done)


def _user_rule(
    name: str, rule: Callable[..., Any], count: int, gradients: tuple[UOp, ...],
    arguments: tuple[UOp, ...],
) -> list[UOp | None]:
    """A user's gradient on nodes: rule(gradient..., input...) → a tensor or None per input."""
    given = [Tensor._of(g) for g in gradients]
    found = rule(*given, *(Tensor._of(a) for a in arguments[:count]))
    if not isinstance(found, (tuple, list)):
        found = (found,)
    if len(found) != count:
        raise FunctionError(f"grad_fxn of {name} gave {len(found)} gradients for {count} tensors")
    result: list[UOp | None] = [None] * len(arguments)
    for slot, (gradient, argument) in enumerate(zip(found, arguments, strict=False)):
        if gradient is None:
            continue
        if gradient.shape != argument.shape:
            raise FunctionError(f"grad_fxn of {name}: the gradient of tensor {slot} has shape "
                                f"{gradient.shape}, the tensor {argument.shape}")
        result[slot] = gradient.uop.cast(argument.dtype)
    return result


@overload
def function(function: Callable[Arguments, Result]) -> Function[Arguments, Result]: ...


@overload
def function(
    *, precompile: bool = False, grad_fxn: Callable[..., Any] | None = None,
) -> Callable[[Callable[Arguments, Result]], Function[Arguments, Result]]: ...


def function(
    function: Callable[..., Any] | None = None, *, precompile: bool = False,
    grad_fxn: Callable[..., Any] | None = None,
) -> Any:
    """Make a function of tensors one CALL of the graph.

    Args:
        function: Takes tensors in any containers, objects with tensors as attributes, and static
            values; returns tensors in any containers.
        precompile: Compile it as a unit of its own, once for all equal calls.
        grad_fxn: grad_fxn(gradient of each result, *tensors) → the gradient of each tensor, or
            None; the tensors are the inputs, each once, in the order of the arguments.
    """
    if function is None:
        return functools.partial(Function, precompile=precompile, grad_fxn=grad_fxn)
    return Function(function, precompile=precompile, grad_fxn=grad_fxn)
