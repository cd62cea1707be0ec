"""Faults to be found: one broken rule each, applied behind a pass of the compiler.

Tests run random programs with a fault in place and expect a difference: what does not find these
would not find a real one. None of them reads or writes outside of storage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from core.compiler import compile as compilation
from core.compiler import pipeline
from core.compiler.passes import Pass
from core.ir import Op, UOp, dtypes, map_graph
from core.plugin import Target
from core.runtime.realize import _bound

#: (rebuilt node, node before) → the node or a wrong one.
Rule = Callable[[UOp, UOp], UOp]


@dataclass(frozen=True)
class Fault:
    """A broken rule.

    Attributes:
        name: What is wrong.
        step: The pass behind which it is applied to every node.
        rule: The rule.
    """

    name: str
    step: str
    rule: Rule


def _maximum_without_nan(node: UOp, original: UOp) -> UOp:
    if node.op is Op.MAX and node.dtype.is_float:
        a, b = node.src
        return a.alu(Op.CMPLT, b).where(b, a)
    return node


def _floor_as_truncation(node: UOp, original: UOp) -> UOp:
    wrong = node.op is Op.FLOORDIV and node.dtype.is_machine_integer
    return UOp(Op.TRUNCDIV, node.src) if wrong else node


def _lost_rounding(node: UOp, original: UOp) -> UOp:
    if node.op is Op.CAST and node.src[0].op is Op.CAST and node.src[0].dtype.bits == 16 \
            and node.src[0].dtype.is_float and node.dtype is not dtypes.bool:
        return node.src[0].src[0].cast(node.dtype)
    return node


def _swapped_branches(node: UOp, original: UOp) -> UOp:
    if node.op is Op.WHERE and node.src[0].op is Op.CMPLT and node.dtype.is_machine_integer \
            and not node.src[2].is_invalid:
        gate, yes, no = node.src
        return gate.where(no, yes)
    return node


def _difference_of_equals(node: UOp, original: UOp) -> UOp:
    if node.op in (Op.SUB, Op.CMPNE) and node.src[0] is node.src[1]:
        nothing = node.const_like(0)
        return node.src[0].eq(node.src[0]).where(nothing, nothing)
    return node


def _less_as_not_at_least(node: UOp, original: UOp) -> UOp:
    if node.op is Op.CMPLT and node.src[0].dtype.is_float:
        a, b = node.src
        return (b.alu(Op.CMPLT, a) | a.eq(b)).logical_not()
    return node


def _wrong_neutral_element(node: UOp, original: UOp) -> UOp:
    wrong = node.op is Op.REDUCE and node.arg.op is Op.MAX and node.dtype.is_machine_integer
    return node.maximum(0) if wrong else node


def _half_a_flip(node: UOp, original: UOp) -> UOp:
    if node.op is Op.FLIP and sum(node.arg) > 1:
        last = max(k for k, flag in enumerate(node.arg) if flag)
        return node.replace(arg=tuple(f and k != last for k, f in enumerate(node.arg)))
    return node


def _conversion_that_rounds_down(node: UOp, original: UOp) -> UOp:
    if node.op is Op.CAST and node.dtype.is_machine_integer and node.dtype.is_signed \
            and node.src[0].dtype in (dtypes.float32, dtypes.float64):
        x = node.src[0]
        down = x.alu(Op.TRUNC)
        return x.alu(Op.CMPLT, down).where(down - 1.0, down).cast(node.dtype)
    return node


def _overlapping_memory(node: UOp, original: UOp) -> UOp:
    if node.op is Op.SHRINK and node.dtype is dtypes.uint8 and node.src[0].op is Op.PARAM:
        return node.src[0].shrink((0,), node.shape) if node.shape != node.src[0].shape else node
    return node


def _shift_without_sign(node: UOp, original: UOp) -> UOp:
    if node.op is Op.SHR and node.dtype is dtypes.int32:
        wide = node.src[0].bitcast(dtypes.uint32).alu(Op.SHR, node.src[1].bitcast(dtypes.uint32))
        return wide.bitcast(dtypes.int32)
    return node


FAULTS: Final = (
    Fault("maximum-without-nan", "simplify-tensor-graph", _maximum_without_nan),
    Fault("floor-as-truncation", "simplify-tensor-graph", _floor_as_truncation),
    Fault("lost-rounding", "simplify-tensor-graph", _lost_rounding),
    Fault("swapped-branches", "simplify-tensor-graph", _swapped_branches),
    Fault("difference-of-equals", "simplify-tensor-graph", _difference_of_equals),
    Fault("less-as-not-at-least", "simplify-tensor-graph", _less_as_not_at_least),
    Fault("half-a-flip", "simplify-tensor-graph", _half_a_flip),
    Fault("conversion-that-rounds-down", "simplify-tensor-graph", _conversion_that_rounds_down),
    Fault("shift-without-sign", "simplify-tensor-graph", _shift_without_sign),
    Fault("wrong-neutral-element", "prepare-graph", _wrong_neutral_element),
    Fault("overlapping-memory", "create-schedule", _overlapping_memory),
)


def _forget() -> None:
    """Let nothing compiled with another compiler be found."""
    pipeline._schedules.clear()
    compilation._programs.clear()
    _bound.clear()


@contextmanager
def injected(fault: Fault) -> Iterator[None]:
    """The compiler with a fault, inside of this block; for tests that run nothing else."""
    before = pipeline.SCHEDULE

    def broken(step: Pass) -> Pass:
        def rewrite(graph: UOp, target: Target) -> UOp:
            return map_graph(step.rewrite(graph, target), fault.rule)

        return replace(step, rewrite=rewrite)

    changed: Any = tuple(broken(s) if s.name == fault.step else s for s in before)
    assert changed != before, f"there is no pass {fault.step}"
    pipeline.SCHEDULE = changed  # type: ignore[misc]
    _forget()
    try:
        yield
    finally:
        pipeline.SCHEDULE = before  # type: ignore[misc]
        _forget()
