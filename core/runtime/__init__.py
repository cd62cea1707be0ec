"""Open devices, storage, and the execution of schedules."""

from core.runtime.counters import GlobalCounters
from core.runtime.device import Device, canonical, open_device
from core.runtime.realize import (
    Piece,
    bind_schedule,
    piece_of,
    read_bytes,
    realize,
    run_body,
    run_call,
)
from core.runtime.storage import (
    buffer_count,
    host_view,
    new_storage,
    root_buffer,
    storage_of_value,
    wrapped_storage,
    wraps_memory,
)

__all__ = [
    "Device", "GlobalCounters", "Piece", "bind_schedule", "buffer_count", "canonical",
    "host_view", "new_storage", "open_device", "piece_of", "read_bytes", "realize", "root_buffer",
    "run_body", "run_call", "storage_of_value", "wrapped_storage", "wraps_memory",
]
