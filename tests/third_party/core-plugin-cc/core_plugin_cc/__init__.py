"""The system's C compiler as a device of core. This stub only describes it."""

from core.plugin import DeviceSpec, hookimpl


@hookimpl
def core_devices():
    return [DeviceSpec(name="CC", module="core_plugin_cc.device", count=1)]
