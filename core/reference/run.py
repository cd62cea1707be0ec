"""The oracle of passes: executes a kernel or a program at any stage of the compiler.

    run(sink, [out, a, b], [])          a kernel SINK, before or after any pass
    run(linear, [out, a, b], [])        a LINEAR of items in order
    run(schedule, arguments, [])        a LINEAR of CALLs, with its arenas

Buffers are flat arrays, written in place: of the dtype as it lies in storage (uint16 for bfloat16,
uint8 for fp8) or bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from core.foundation.errors import UnsupportedError
from core.ir import AddressSpace, Op, UOp
from core.reference.formats import STORED, Array
from core.reference.kernel import GraphMachine
from core.reference.machine import launch_ranges
from core.reference.program import ProgramMachine


def run(program: UOp, buffers: Sequence[Array], scalars: Sequence[Any] = ()) -> None:
    """Execute a kernel once.

    Args:
        program: SINK of a kernel; LINEAR; or PROGRAM, of which the latest graph is taken.
        buffers: Flat arrays, one per PARAM with storage, in order of slots.
        scalars: Numbers, one per PARAM in ALU space, in order of slots.

    Raises:
        IndexOutOfRangeError: An access leaves storage; names the PARAM and the index.
        VerificationError: Private storage is read before it is written, or a LINEAR uses a value
            before its turn.
        UnsupportedError: The program holds an op that only a device can execute.
    """
    if program.op is Op.PROGRAM:
        graphs = [s for s in program.src if s.op in (Op.SINK, Op.LINEAR)]
        program = graphs[-1]
    if program.op is Op.LINEAR and program.src and all(c.op is Op.CALL for c in program.src):
        raise UnsupportedError("this is a schedule, not a kernel: use run_schedule")
    program = launch_ranges(program)
    machine = ProgramMachine if program.op is Op.LINEAR else GraphMachine
    machine(program, buffers, scalars).run()


def run_schedule(linear: UOp, arguments: Sequence[Any]) -> None:
    """Execute a LINEAR of CALLs as it leaves the scheduler.

    Args:
        linear: CALLs of kernels and copies on PARAMs, and on SHRINKs and BITCASTs of them.
        arguments: For each slot of the schedule a flat array, or the number of a Variable.
            Arenas, whose slots follow, are made here.
    """
    storage: dict[int, Any] = dict(enumerate(arguments))
    for call in linear.src:
        body, given = call.src[0], call.src[1:]
        for argument in given:
            root = _root(argument)
            if root.arg.slot not in storage:
                storage[root.arg.slot] = np.zeros(root.size_bytes, np.uint8)
        bound = [_argument(a, storage) for a in given]
        if body.op is Op.COPY:
            destination, source = (np.asarray(b).view(np.uint8) for b in bound)
            destination[:given[0].size_bytes] = source[:given[0].size_bytes]
            continue
        if body.op not in (Op.SINK, Op.PROGRAM, Op.LINEAR):
            raise UnsupportedError(f"the reference runs no CALL of {body.op.name}")
        scalar = [_root(a).arg.space is AddressSpace.ALU for a in given]
        run(body, [b for b, s in zip(bound, scalar, strict=True) if not s],
            [b for b, s in zip(bound, scalar, strict=True) if s])


def _root(argument: UOp) -> UOp:
    while argument.op in (Op.SHRINK, Op.BITCAST, Op.AFTER):
        argument = argument.src[0]
    return argument


def _argument(argument: UOp, storage: dict[int, Any]) -> Any:
    """The array that an argument of a CALL names: a view of that of its PARAM."""
    root = _root(argument)
    found = storage[root.arg.slot]
    if root.arg.space is AddressSpace.ALU:
        return found
    chain = []
    node = argument
    while node is not root:
        chain.append(node)
        node = node.src[0]
    data = np.asarray(found).view(np.uint8)
    for view in reversed(chain):
        if view.op is Op.SHRINK:
            start = int(view.src[1].src[0].value) * view.dtype.itemsize
            data = data[start:start + view.size_bytes]
    size = data.nbytes // argument.dtype.itemsize * argument.dtype.itemsize
    return data[:size].view(STORED[argument.dtype])
