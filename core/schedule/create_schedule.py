"""create-schedule: the body of a CALL becomes a LINEAR of kernels.

    SINK(STORE(PARAM 0, value)...) → LINEAR(CALL(SINK kernel, storage...), CALL(COPY, ...), ...)
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import Any

from core.ir import AddressSpace, Op, UOp, device_of
from core.plugin import Target
from core.schedule.assign_ranges import Kernel, Plan, assign_ranges, copy_source
from core.schedule.build_kernels import (
    KernelBuilder,
    flat_size,
    kernel_sink,
    normalise_kernel,
    resolve_placeholders,
)
from core.schedule.plan_memory import FIRST_ARENA, plan_memory
from core.simplify import simplify


def create_schedule(sink: UOp, target: Target) -> UOp:
    """Schedule a prepared tensor graph.

    Args:
        sink: SINK(STORE(PARAM k, value)...), after `prepare_graph`.
        target: The device's data.

    Returns:
        LINEAR of CALLs in kernel graph form; PARAMs are those of the body, flat, and one arena of
        bytes per device behind them.
    """
    stores: dict[UOp, list[UOp]] = {}
    for store in sink.src:
        if 0 not in store.src[1].shape:
            stores.setdefault(store.src[1], []).append(store.src[0])
    plan = assign_ranges(list(stores), target)
    storage = _name_storage(plan, stores)
    builder = KernelBuilder(plan, storage)
    builder.run()
    calls = []
    for kernel in _ordered(plan):
        calls.extend(_calls(kernel, builder, storage, stores))
    return UOp(Op.LINEAR, tuple(plan_memory(calls)))


def _flat(node: UOp) -> UOp:
    """A PARAM of any shape as flat storage."""
    if node.arg.space is AddressSpace.ALU:
        return node
    return UOp.param(node.arg.slot, node.dtype, (flat_size(node),), node.arg.device)


def _name_storage(plan: Plan, stores: dict[UOp, list[UOp]]) -> dict[UOp, UOp]:
    """Flat PARAM of each leaf and each stored value; values that leave get their output."""
    storage: dict[UOp, UOp] = {}
    slot = FIRST_ARENA
    for node in plan.order:
        if node.op is Op.PARAM:
            storage[node] = _flat(node)
        elif node in plan.stored:
            if node in stores:
                storage[node] = _flat(stores[node][0])
            else:
                device = device_of(node) or plan.stored[node].device
                storage[node] = UOp.param(slot, node.dtype, (flat_size(node),), device)
                slot += 1
    return storage


def _calls(
    kernel: Kernel, builder: KernelBuilder, storage: dict[UOp, UOp], stores: dict[UOp, list[UOp]]
) -> list[UOp]:
    """CALLs of one kernel: usually one; a COPY to several places is several."""
    if kernel.roots[0].op is Op.COPY:
        root = kernel.roots[0]
        body_of = _copy_body
        source = storage[copy_source(root)]
        places = [_flat(p) for p in stores.get(root, ())] or [storage[root]]
        return [body_of(root, place).call(place, source) for place in places]
    pairs: list[tuple[UOp, UOp]] = []
    for node, value in builder.outputs[kernel.number]:
        resolved = resolve_placeholders(value, builder, kernel)
        targets = [_flat(p) for p in stores.get(node, ())] or [storage[node]]
        if node.op is Op.PARAM:
            targets = [_flat(p) for p in stores[node]]
        pairs.extend((place, resolved) for place in targets)
    sink = simplify(kernel_sink(pairs, kernel))
    body, params = normalise_kernel(sink)
    return [body.call(*params)]


def _copy_body(root: UOp, place: UOp) -> UOp:
    """COPY of flat storage: PARAM 1 on its device to that of PARAM 0."""
    source = UOp.param(1, root.dtype, place.shape, device_of(root.src[0]))
    return UOp(Op.COPY, (source,), root.arg)


def _ordered(plan: Plan) -> Sequence[Kernel]:
    """Kernels so that results come before their readers.

    Among ready ones the highest number goes first: numbers grow from outputs towards inputs.
    """
    readers: dict[int, list[int]] = {n: [] for n in plan.kernels}
    missing: dict[int, int] = {}
    for number, kernel in plan.kernels.items():
        needs = kernel.needs - {number}
        missing[number] = len(needs)
        for need in needs:
            readers[need].append(number)
    ready = [-n for n, m in missing.items() if m == 0]
    heapify(ready)
    result: list[Any] = []
    while ready:
        number = -heappop(ready)
        result.append(plan.kernels[number])
        for reader in readers[number]:
            missing[reader] -= 1
            if missing[reader] == 0:
                heappush(ready, -reader)
    assert len(result) == len(plan.kernels), "kernels need each other in a circle"
    return result
