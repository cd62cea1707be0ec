"""What a launch needs to know of a program: its arguments, extent and estimated work."""

from __future__ import annotations

from math import prod

from core.ir import (
    AddressSpace,
    AxisType,
    Op,
    ProgramInfo,
    UOp,
    largest_dimension,
    open_ranges,
    operation_flops,
    storage_of,
    toposort,
)


def _trips(node: UOp) -> int:
    ranges = set(open_ranges(node))
    if node.op is Op.REDUCE:
        ranges |= set(open_ranges(node.src[0]))
    return prod(largest_dimension(r.src[0]) for r in ranges) if ranges else 1


def _flops(sink_order: list[UOp]) -> int:
    """Floating point operations of the kernel as scheduled; a MULACC counts two."""
    total = 0
    for node in sink_order:
        if node.dtype.is_float and (node.op is Op.REDUCE or operation_flops(node.op)):
            total += _trips(node)
    return total


def program_info(sink: UOp, linear: UOp) -> ProgramInfo:
    """ProgramInfo of a kernel.

    Args:
        sink: The kernel as scheduled: its PARAMs say what is passed, its loops what is computed.
        linear: The program: its THREAD loop is the launch extent.
    """
    order = toposort(sink)
    params = sorted((n for n in order if n.op is Op.PARAM), key=lambda n: n.arg.slot)
    buffers = [p for p in params if p.arg.space is not AddressSpace.ALU]
    written = {storage_of(n.src[0]) for n in order if n.op is Op.STORE}
    items = 1
    if linear.op is Op.LINEAR:
        threads = [n for n in linear.src
                   if n.op is Op.RANGE and n.arg.axis_type is AxisType.THREAD]
        items = int(threads[0].src[0].value) if threads else 1
    return ProgramInfo(
        name=sink.arg.name,
        global_size=(items,),
        scalars=tuple(p.arg.slot for p in params if p.arg.space is AddressSpace.ALU),
        buffers=tuple(p.arg.slot for p in buffers),
        writes=tuple(p.arg.slot for p in buffers if p in written),
        flops=_flops(order),
        bytes_moved=sum(p.size_bytes for p in buffers),
    )
