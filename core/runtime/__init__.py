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
from core.runtime.storage import buffer_count, new_storage, storage_of_value

__all__ = [
    "Device", "GlobalCounters", "Piece", "bind_schedule", "buffer_count", "canonical",
    "new_storage",
    "open_device", "piece_of", "read_bytes", "realize", "run_body", "run_call",
    "storage_of_value",
]
