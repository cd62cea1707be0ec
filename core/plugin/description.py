"""What a plugin's stub says about its devices: pure data, no device is touched.

The stub is the module that the entry point names. It imports the standard library and
`core.plugin`, nothing else, so that listing devices stays cheap whatever the device needs.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class DeviceSpec:
    """One device of a plugin, as its stub describes it in `core_devices`.

    Args:
        name: The device's name in capitals, equal to the entry point's name: ``"AMD"``.
        module: Heavy module that holds the open hooks, imported when the device opens; may be
            the stub itself when it is light.
        probe: ``"package.module:function"`` returning `Probe`. Uses only the standard library,
            makes no context, takes under 50 ms. Needed only with a priority above 100. It runs in
            a child process with a time limit, so it may crash or hang without harm.
        api: Plugin API (major, minor) that the plugin was written against.
        priority: Chance to be the default device: the highest whose probe finds hardware is
            taken. 0 means that the device is used only when asked for.
        variants: Names that may follow the colon instead of an index (``"QEMU:riscv64"``); the
            first is the default. Without variants an index may follow.
        aliases: Other names for the device.
        count: How many devices an index may choose from, where that is known before one opens: 1
            for the host itself. core refuses an index beyond; None: `core_open_device` decides.
    """

    name: str
    module: str
    probe: str = ""
    api: tuple[int, int] = (1, 0)
    priority: int = 0
    variants: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    count: int | None = None


@dataclass(frozen=True)
class Probe:
    """A probe's answer: how many devices there are, and what was found or what is missing.

    Args:
        count: Usable devices; 0 when there is none.
        reason: One line: the device's name, or why there is none.
    """

    count: int
    reason: str = ""


@dataclass(frozen=True)
class Check:
    """One row of `core doctor NAME`.

    Args:
        subject: What was looked at: ``"libcuda.so.1"``.
        passed: Whether it is as it should be.
        finding: What was found: ``"driver 550.54"``, ``"not on the library path"``.
        cure: What to do about it, when it did not pass.
    """

    subject: str
    passed: bool
    finding: str
    cure: str = ""
