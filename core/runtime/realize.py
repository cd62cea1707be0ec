"""From values to storage: callify, schedule, compile, run, remember."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from threading import RLock
from typing import Any, Final, NamedTuple

from core.compiler.compile import compile_linear
from core.compiler.pipeline import schedule
from core.foundation.errors import UnsupportedError
from core.foundation.fork import survive_fork
from core.foundation.settings import settings
from core.ir import AddressSpace, Op, UOp
from core.runtime.device import Device, open_device
from core.runtime.executor import BoundSchedule
from core.runtime.storage import (
    buffer_of,
    drain,
    remember,
    root_buffer,
    storage_of_value,
)
from core.schedule.callify import callify, contiguous_slice

_lock: Final = survive_fork(RLock())
_bound: OrderedDict[tuple[UOp, str], BoundSchedule] = OrderedDict()


def bind_schedule(body: UOp, argument_count: int, device: str) -> BoundSchedule:
    """The compiled, bound schedule of a CALL's body; equal bodies are compiled once.

    Args:
        body: SINK(STORE(PARAM k, value)...).
        argument_count: Number of arguments of the CALL.
        device: Device of what names none.
    """
    key = (body, device)
    with _lock:
        found = _bound.get(key)
        if found is None:
            linear = schedule(body, open_device(device).target)
            compiled = compile_linear(linear, lambda name: open_device(name or device))
            found = _bound[key] = BoundSchedule(compiled, argument_count, device)
            while len(_bound) > settings.SCHEDULE_CACHE:
                _bound.popitem(last=False)
        _bound.move_to_end(key)
        return found


def realize(values: Sequence[UOp]) -> list[UOp]:
    """Compute values and keep them in storage.

    Args:
        values: Tensor graphs.

    Returns:
        For each value, storage of its shape: a BUFFER, reshaped or shrunk at most.

    Raises:
        CompileError: A kernel does not compile; nothing is changed.
        OutOfMemoryError: No room; nothing is changed.
    """
    with _lock:
        drain()
        result = callify(values, Device.DEFAULT, storage_of_value)
        for call in result.calls:
            run_call(call)
        if result.call is not None:
            programs = {store.src[1] for store in result.call.src[0].src}
            for value, storage in result.stored:
                remember(value, storage, is_constant=value in programs)
        return list(result.outputs)


class Piece(NamedTuple):
    """An argument of a CALL: bytes of some storage.

    Attributes:
        buffer: The BUFFER.
        first_byte: Where it begins.
        size_bytes: Its length.
    """

    buffer: UOp
    first_byte: int
    size_bytes: int


def piece_of(argument: UOp) -> Piece:
    """The bytes that an argument names: a BUFFER or a contiguous slice of one, in any shape."""
    node = argument
    while node.op is Op.RESHAPE:
        node = node.src[0]
    if node.op is Op.BUFFER:
        return Piece(node, 0, node.size_bytes)
    if node.op is Op.PARAM and node.arg.space is AddressSpace.ALU:
        raise UnsupportedError(f"the Variable {node.arg.name} is not bound to a value")
    found = contiguous_slice(node)
    assert found is not None, "callify makes no other arguments"
    buffer, offset, count = found
    size = buffer.dtype.itemsize
    return Piece(buffer, offset * size, count * size)


def run_call(call: UOp) -> None:
    """Run CALL(body, storage...): compile where needed, allocate outputs, launch."""
    run_body(call.src[0], [piece_of(a) for a in call.src[1:]])


def run_body(body: UOp, pieces: Sequence[Piece]) -> None:
    """Run the body of a CALL on arguments."""
    device = pieces[0].buffer.arg.device
    if not isinstance(device, str):
        raise UnsupportedError("values on several devices cannot be realised yet")
    blocks = [_block(piece) for piece in pieces]  # no room is found out before compiling
    bind_schedule(body, len(pieces), device).run(blocks, {})


def _block(piece: Piece) -> Any:
    """Device block of an argument: that of its BUFFER, or a view of it; None for no bytes."""
    buffer = buffer_of(piece.buffer)
    if not buffer.size_bytes:
        return None
    block = buffer.allocated()
    if piece.size_bytes == buffer.size_bytes:
        return block
    return buffer.cache.allocator.view(block, piece.first_byte, max(piece.size_bytes, 1))


def read_bytes(value: UOp) -> bytes:
    """Content of a value as row-major bytes; computes it where needed.

    Raises:
        CoreError: It cannot be computed.
    """
    (storage,) = realize([value])
    buffer = buffer_of(root_buffer(storage))
    if storage.op is Op.SHRINK or storage.size_bytes != buffer.size_bytes:
        (storage,) = realize([storage.contiguous()])
        buffer = buffer_of(root_buffer(storage))
    result = bytearray(buffer.size_bytes)
    if buffer.size_bytes:
        buffer.cache.allocator.copy_out(memoryview(result), buffer.allocated(), 0)
    return bytes(result)
