"""The example of `docs/tour.md`, taken through the compiler; each stage as text.

The target is fixed, so that the page is the same wherever it is made.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final

from core.compiler.passes import Pass, observe, run_passes
from core.compiler.pipeline import SCHEDULE, generate
from core.foundation.lazy_import import lazy_import
from core.ir import Op, UOp, dtypes, text
from core.render import code_for_op, render_llvm
from core.schedule.callify import callify
from core.toolchain import Machine, assembly, target_of

if TYPE_CHECKING:
    from llvmlite import binding
else:
    binding = lazy_import("llvmlite.binding", "the assembly of the tour")

MACHINE: Final = Machine("x86_64-unknown-linux-gnu", "x86-64-v3")
# Labels of blocks and instructions; not directives, comments or labels for debuggers.
_INSTRUCTION: Final = re.compile(r"\.LBB|[a-z_0-9]+:|\s+[a-z]")
UNCHANGED: Final = "(nothing to do here: the graph stays as it is)"


def example() -> UOp:
    """The value of the tour: sum over the rows of x * y, both of shape (100, 8)."""
    x, y = (UOp.new_buffer("CPU", dtypes.float32, (100, 8)) for _ in range(2))
    return (x * y).reduce(Op.ADD, axes=1)


@cache
def stages() -> dict[str, str]:
    """Text of every stage: `call`, then each pass by name, then `llvm`."""
    target = target_of(MACHINE, cores=2)
    call = callify([example()], "CPU", lambda node: None).call
    assert call is not None
    result = {"call": text(call.src[0])}

    def keep(step: Pass, before: UOp, after: UOp, seconds: float) -> None:
        result[step.name] = UNCHANGED if after is before else text(after)

    with observe(keep):
        (kernel,) = run_passes(call.src[0], SCHEDULE, target).src
        program = generate(kernel.src[0], target, code_for_op(fma=True))
    result["llvm"] = render_llvm(program.arg.name, program.src[1]).strip()
    return result


def llvm_version() -> str:
    """LLVM's major version as the page names it.

    Raises:
        ModuleNotFoundError: llvmlite is not installed.
    """
    return f"LLVM {binding.llvm_version_info[0]}"


def machine_code() -> str:
    """Assembly of the example, without directives, headed by the version that made it."""
    lines = assembly(stages()["llvm"], MACHINE).splitlines()
    kept = [line.expandtabs(8).rstrip() for line in lines if _INSTRUCTION.match(line)]
    return "\n".join([f"# {llvm_version()}, {MACHINE.cpu}", *kept])
