"""What a launch needs to know of a program: its arguments, extent and estimated work."""

from __future__ import annotations

from math import prod

from core.ir import (
    AddressSpace,
    AxisType,
    Op,
    ProgramInfo,
    UOp,
    largest_bytes,
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


def program_info(sink: UOp, linear: UOp, cores: int, *, dynamic: bool = False) -> ProgramInfo:
    """ProgramInfo of a kernel.

    Args:
        sink: The kernel as scheduled: its loops say what is computed.
        linear: The program: its PARAMs, some may have gone, are what is passed, its THREAD loop is
            the launch extent.
        cores: Of the target: how many shares a threaded loop has.
        dynamic: Threads take its items one by one instead.
    """
    order = toposort(sink)
    params = sorted((n for n in toposort(linear) if n.op is Op.PARAM), key=lambda n: n.arg.slot)
    buffers = [p for p in params if p.arg.space is not AddressSpace.ALU]
    written = {storage_of(n.src[0]).arg.slot for n in order if n.op is Op.STORE}
    items = share = 1
    if linear.op is Op.LINEAR:
        threads = [n for n in linear.src
                   if n.op is Op.RANGE and n.arg.axis_type is AxisType.THREAD]
        items = int(threads[0].src[0].value) if threads else 1
        share = 1 if dynamic else -(-items // cores)
    return ProgramInfo(
        name=sink.arg.name,
        global_size=(items,),
        local_size=(share,),
        scalars=tuple(p.arg.slot for p in params if p.arg.space is AddressSpace.ALU),
        buffers=tuple(p.arg.slot for p in buffers),
        writes=tuple(p.arg.slot for p in buffers if p.arg.slot in written),
        flops=_flops(order),
        bytes_moved=sum(map(largest_bytes, buffers)),
    )
