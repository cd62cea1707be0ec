"""Opening one device: ask its hooks, check the answers, bind them into an `OpenedDevice`.

Everything that a launch needs is bound here, and the hook system is dropped; no hook can be asked
per launch, by construction.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import ModuleType, TracebackType
from typing import Any, TypeVar

from core.foundation.errors import CoreError, DeviceError, PluginError
from core.foundation.user_frame import warn
from core.plugin.catalogue import Described, in_words
from core.plugin.description import DeviceSpec
from core.plugin.device_name import canonical_name
from core.plugin.discovery import Offer
from core.plugin.extensions import Extension
from core.plugin.hook_calls import hooks_of
from core.plugin.interfaces import Allocator, Compiler, CopyQueue, Loader, OpenDevice, Renderer
from core.plugin.target import Target

Kind = TypeVar("Kind")


@dataclass(frozen=True, eq=False, kw_only=True)
class OpenedDevice:
    """An open device with everything that its hooks gave; a plain bundle, equal only to itself.

    Attributes:
        name: Canonical name: ``CUDA``, ``CUDA:1``, ``QEMU:riscv64``, ``CUDA::LLVM``.
        spec: The stub's description.
        variant: Index or variant that was opened.
        device: The plugin's handle.
        target: What it can do.
        renderers: All of them, best first.
        renderer: The one in use.
        allocator: Its memory.
        copy_queue: Copies by hardware, or None.
        loaders: A loader by binary format.
        offer: Distribution and version that it comes from.
        extensions: Distribution and version of each extension that was asked; part of cache keys.
        process_id: Process that opened it.
    """

    name: str
    spec: DeviceSpec
    variant: int | str
    device: OpenDevice
    target: Target
    renderers: tuple[Renderer, ...]
    renderer: Renderer
    allocator: Allocator
    copy_queue: CopyQueue | None
    loaders: Mapping[str, Loader]
    offer: Offer
    extensions: tuple[str, ...] = ()
    process_id: int = field(default_factory=os.getpid)

    @property
    def index(self) -> int:
        """The index; 0 for devices with variants."""
        return self.variant if isinstance(self.variant, int) else 0

    @property
    def loader(self) -> Loader:
        """The loader of the renderer in use."""
        return self.loaders[self.renderer.binary_format]

    def with_renderer(self, name: str) -> OpenedDevice:
        """The same device, same memory, with another renderer, which is part of its name.

        Raises:
            DeviceError: It has no such renderer.
        """
        for renderer in self.renderers:
            if renderer.name.upper() == name:
                if renderer.binary_format not in self.loaders:
                    raise PluginError(_no_loader(self.name, self.offer, renderer))
                name = canonical_name(self.spec.name, self.variant, name)
                return replace(self, renderer=renderer, name=name)
        raise DeviceError(
            f"{self.name} has no renderer {name}",
            cure=f"its renderers are {', '.join(r.name for r in self.renderers)}",
        )

    def check_process(self) -> None:
        """Refuse a device that a forked child cannot use.

        Raises:
            DeviceError: Opened before a fork, and its plugin does not survive one.
        """
        if self.process_id != os.getpid() and not self.target.fork_safe:
            raise DeviceError(
                f"{self.name} was opened before this process was forked, and does not survive that",
                cure='start processes by "spawn", or use the device first in the child',
            )


class HookError(Exception):
    """An exception out of a hook, with the hook's name; never leaves this package."""

    def __init__(self, hook: str, error: BaseException) -> None:
        super().__init__(hook)
        self.hook, self.error = hook, error


def open_device(
    described: Described, variant: int | str, extensions: Sequence[Extension]
) -> OpenedDevice:
    """Open a device; when it fails with extensions, once more without them.

    Raises:
        DeviceError: It cannot be opened here and now; a later try may work.
        PluginError: Its plugin gave something that it must not.
    """
    spec, offer = described.spec, described.offer
    modules = [extension.module for extension in extensions]
    try:
        owner = _import(spec.module)
        try:
            opened = _bind(described, variant, owner, modules)
        except HookError as error:
            if not modules:
                raise
            opened = _bind(described, variant, owner, [])  # raises what is the owner's own fault
            culprit = _name_in_traceback(error.error.__traceback__, extensions)
            warn(
                f"{spec.name} was opened without extensions: {error.hook} failed in "
                f"{_in_words(culprit, extensions)}: {in_words(error.error)}",
                culprit.way_out if culprit else "uninstall the one that does it",
            )
            return opened
    except HookError as error:
        raise _explain(spec.name, offer, error) from error.error
    return replace(opened, extensions=tuple(e.offer.source for e in extensions))


def _import(module: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise HookError(f"import {module}", error) from error


def _bind(
    described: Described, variant: int | str, owner: ModuleType, extensions: list[ModuleType]
) -> OpenedDevice:
    """Ask the hooks and check what they give; close the device if anything is wrong.

    Raises:
        HookError: A hook raised, is missing or gave the wrong thing.
    """
    spec = described.spec
    hooks = _ask(hooks_of, "hooks", owner, *extensions)
    opening = _ask(hooks.core_open_device, "core_open_device", spec=spec, variant=variant)
    device = _checked(OpenDevice, opening, "core_open_device")
    try:
        # What is read of the plugin's objects may be a property, and raise like a hook.
        target = _checked(Target, _ask(getattr, "core_open_device", device, "target", None),
                          "core_open_device", "OpenDevice.target: ")
        answers = _ask(hooks.core_renderers, "core_renderers", device=device)
        renderers = _ask(_renderers, "core_renderers", answers)
        allocator = _ask(hooks.core_allocator, "core_allocator", device=device)
        queue = _ask(hooks.core_copy_queue, "core_copy_queue", device=device)
        loaders: dict[str, Loader] = {}
        for binary_format in dict.fromkeys(r.binary_format for r in renderers):
            found = _ask(
                hooks.core_loader, "core_loader", device=device, binary_format=binary_format
            )
            if found is not None:
                loaders[binary_format] = _checked(Loader, found, "core_loader")
        name = canonical_name(spec.name, variant)
        if renderers[0].binary_format not in loaders:
            raise _fail("core_loader", _no_loader(name, described.offer, renderers[0]))
        return OpenedDevice(
            name=name,
            spec=spec,
            variant=variant,
            device=device,
            target=target,
            renderers=renderers,
            renderer=renderers[0],
            allocator=_checked(Allocator, allocator, "core_allocator"),
            copy_queue=None if queue is None else _checked(CopyQueue, queue, "core_copy_queue"),
            loaders=loaders,
            offer=described.offer,
        )
    except BaseException:
        _close_quietly(device)
        raise


def _ask(question: Any, hook: str, *arguments: Any, **options: Any) -> Any:
    try:
        return question(*arguments, **options)
    except (KeyboardInterrupt, HookError):
        raise
    # A hook may do anything, sys.exit() included.
    except BaseException as error:
        raise HookError(hook, error) from error


def _fail(hook: str, message: str, cure: str = "") -> HookError:
    return HookError(hook, PluginError(message, cure=cure))


def _checked(kind: type[Kind], value: object, hook: str, what: str = "") -> Kind:
    """`value`, if it is of the kind that the hook must give."""
    if isinstance(value, kind):
        return value
    if value is None and not what:
        raise _fail(
            hook,
            f"nobody implements {hook}, or it returned None",
            f"return a {kind.__name__} from {hook}, and decorate it with @hookimpl",
        )
    raise _fail(hook, f"{what}{hook} must give a {kind.__name__}, not {type(value).__name__}")


def _renderers(answers: Sequence[Any]) -> tuple[Renderer, ...]:
    """All renderers, best first, each with what core reads of it."""
    hook = "core_renderers"
    found: list[Renderer] = []
    for answer in answers:
        if not isinstance(answer, (list, tuple)):
            raise _fail(hook, f"{hook} must give a list of Renderer, not {type(answer).__name__}")
        found.extend(_checked(Renderer, renderer, hook) for renderer in answer)
    if not found:
        raise _fail(hook, f"nobody implements {hook}, or it gave no renderer")
    for renderer in found:
        for attribute, kind in (("name", str), ("priority", int), ("binary_format", str),
                                ("compiler", Compiler)):
            value = getattr(renderer, attribute, None)
            _checked(kind, value, hook, f"{type(renderer).__name__}.{attribute}: ")
        if getattr(renderer, "code_for_op", None) is None:
            raise _fail(hook, f"{type(renderer).__name__}.code_for_op is not set")
    return tuple(sorted(found, key=lambda renderer: (-renderer.priority, renderer.name)))


def _no_loader(name: str, offer: Offer, renderer: Renderer) -> str:
    return (
        f"nobody loads binaries of format {renderer.binary_format!r}, which the renderer "
        f"{renderer.name} of {name} makes ({offer.source})"
    )


def _close_quietly(device: OpenDevice) -> None:
    """Close after a failure: the failure is what counts, not what closing says."""
    try:
        device.close()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001
        warn(f"closing {type(device).__name__} after a failure failed too: {in_words(error)}")


def _name_in_traceback(
    traceback: TracebackType | None, extensions: Sequence[Extension]
) -> Offer | None:
    """The extension whose code raised; None when none is in the traceback."""
    by_module = {extension.module.__name__: extension.offer for extension in extensions}
    found = None
    while traceback is not None:
        found = by_module.get(str(traceback.tb_frame.f_globals.get("__name__"))) or found
        traceback = traceback.tb_next
    return found


def _in_words(culprit: Offer | None, extensions: Sequence[Extension]) -> str:
    if culprit is not None:
        return f"extension {culprit.name} ({culprit.source})"
    return "one of the extensions " + ", ".join(e.offer.name for e in extensions)


def _explain(name: str, offer: Offer, failure: HookError) -> DeviceError:
    """The error that the user sees: device, plugin, version, hook, cause, cure."""
    error = failure.error
    kind = PluginError if isinstance(error, PluginError) else DeviceError
    cure = error.cure if isinstance(error, CoreError) else ""
    return kind(
        f"device {name} does not open: {in_words(error)} ({offer.source}, in {failure.hook})",
        cure=cure or f"`core doctor {name}` tells more",
    )
