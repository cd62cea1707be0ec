"""The operations of which random programs are made: how each is applied, to what, how exact it is.

`OPERATIONS` is a table. An entry says which dtypes it takes (operands are cast), how its parameters
are drawn for the operands' shapes, and what it gives; a bound says how far a function or a sum may
be from the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

import numpy as np

from core.frontend import Tensor
from core.ir import DType, dtypes

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]
Parameters = Callable[[Random, list[Shape], DType], "tuple[Any, ...] | None"]
#: (operands, value by the reference, parameters, dtype) → largest error, per element.
Bound = Callable[[Sequence[Array], Array, tuple[Any, ...], DType], Array]

FLOATS: Final = (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64)
_CAST_TARGETS: Final = (
    dtypes.bool, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64, dtypes.uint8,
    dtypes.uint16, dtypes.uint32, dtypes.uint64, *FLOATS,
)
_EPSILON: Final = {dtypes.float16: 2.0**-10, dtypes.bfloat16: 2.0**-7, dtypes.float32: 2.0**-23,
                   dtypes.float64: 2.0**-52}
# What float16 and bfloat16 are computed in where they are summed.
_WORKING: Final = 2.0**-23


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One operation.

    Attributes:
        name: For people and counts.
        apply: (operands, parameters) → result.
        arity: Number of operands.
        takes: "any", "number", "float", "integer" or "bool": operands are cast to such a dtype.
        parameters: Draws them; None where the operation does not suit the shapes.
        moves: It only moves elements: its result is as exact as its operand.
        bound: Largest error on floats; None: exact.
        rank: Axes that an operand has at least.
        broadcasts: The operands' shapes are broadcast; else they are equal.
    """

    name: str
    apply: Callable[[Sequence[Tensor], tuple[Any, ...]], Tensor]
    arity: int = 1
    takes: str = "any"
    parameters: Parameters = lambda draw, shapes, dtype: ()
    moves: bool = False
    bound: Bound = None  # type: ignore[assignment]
    rank: int = 0
    broadcasts: bool = False

    def exact(self, dtype: DType) -> bool:
        """Whether its result on a dtype has to agree bit for bit."""
        return self.bound is None or not dtype.is_float

    def fits(self, a: Shape, b: Shape) -> bool:
        """Whether two operands go together."""
        if not self.broadcasts:
            return a == b
        return all(m in (n, 1) or n == 1 for m, n in zip(reversed(a), reversed(b), strict=False))

    def dtype_for(self, given: Sequence[DType]) -> list[DType]:
        """The dtype to which each operand is cast."""
        first = given[0]
        if self.takes == "bool":
            wanted = dtypes.bool
        elif self.takes == "float":
            wanted = first if first.is_float else dtypes.float32
        elif self.takes == "integer":
            wanted = first if first.is_machine_integer else dtypes.int32
        elif self.takes == "number":
            wanted = dtypes.int32 if first is dtypes.bool else first
        else:
            wanted = first
        return [wanted] * len(given)

    def result(
        self, shapes: list[Shape], given: list[DType], parameters: tuple[Any, ...]
    ) -> tuple[Shape, DType]:
        """Shape and dtype of the result: what the frontend says, without computing."""
        operands = [Tensor.zeros(*shape, dtype=dtype) for shape, dtype in zip(
            shapes, given, strict=True)]
        made = self.apply(operands, parameters)
        return tuple(made.shape), made.dtype


# -- parameters ---------------------------------------------------------------------------------


def _axis(draw: Random, shapes: list[Shape], dtype: DType) -> tuple[Any, ...]:
    return (draw.randrange(len(shapes[0])),)


def _filled_axis(draw: Random, shapes: list[Shape], dtype: DType) -> tuple[Any, ...] | None:
    axes = [a for a, n in enumerate(shapes[0]) if n]
    return (draw.choice(axes),) if axes else None


def _axis_and_rest(draw: Random, shapes: list[Shape], dtype: DType) -> tuple[Any, ...]:
    """An axis, or None for all of them; whether it is kept."""
    return draw.choice((None, *range(len(shapes[0])))), draw.random() < 0.5


def _permutation(draw: Random, shapes: list[Shape], dtype: DType) -> tuple[Any, ...]:
    return (tuple(draw.sample(range(len(shapes[0])), len(shapes[0]))),)


def _flags(draw: Random, shapes: list[Shape], dtype: DType) -> tuple[Any, ...]:
    axes = draw.sample(range(len(shapes[0])), draw.randint(1, len(shapes[0])))
    return (tuple(sorted(axes)),)


def _slices(draw: Random, shapes: list[Shape], dtype: DType) -> tuple[Any, ...]:
    chosen = []
    for n in shapes[0]:
        step = draw.choice((-3, -2, -1, 1, 2))
        low = draw.randint(-n - 1, n + 1)
        high = draw.choice((None, draw.randint(-n - 1, n + 1)))
        chosen.append((low, high, step))
    return (tuple(chosen),)


def _paddings(draw: Random, shapes: list[Shape], dtype: DType) -> tuple[Any, ...]:
    pairs = tuple((draw.randint(0, 3), draw.randint(0, 2)) for _ in shapes[0])
    return pairs, draw.choice((0, 1))


def _split(draw: Random, shapes: list[Shape], dtype: DType) -> tuple[Any, ...]:
    """A new shape: one axis split, or two merged."""
    shape = list(shapes[0])
    at = draw.randrange(len(shape))
    divisors = [d for d in range(1, shape[at] + 1) if shape[at] % d == 0] or [1]
    if draw.random() < 0.5 and len(shape) > 1:
        at = min(at, len(shape) - 2)
        shape[at:at + 2] = [shape[at] * shape[at + 1]]
    else:
        d = draw.choice(divisors)
        shape[at:at + 1] = [d, shape[at] // d]
    return (tuple(shape),)


def _copies(draw: Random, shapes: list[Shape], dtype: DType) -> tuple[Any, ...]:
    return (tuple(draw.randint(1, 3) for _ in shapes[0]),)


def _shift(draw: Random, shapes: list[Shape], dtype: DType) -> tuple[Any, ...]:
    return draw.randint(-4, 4), draw.randrange(len(shapes[0]))


def _bits(draw: Random, shapes: list[Shape], dtype: DType) -> tuple[Any, ...]:
    return (draw.randint(0, dtype.bits - 1),)


def _target(draw: Random, shapes: list[Shape], dtype: DType) -> tuple[Any, ...]:
    return (draw.choice(_CAST_TARGETS),)


def _same_size(draw: Random, shapes: list[Shape], dtype: DType) -> tuple[Any, ...]:
    """Another integer: the bits of a NaN are nobody's promise, so floats are not looked into."""
    return (draw.choice([d for d in _CAST_TARGETS if d.itemsize == dtype.itemsize
                         and d.is_machine_integer]),)


def _limits(draw: Random, shapes: list[Shape], dtype: DType) -> tuple[Any, ...]:
    low = draw.randint(0, 5)
    return low, low + draw.randint(0, 5)


def _places(draw: Random, shapes: list[Shape], dtype: DType) -> tuple[Any, ...] | None:
    """Seed and count of indices along the first axis, negative ones too."""
    if not shapes[0] or not shapes[0][0]:
        return None
    return draw.randint(0, 999), draw.randint(0, 9), shapes[0][0]


def _indices(parameters: tuple[Any, ...]) -> Array:
    seed, count, extent = parameters
    return np.asarray(np.random.default_rng(seed).integers(-extent, extent, count))


def _many_indices(shape: Shape, axis: int) -> Array:
    draw = np.random.default_rng(int(np.prod(shape)))
    return draw.integers(0, max(shape[axis], 1), shape)


# -- bounds -------------------------------------------------------------------------------------


def _ulps(count: float) -> Bound:
    """So many units in the last place, of the dtype in which it is computed."""

    def bound(operands: Any, value: Array, parameters: Any, dtype: DType) -> Array:
        # The smallest normal number of float16 is larger than what is lost below it.
        epsilon = max(_EPSILON[dtype], 0.0)
        tiny = 2.0**-22 if dtype is dtypes.float16 else 2.0**-120
        return np.asarray(count * epsilon * np.abs(value.astype(np.float64)) + tiny)

    return bound


def _sum_of(magnitude: Callable[[Array], Array]) -> Bound:
    """n epsilon times the sum of the terms' sizes."""

    def bound(operands: Any, value: Array, parameters: Any, dtype: DType) -> Array:
        terms = magnitude(np.abs(operands[0].astype(np.float64)))
        axis, keep = parameters
        total = np.asarray(terms.sum(axis=axis, keepdims=keep))
        count = terms.size / max(total.size, 1) + 8
        epsilon = min(_WORKING, _EPSILON[dtype]) if dtype is dtypes.float64 else _WORKING
        rounding = _EPSILON[dtype] * np.abs(value.astype(np.float64))
        return np.asarray(count * epsilon * total + rounding + 1e-38)

    return bound


def _cumulated(operands: Any, value: Array, parameters: Any, dtype: DType) -> Array:
    terms = np.abs(operands[0].astype(np.float64))
    epsilon = _EPSILON[dtype]
    return np.asarray((terms.shape[parameters[0]] + 8) * epsilon * terms.sum(
        axis=parameters[0], keepdims=True) * np.ones(value.shape) + 1e-38)


def _product(operands: Any, value: Array, parameters: Any, dtype: DType) -> Array:
    terms = np.abs(operands[0].astype(np.float64))
    # Zero times what overflowed on the way is NaN, in one order or the other.
    largest = np.prod(np.maximum(terms, 1.0)) * np.prod(1 / np.clip(terms, 1e-300, 1.0))
    if not largest < 1e4 * 2.0 ** (10 if dtype is dtypes.float16 else 100):
        return np.full(value.shape, np.inf)
    return np.asarray((terms.size + 8) * _EPSILON[dtype] * np.abs(
        value.astype(np.float64)) + 1e-30)


def _matmul(operands: Any, value: Array, parameters: Any, dtype: DType) -> Array:
    a, b = (np.abs(o.astype(np.float64)) for o in operands)
    epsilon = 2.0**-52 if dtype is dtypes.float64 else _WORKING
    rounding = _EPSILON[dtype] * np.abs(value.astype(np.float64))
    return np.asarray((a.shape[-1] + 8) * epsilon * (a @ b.swapaxes(-1, -2)) + rounding + 1e-38)


def _softmax(operands: Any, value: Array, parameters: Any, dtype: DType) -> Array:
    epsilon = 2.0**-52 if dtype is dtypes.float64 else _WORKING
    count = value.shape[parameters[0]] + 16
    return np.asarray((count * epsilon + _EPSILON[dtype]) * np.abs(value.astype(np.float64))
                      + 1e-30 + (2.0**-24 if dtype is dtypes.float16 else 0))


# -- the table ----------------------------------------------------------------------------------


def _method(name: str, **options: Any) -> Operation:
    return Operation(name=name, apply=lambda x, p: getattr(x[0], name)(*x[1:], *p), **options)


def _pair(name: str, takes: str = "any", method: str = "") -> Operation:
    chosen = method or name
    return Operation(name=name, apply=lambda x, p: getattr(x[0], chosen)(x[1]), arity=2,
                     takes=takes, broadcasts=True)


def _over_axis(name: str, **options: Any) -> Operation:
    options.setdefault("rank", 1)
    return Operation(
        name=name, apply=lambda x, p: getattr(x[0], name)(axis=p[0], keepdim=p[1]),
        parameters=_axis_and_rest, **options)


def _sliced(x: Sequence[Tensor], p: tuple[Any, ...]) -> Tensor:
    return x[0][tuple(slice(*s) for s in p[0])]


def _replaced(x: Sequence[Tensor], p: tuple[Any, ...]) -> Tensor:
    copied = x[0].clone()
    copied[tuple(slice(*s) for s in p[0])] = 1
    return copied


def _along_axis(x: Sequence[Tensor], p: tuple[Any, ...]) -> Tensor:
    return x[0].gather(p[0], Tensor(_many_indices(tuple(x[0].shape), p[0])))


def _scattered(x: Sequence[Tensor], p: tuple[Any, ...]) -> Tensor:
    index = Tensor(_many_indices(tuple(x[0].shape), p[0]))
    return x[0].scatter(p[0], index, x[0])


def _extremum_axis(draw: Random, shapes: list[Shape], dtype: DType) -> tuple[Any, ...] | None:
    chosen = _filled_axis(draw, shapes, dtype)
    return None if chosen is None else (*chosen, draw.random() < 0.5)


_TABLE: Final = (
    # elementwise, exact
    _method("neg", takes="number"), _method("abs", takes="number"),
    _method("sign", takes="number"), _method("square", takes="number"),
    _method("sqrt", takes="float"), _method("floor", takes="float"),
    _method("ceil", takes="float"), _method("trunc", takes="float"),
    _method("round", takes="float"), _method("reciprocal", takes="float"),
    _method("isnan", takes="float"), _method("isinf", takes="float"),
    _method("isfinite", takes="float"), _method("relu", takes="float"),
    _method("bitwise_not", takes="integer"), _method("logical_not"),
    _method("lshift", takes="integer", parameters=_bits),
    _method("rshift", takes="integer", parameters=_bits),
    _method("cast", parameters=_target),
    _method("bitcast", takes="integer", parameters=_same_size),
    _method("clamp", takes="number", parameters=_limits),
    _pair("add"), _pair("sub", "number"), _pair("mul"), _pair("maximum"), _pair("minimum"),
    _pair("eq"), _pair("ne"), _pair("less", method="__lt__"), _pair("at least", method="__ge__"),
    _pair("div", "float"), _pair("floordiv", "number", "__floordiv__"), _pair("mod", "number"),
    _pair("bitwise_and", "integer"), _pair("bitwise_or", "integer"),
    _pair("bitwise_xor", "integer"), _pair("logical_and", "bool"), _pair("copysign", "float"),
    Operation(name="where", apply=lambda x, p: x[0].cast(dtypes.bool).where(x[1], x[2]), arity=3,
              takes="number"),
    Operation(name="masked_fill", apply=lambda x, p: x[0].masked_fill(x[1].cast(dtypes.bool), 1),
              arity=2),
    # movement
    _method("reshape", parameters=_split, moves=True, rank=1),
    _method("permute", parameters=_permutation, moves=True, rank=1),
    _method("flip", parameters=_flags, moves=True, rank=1),
    Operation(name="slice", apply=_sliced, parameters=_slices, moves=True, rank=1),
    Operation(name="put", apply=_replaced, parameters=_slices, rank=1),
    Operation(name="pad", apply=lambda x, p: x[0].pad(p[0], value=p[1]), parameters=_paddings,
              rank=1),
    _method("repeat", parameters=_copies, moves=True, rank=1),
    Operation(name="roll", apply=lambda x, p: x[0].roll(p[0], p[1]), parameters=_shift, moves=True,
              rank=1),
    Operation(name="cat", apply=lambda x, p: x[0].cat(x[1], dim=p[0]), arity=2, parameters=_axis,
              rank=1),
    Operation(name="stack", apply=lambda x, p: Tensor.stack(x[0], x[1], dim=p[0]), arity=2,
              parameters=_axis, rank=1),
    _method("tril", rank=2, takes="number"), _method("triu", rank=2, takes="number"),
    # indexing
    Operation(name="take", apply=lambda x, p: x[0][Tensor(_indices(p))], parameters=_places,
              rank=1, moves=True),
    Operation(name="gather", apply=_along_axis, parameters=_filled_axis, rank=1, moves=True),
    Operation(name="scatter", apply=_scattered, parameters=_filled_axis, rank=1),
    # reductions
    _over_axis("sum", bound=_sum_of(lambda t: t)),
    _over_axis("mean", takes="float", bound=_sum_of(lambda t: t)),
    _over_axis("any", takes="bool"), _over_axis("all", takes="bool"),
    _over_axis("prod", takes="number", bound=_product),
    Operation(name="max", apply=lambda x, p: x[0].max(axis=p[0], keepdim=p[1]),
              parameters=_extremum_axis, rank=1),
    Operation(name="min", apply=lambda x, p: x[0].min(axis=p[0], keepdim=p[1]),
              parameters=_extremum_axis, rank=1),
    Operation(name="argmax", apply=lambda x, p: x[0].argmax(axis=p[0], keepdim=p[1]),
              parameters=_extremum_axis, rank=1),
    Operation(name="argmin", apply=lambda x, p: x[0].argmin(axis=p[0], keepdim=p[1]),
              parameters=_extremum_axis, rank=1),
    _method("cumsum", takes="number", parameters=_filled_axis, rank=1, bound=_cumulated),
    _method("cummax", takes="number", parameters=_filled_axis, rank=1),
    Operation(name="sort", apply=lambda x, p: x[0].sort(p[0])[0], parameters=_filled_axis, rank=1),
    Operation(name="matmul", apply=lambda x, p: x[0].matmul(x[1].transpose(-1, -2)), arity=2,
              takes="number", rank=2, bound=_matmul),
    _method("softmax", takes="float", parameters=_filled_axis, rank=1, bound=_softmax),
    # functions
    _method("exp", takes="float", bound=_ulps(4)), _method("exp2", takes="float", bound=_ulps(4)),
    _method("log", takes="float", bound=_ulps(4)), _method("log2", takes="float", bound=_ulps(4)),
    _method("sin", takes="float", bound=_ulps(4)), _method("cos", takes="float", bound=_ulps(4)),
    _method("tanh", takes="float", bound=_ulps(16)),
    _method("sigmoid", takes="float", bound=_ulps(16)),
    _method("erf", takes="float", bound=_ulps(16)),
)
#: By name.
OPERATIONS: Final[dict[str, Operation]] = {operation.name: operation for operation in _TABLE}
