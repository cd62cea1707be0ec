"""optimize-loops: the heuristic's actions, those that a kernel brings, or none."""

from dataclasses import replace

import pytest

from core.codegen.actions import Split
from core.codegen.heuristic import choose_actions
from core.codegen.optimize_loops import optimize_loops
from core.foundation.settings import Context
from core.ir import AxisType, Op
from core.testing.pass_checks import TARGET, executed, matmul, program_of
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
