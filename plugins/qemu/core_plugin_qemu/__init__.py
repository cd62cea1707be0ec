"""Emulated processors as devices of core. This stub only describes them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from typing import TYPE_CHECKING

from core.foundation.lazy_import import lazy_import
from core.plugin import Check, DeviceSpec, Probe, hookimpl

if TYPE_CHECKING:
    from importlib import metadata
else:  # 15 ms, for `core doctor` alone
    metadata = lazy_import("importlib.metadata")

#: The first is what `QEMU` alone means: the fastest of them.
VARIANTS = ("aarch64", "riscv64", "hexagon")
_INSTALL = "apt-get install qemu-user"


@hookimpl
def core_devices() -> Sequence[DeviceSpec]:
    """One device with a variant for each instruction set; used only when asked for."""
    return (DeviceSpec(name="QEMU", module="core_plugin_qemu.device", variants=VARIANTS,
                       probe="core_plugin_qemu:probe"),)


def probe() -> Probe:
    """The emulators that are on the path."""
    if not hasattr(os, "memfd_create"):
        return Probe(0, "needs Linux")
    found = [name for name in VARIANTS if shutil.which(f"qemu-{name}")]
    return Probe(len(found), f"qemu-user for {', '.join(found)}" if found else
                 f"no qemu-{VARIANTS[0]} on the path: {_INSTALL}")


@hookimpl
def core_checks(name: str) -> Sequence[Check]:
    """Linux, the emulators with their versions, and the compiler."""
    if name != "QEMU":
        return ()
    system = os.uname().sysname
    rows = [Check("system", hasattr(os, "memfd_create"), system,
                  "qemu-user and shared memory files need Linux")]
    rows += [_check_emulator(f"qemu-{variant}") for variant in VARIANTS]
    try:
        rows.append(Check("llvmlite", True, metadata.version("llvmlite")))
    except metadata.PackageNotFoundError:
        rows.append(Check("llvmlite", False, "not installed", "pip install llvmlite"))
    return rows


def _check_emulator(command: str) -> Check:
    path = shutil.which(command)
    if path is None:
        return Check(command, False, "not on the path", _INSTALL)
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=5,
                              check=False)
    except (OSError, subprocess.SubprocessError) as error:
        return Check(command, False, f"does not start: {error}", _INSTALL)
    said = (done.stdout or done.stderr).strip().splitlines()
    return Check(command, done.returncode == 0, said[0] if said else "says nothing", _INSTALL)
