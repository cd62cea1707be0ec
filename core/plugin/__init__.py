"""The socket that devices plug into: the only module of core that a plugin's stub imports.

A device's package writes its hooks with `hookimpl`, describes itself with `DeviceSpec` and returns
objects of the interfaces below; `Target` tells the compiler what the device can do. Nothing here
loads numpy or the compiler.
"""

from core.foundation.errors import (
    CompileError,
    DeviceError,
    OutOfMemoryError,
    PluginError,
    UnsupportedError,
)
from core.plugin.description import Check, DeviceSpec, Probe
from core.plugin.interfaces import (
    Allocator,
    Block,
    Compiler,
    CopyQueue,
    LaunchSize,
    Loader,
    OpenDevice,
    Program,
    RecordedCall,
    Recording,
    Renderer,
    offers,
)
from core.plugin.markers import API, hookimpl
from core.plugin.target import MatrixUnit, Target

__all__ = [
    "API",
    "Allocator",
    "Block",
    "Check",
    "CompileError",
    "Compiler",
    "CopyQueue",
    "DeviceError",
    "DeviceSpec",
    "LaunchSize",
    "Loader",
    "MatrixUnit",
    "OpenDevice",
    "OutOfMemoryError",
    "PluginError",
    "Probe",
    "Program",
    "RecordedCall",
    "Recording",
    "Renderer",
    "Target",
    "UnsupportedError",
    "hookimpl",
    "offers",
]
