"""Random tensor programs: drawn by hypothesis, run on a device, compared with the reference.

A program is data: inputs, then steps that each apply one operation to earlier values. It is run
twice, compiled on a device and by `core.reference.evaluate` on whole arrays, and must agree bit
for bit. Functions and sums of floats, whose last bits are free (DESIGN, Numbers), are compared
within a bound computed from their operands; nothing but movements is drawn on top of them, so an
error is never magnified.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import numpy as np
from hypothesis import strategies as st

from core.frontend import Tensor
from core.ir import DType, Op, UOp, dtypes, toposort
from core.reference import evaluate as reference
from core.reference.formats import STORED, decode
from core.testing.random_operations import OPERATIONS, Operation, Shape

Array = np.ndarray[Any, Any]
DTYPES: Final = (
    dtypes.bool, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64, dtypes.uint8,
    dtypes.uint16, dtypes.uint32, dtypes.uint64, dtypes.float16, dtypes.bfloat16, dtypes.float32,
    dtypes.float64,
)
#: Elements of the largest value.
_LARGEST: Final = 3000
_EXTENTS: Final = (1, 2, 3, 4, 5, 7, 8, 16, 17, 33)
_SPECIAL: Final = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-42, 6e-8, 65504.0, -1.5)


@dataclass(frozen=True)
class Input:
    """An input: shape, dtype, seed of its values, whether special values are among them."""

    shape: Shape
    dtype: DType
    seed: int
    special: bool
    backwards: bool

    def array(self) -> Array:
        """The values as numpy holds them; bfloat16 as float32. May have negative strides."""
        draw = np.random.default_rng(self.seed)
        if self.dtype is dtypes.bool:
            values: Array = draw.integers(0, 2, self.shape).astype(np.bool_)
        elif self.dtype.is_float:
            values = draw.normal(0, 3, self.shape)
            if self.special:
                chosen = draw.choice(_SPECIAL, self.shape)
                values = np.where(draw.random(self.shape) < 0.2, chosen, values)
            with np.errstate(all="ignore"):
                values = values.astype(np.float32 if self.dtype is dtypes.bfloat16
                                       else STORED[self.dtype])
        else:
            values = draw.integers(-9, 10, self.shape) if self.dtype.is_signed else draw.integers(
                0, 20, self.shape)
            values = values.astype(STORED[self.dtype])
            if self.special:
                info = np.iinfo(values.dtype)
                ends = np.array([info.min, info.min + 1, info.max, info.max - 1], values.dtype)
                values = np.where(draw.random(self.shape) < 0.2, draw.choice(ends, self.shape),
                                  values)
        backwards = tuple(slice(None, None, -1) for _ in self.shape)
        return values[backwards] if self.backwards else values

    def tensor(self) -> Tensor:
        """The values on the default device."""
        tensor = Tensor(self.array(), requires_grad=False)
        return tensor.cast(self.dtype).realize()


@dataclass(frozen=True)
class Step:
    """An operation on earlier values, named by number."""

    operation: str
    operands: tuple[int, ...]
    parameters: tuple[Any, ...]


@dataclass(frozen=True)
class Program:
    """Inputs are values 0, 1, ...; each step makes the next one. All of the last are compared."""

    inputs: tuple[Input, ...]
    steps: tuple[Step, ...]

    def tensors(self) -> list[Tensor]:
        """Every value, not computed yet."""
        values = [given.tensor() for given in self.inputs]
        for step in self.steps:
            operands = [values[k] for k in step.operands]
            values.append(OPERATIONS[step.operation].apply(operands, step.parameters))
        return values


@dataclass
class _Known:
    """What drawing has to know of a value: everything but its numbers."""

    shape: Shape
    dtype: DType
    exact: bool


@dataclass
class Statistics:
    """How often each thing was drawn."""

    counts: Counter[str] = field(default_factory=Counter)

    def add(self, program: Program, values: Sequence[Tensor]) -> None:
        """Count a program that was run."""
        self.counts.update(step.operation for step in program.steps)
        self.counts.update(str(value.dtype.name) for value in values)
        self.counts["zero size"] += sum(0 in value.shape for value in values)
        self.counts["negative stride"] += sum(i.backwards for i in program.inputs) + sum(
            s.operation in ("flip", "slice") for s in program.steps)
        self.counts["NaN or infinity"] += sum(i.special and i.dtype.is_float
                                              for i in program.inputs)
        self.counts["integer extremes"] += sum(
            i.special and i.dtype.is_machine_integer for i in program.inputs)

    def rarest(self) -> tuple[str, int]:
        """The thing that was drawn least, of all that may be drawn."""
        names = [*OPERATIONS, *(d.name for d in DTYPES), "zero size", "negative stride",
                 "NaN or infinity", "integer extremes"]
        name = min(names, key=lambda n: self.counts[n])
        return name, self.counts[name]

    def text(self) -> str:
        """All counts in one line, rarest first."""
        return ", ".join(f"{name} {count}" for name, count in sorted(
            self.counts.items(), key=lambda item: item[1]))


def programs(length: int = 20) -> st.SearchStrategy[Program]:
    """Programs of some steps on two or three inputs.

    hypothesis draws a seed and not each choice: its choices favour what is simple, and here every
    operation is to come about as often. `smaller` does the shrinking.
    """
    return st.integers(0, 2**48).map(lambda seed: program_of(seed, length))


def program_of(seed: int, length: int = 20) -> Program:
    """The program of a seed."""
    draw = Random(seed)
    extents = draw.choices(_EXTENTS, k=draw.randint(2, 3))
    if draw.random() < 0.12:
        extents[draw.randrange(len(extents))] = 0
    inputs, known = [], []
    for _ in range(draw.randint(2, 3)):
        given = Input(tuple(extents[draw.randrange(2):]), draw.choice(DTYPES),
                      draw.randrange(2**20), draw.random() < 0.5, draw.random() < 0.25)
        inputs.append(given)
        known.append(_Known(given.shape, given.dtype, True))
    steps: list[Step] = []
    for name in draw.sample(sorted(OPERATIONS), length):
        _add_step(draw, OPERATIONS[name], steps, known)
    return Program(tuple(inputs), tuple(steps))


def smaller(program: Program, number: int) -> Program:
    """The steps that one value is made of, renumbered."""
    first = len(program.inputs)
    needed, pending = set[int](), [number]
    while pending:
        k = pending.pop()
        if k >= first and k not in needed:
            needed.add(k)
            pending.extend(program.steps[k - first].operands)
    names = {k: k for k in range(first)} | {k: first + i for i, k in enumerate(sorted(needed))}
    steps = tuple(Step(step.operation, tuple(names[o] for o in step.operands), step.parameters)
                  for k, step in enumerate(program.steps, first) if k in needed)
    return Program(program.inputs, steps)


def _add_step(draw: Random, operation: Operation, steps: list[Step], known: list[_Known]) -> None:
    """Apply an operation to values that are there, cast where it takes other dtypes."""
    usable = [k for k, value in enumerate(known)
              if (value.exact or operation.moves) and len(value.shape) >= operation.rank]
    if not usable:
        return
    # Late values are likelier: programs get deep.
    first = usable[-1 - draw.randrange(min(len(usable), 5))]
    operands = [first]
    for _ in range(operation.arity - 1):
        partners = [k for k in usable if operation.fits(known[first].shape, known[k].shape)]
        operands.append(draw.choice(partners[-4:]) if partners else first)
    wanted = operation.dtype_for([known[k].dtype for k in operands])
    operands = [_cast(steps, known, k, dtype) for k, dtype in zip(operands, wanted, strict=True)]
    shapes = [known[k].shape for k in operands]
    parameters = operation.parameters(draw, shapes, known[operands[0]].dtype)
    if parameters is None:
        return
    step = Step(operation.name, tuple(operands), parameters)
    shape, dtype = operation.result(shapes, [known[k].dtype for k in operands], parameters)
    if int(np.prod(shape, dtype=np.int64)) > _LARGEST:
        return
    steps.append(step)
    known.append(_Known(shape, dtype, all(known[k].exact for k in operands) and operation.exact(
        known[operands[0]].dtype)))


def _cast(steps: list[Step], known: list[_Known], number: int, dtype: DType) -> int:
    value = known[number]
    if value.dtype is dtype:
        return number
    steps.append(Step("cast", (number,), (dtype,)))
    known.append(_Known(value.shape, dtype, value.exact))
    return len(known) - 1


class MismatchError(AssertionError):
    """A device computed something else than the reference."""


def check(program: Program, statistics: Statistics | None = None) -> None:
    """Run a program and compare all values that nothing else is made of.

    Raises:
        MismatchError: A value differs; shows the program.
    """
    values = program.tensors()
    if statistics is not None:
        statistics.add(program, values)
    used = {k for step in program.steps for k in step.operands}
    ends = [k for k in range(len(program.inputs), len(values)) if k not in used]
    graphs = [value.uop for value in values]  # reading may compute, and so rename, some of them
    arrays = _leaf_arrays(graphs)
    bounds = _bounds_of(program, graphs, arrays)
    expected = reference.evaluate_all([graphs[k] for k in ends], arrays)
    chosen = [values[k] for k in ends]
    if chosen:
        chosen[0].realize(*chosen[1:])
    for k, tensor, right in zip(ends, chosen, expected, strict=True):
        found = _stored(tensor)
        message = difference(found, right, bounds.get(k))
        if message:
            raise MismatchError(f"value {k}, {tensor.dtype.name} {tensor.shape}: {message}\n"
                                f"{smaller(program, k)}")


def _leaf_arrays(graphs: Sequence[UOp]) -> dict[UOp, Array]:
    """What the storage below some values holds: inputs, and indices."""
    leaves = dict.fromkeys(n for n in toposort(*graphs) if n.op is Op.BUFFER)
    return {leaf: _stored(Tensor._of(leaf)) for leaf in leaves}


def _stored(tensor: Tensor) -> Array:
    """The values as the reference holds them."""
    raw = np.frombuffer(tensor.data(), STORED[tensor.dtype]).reshape(tensor.shape)
    return np.asarray(decode(raw, tensor.dtype))


def _bounds_of(
    program: Program, graphs: Sequence[UOp], arrays: dict[UOp, Array]
) -> dict[int, Array]:
    """How far values that are not exact may be from the reference, by number."""
    result: dict[int, Array] = {}
    first = len(program.inputs)
    for k, step in enumerate(program.steps, first):
        operation = OPERATIONS[step.operation]
        inherited = [result[o] for o in step.operands if o in result]
        dtype = graphs[step.operands[0]].dtype
        if inherited:
            result[k] = np.asarray(max(float(b.max(initial=0)) for b in inherited))
        elif not operation.exact(dtype):
            operands = reference.evaluate_all([graphs[o] for o in step.operands], arrays)
            value = reference.evaluate(graphs[k], arrays)
            with np.errstate(all="ignore"):
                result[k] = operation.bound(operands, value, step.parameters, dtype)
    return result


def difference(found: Array, expected: Array, bound: Array | None) -> str:
    """How two arrays differ, in words; empty where they agree.

    Bit for bit without a bound, but any NaN is any NaN.
    """
    if found.shape != expected.shape:
        return f"shape {found.shape}, expected {expected.shape}"
    if bound is None:
        same = found == expected
        if found.dtype.kind == "f":
            same = (same & (np.signbit(found) == np.signbit(expected))) | (
                np.isnan(found) & np.isnan(expected))
    else:
        with np.errstate(all="ignore"):
            near = np.abs(found.astype(np.float64) - expected.astype(np.float64)) <= bound
        same = near | (found == expected) | (np.isnan(found) & np.isnan(expected))
        same |= ~np.isfinite(np.broadcast_to(bound, found.shape))
    if same.all():
        return ""
    at = tuple(int(i) for i in np.argwhere(~same)[0])
    return (f"{(~same).sum()} of {found.size} differ, at {at}: {found[at]!r}, expected "
            f"{expected[at]!r}" + ("" if bound is None else f" within {bound.max()}"))
