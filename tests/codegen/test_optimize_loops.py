"""optimize-loops: the heuristic's actions, those that a kernel brings, or none."""

from dataclasses import replace

import pytest

from core.codegen.actions import Split
from core.codegen.heuristic import choose_actions
from core.codegen.optimize_loops import optimize_loops
from core.foundation.settings import Context
from core.ir import AxisType, Op, UOp
from core.testing.pass_checks import TARGET, executed, kernel, matmul, place, program_of
from core.testing.pass_checks import optimize_loops as check


def test_optimize_loops():
    check()


@pytest.mark.parametrize(("registers", "rows"), [(1, 0), (3, 0), (4, 0), (8, 1)])
def test_few_registers_make_small_tiles(registers, rows):
    """Down to a row of lanes, where nothing is left to share what was loaded."""
    small = replace(TARGET, vector_bytes=16, vector_registers=registers)
    actions = choose_actions(matmul(64), small)
    kinds = [action.kind for action in actions if isinstance(action, Split)]
    assert kinds.count(AxisType.LANE) == 2
    assert kinds.count(AxisType.UPCAST) == rows


@pytest.mark.parametrize(("length", "parts"), [(64, 8), (12, 4), (7, 1)])
def test_a_sum_of_scalars_has_parts(length, parts):
    """Without lanes too: a sum in one chain rounds worse, and each addition waits for the last."""
    out, left, right = (place(k, length * length) for k in range(3))
    i, k = UOp.range(length, 0), UOp.range(length, 1)
    product = left.index(i * length + k).load() * right.index(k).load()
    dots = kernel(out.index(i).store(product.reduce(Op.ADD, k)).end(i))
    scalar = replace(TARGET, vector_bytes=4, vector_registers=16)
    factors = [a.factor for a in choose_actions(dots, scalar) if isinstance(a, Split)]
    assert factors == ([parts] if parts > 1 else [])


def test_noopt_leaves_the_loops_alone():
    with Context(NOOPT=True):
        assert optimize_loops(matmul(64), TARGET) is matmul(64)
        # Both operands and the accumulator, and each sum once.
        assert executed(program_of(matmul(64)), Op.LOAD) == 3 * 64 ** 3 + 64 ** 2


def test_actions_that_a_kernel_brings_are_kept():
    brought = matmul(64).replace(arg=matmul(64).arg._replace(actions=()))
    assert optimize_loops(brought, TARGET) is brought


def test_what_was_chosen_is_remembered():
    assert optimize_loops(matmul(64), TARGET).arg.actions
