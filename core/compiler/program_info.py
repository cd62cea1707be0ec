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


def _launch_size(specials: list[UOp], kind: str) -> tuple[int, ...]:
    """Extent of each launch axis of a kind: "g" for work groups, "l" for the items of one."""
    sizes = [1, 1, 1]
    for special in specials:
        if special.arg[0] == kind:
            sizes[int(special.arg[1:])] = int(special.src[0].value)
    return tuple(sizes)


def program_info(sink: UOp, linear: UOp, cores: int, *, dynamic: bool = False) -> ProgramInfo:
    """ProgramInfo of a kernel.

    Args:
        sink: The kernel as scheduled: its loops say what is computed.
        linear: The program: its PARAMs, some may have gone, are what is passed, its launch indices
            or its THREAD loop say how many items there are.
        cores: Of the target: how many shares a threaded loop has.
        dynamic: Threads take its items one by one instead.
    """
    order = toposort(sink)
    params = sorted((n for n in toposort(linear) if n.op is Op.PARAM), key=lambda n: n.arg.slot)
    buffers = [p for p in params if p.arg.space is not AddressSpace.ALU]
    written = {storage_of(n.src[0]).arg.slot for n in order if n.op is Op.STORE}
    specials = [n for n in toposort(linear) if n.op is Op.SPECIAL]
    global_size: tuple[int, ...]
    local_size: tuple[int, ...]
    if specials:
        global_size, local_size = (_launch_size(specials, kind) for kind in "gl")
    else:
        threads = [n for n in linear.src
                   if n.op is Op.RANGE and n.arg.axis_type is AxisType.THREAD]
        items = int(threads[0].src[0].value) if threads and linear.op is Op.LINEAR else 1
        global_size, local_size = (items,), (1 if dynamic else -(-items // cores),)
    return ProgramInfo(
        name=sink.arg.name,
        global_size=global_size,
        local_size=local_size,
        scalars=tuple(p.arg.slot for p in params if p.arg.space is AddressSpace.ALU),
        buffers=tuple(p.arg.slot for p in buffers),
        writes=tuple(p.arg.slot for p in buffers if p.arg.slot in written),
        flops=_flops(order),
        bytes_moved=sum(map(largest_bytes, buffers)),
    )
