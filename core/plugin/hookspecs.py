"""Every hook of the plugin API, grouped by the moment at which core asks.

A plugin is a module (its *stub*) with functions of these names under `@hookimpl`. Arguments are
passed by keyword; leave out those that you do not need, and add none. *Collect* means that every
plugin asked may answer and all answers are used; *first result* means that the first answer that
is not None is the one.

No hook is asked per launch: core asks while a device opens, binds what it gets and drops the hook
system for this device. Adding a hook needs a decision record that names its first user.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.plugin.markers import hookspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from core.foundation.events import Event
    from core.plugin.description import Check, DeviceSpec
    from core.plugin.interfaces import Allocator, CopyQueue, Loader, OpenDevice, Renderer

# --- describe: implemented in the stub, which imports nothing heavy ------------------------------


@hookspec
def core_devices() -> Sequence[DeviceSpec]:  # type: ignore[empty-body]
    """Collect. Describe every device of this package; pure data, no device is touched.

    Asked once, when one of the package's devices is first wanted or listed. Every entry-point name
    of the package must be among the names described.
    """


@hookspec
def core_checks(name: str) -> Sequence[Check]:  # type: ignore[empty-body]
    """Collect. Rows of ``core doctor NAME``: drivers, libraries, permissions, in order.

    Must work, and say why, when the device cannot open. Runs in a child process with a time limit.

    Args:
        name: The device asked about; answer () for another package's device.
    """


# --- open: implemented in `DeviceSpec.module` and in extensions; asked once per opening ----------


@hookspec(firstresult=True)
def core_open_device(spec: DeviceSpec, variant: int | str) -> OpenDevice:  # type: ignore[empty-body]
    """First result, from the owner only. Make the context and return its handle.

    Args:
        spec: The description that the stub gave.
        variant: A name out of `spec.variants` if it lists any, else the index (0 is the first).

    Raises:
        DeviceError: The device cannot be used; say why, and in `cure` what to do.
    """


@hookspec
def core_renderers(device: OpenDevice) -> Sequence[Renderer]:  # type: ignore[empty-body]
    """Collect. Renderers for this device; the highest priority is the default.

    An extension answers () for devices that it does not know: look at `device.target`.
    """


@hookspec(firstresult=True)
def core_allocator(device: OpenDevice) -> Allocator:  # type: ignore[empty-body]
    """First result. The device's allocator; an extension may wrap it (`wrapper=True`)."""


@hookspec(firstresult=True)
def core_copy_queue(device: OpenDevice) -> CopyQueue | None:
    """First result. Copies by hardware; leave it out, or None, and core copies with a kernel."""


@hookspec(firstresult=True)
def core_loader(device: OpenDevice, binary_format: str) -> Loader | None:
    """First result. Loads binaries of `binary_format`; None when the format is not yours."""


# --- watch: extensions only ----------------------------------------------------------------------


@hookspec
def core_event(event: Event) -> None:
    """Something happened: a device opened, a program was compiled or found, something failed.

    Never per launch. An exception is counted, shown by ``core doctor`` and otherwise ignored.
    """
