"""`Device`: open devices by name, and the default one.

    Device["CPU"].synchronize()      Device.DEFAULT
"""

from __future__ import annotations

import os
from typing import Final

from core.foundation.settings import origin, settings
from core.plugin.description import DeviceSpec
from core.plugin.opening import OpenedDevice
from core.plugin.registry import registry


class DeviceTable:
    """Devices by name; a name is opened when it is first asked for."""

    def __init__(self) -> None:
        self._default = ""
        self._chosen: dict[str, str] = {}

    def __getitem__(self, name: str) -> OpenDeviceView:
        """The open device of a name such as "CPU", "CUDA:1" or "CUDA::LLVM".

        Raises:
            DeviceError: Unknown, or it cannot be opened; the message says why and what to do.
        """
        return OpenDeviceView(open_device(name))

    @property
    def DEFAULT(self) -> str:  # noqa: N802 - the name that users of this field expect
        """Name of the device that is used where none is named."""
        if self._default:
            return self._default
        found = self._chosen.get(settings.DEV)
        if found is None:
            found = self._chosen[settings.DEV] = registry.default_name()
        return found

    @DEFAULT.setter
    def DEFAULT(self, name: str) -> None:  # noqa: N802
        self._default = canonical(name) if name else ""

    def register(self, spec: DeviceSpec) -> None:
        """Add a device in this process, without installing anything.

        Args:
            spec: As a stub's `core_devices` would describe it; `spec.module` holds the open hooks.

        Raises:
            DeviceError: There is a device of that name, or CORE_DEVICES does not allow it.
            PluginError: Not a description that this core can work with.
        """
        registry.register(spec)
        self._chosen.clear()  # its priority may make it the default

    def names(self) -> list[str]:
        """Names of the devices that could be opened."""
        return registry.names()


class OpenDeviceView:
    """What a program may ask of an open device."""

    def __init__(self, opened: OpenedDevice) -> None:
        self.opened = opened

    @property
    def name(self) -> str:
        """Its canonical name."""
        return self.opened.name

    def synchronize(self) -> None:
        """Return when everything launched on it has finished."""
        self.opened.device.synchronize()

    def __repr__(self) -> str:
        return f"<device {self.opened.name}: {self.opened.target.architecture}>"


_opened: dict[str, OpenedDevice] = {}


def open_device(name: str) -> OpenedDevice:
    """The open device of a name; remembers names, so that a second look costs a dictionary's."""
    found = _opened.get(name)
    if found is None or not (found.target.fork_safe or found.process_id == os.getpid()):
        source = origin("DEV") if name == settings.DEV else ""
        found = _opened[name] = registry.open(name, source)
    return found


def canonical(name: str) -> str:
    """The one spelling of a device's name; opens the device.

    Raises:
        DeviceError: No such device.
    """
    return open_device(name).name


Device: Final = DeviceTable()
