"""The devices REFERENCE and NULL, as core describes them: the same door as any plugin's."""

from __future__ import annotations

from collections.abc import Sequence

from core.plugin import DeviceSpec, hookimpl


@hookimpl
def core_devices() -> Sequence[DeviceSpec]:
    """Both are used only when asked for; REFERENCE also when there is nothing else."""
    return (
        DeviceSpec(name="REFERENCE", module="core.reference.hooks"),
        DeviceSpec(name="NULL", module="core.reference.hooks"),
    )
