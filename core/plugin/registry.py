"""The registry of devices: from a text such as ``CUDA:1`` to an open device.

This is the door that everything goes through, the built-in devices included. Nothing happens at
import; names are read when one is first wanted, a stub is imported when its device is, the heavy
module when it opens. See `hookspecs` for what is asked when.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from core.foundation import events
from core.foundation.errors import CoreError, PluginError
from core.foundation.lazy_import import lazy_import
from core.foundation.settings import settings
from core.foundation.user_frame import warn
from core.plugin.catalogue import Catalogue, Described, in_words
from core.plugin.choosing import Choice, explicit_choice, implicit_choice
from core.plugin.description import Check, DeviceSpec
from core.plugin.device_name import DeviceName, canonical_name
from core.plugin.discovery import AllowList, built_in_offers, scan
from core.plugin.extensions import Extensions
from core.plugin.opening import OpenedDevice, open_device
from core.plugin.status import DeviceStatus, status_rows

if TYPE_CHECKING:
    from core.plugin import probing
else:
    probing = lazy_import("core.plugin.probing")

_Key = tuple[str, int | str]


class Registry:
    """Devices by name; safe from several threads and re-entrant.

    Args:
        path: Folders to look for plugins in; `sys.path` when None.
        allow: Replaces the setting DEVICES.
        modules: Replaces the setting PLUGINS, as a list.
    """

    def __init__(
        self,
        path: Sequence[str] | None = None,
        allow: str | None = None,
        modules: Sequence[str] | None = None,
    ) -> None:
        self._path = path
        self._allow = AllowList.parse(settings.DEVICES if allow is None else allow)
        named = settings.PLUGINS.split(",") if modules is None else modules
        self._modules = [name.strip() for name in named if name.strip()]
        self._catalogue: Catalogue | None = None
        self._extensions: Extensions | None = None
        self._choice: Choice | None = None
        self._open: dict[_Key, OpenedDevice] = {}
        self._by_text: dict[tuple[_Key, str], OpenedDevice] = {}
        self._make_locks()
        if hasattr(os, "register_at_fork"):
            itself = weakref.ref(self)

            def after_fork() -> None:
                survivor = itself()
                if survivor is not None:
                    survivor._make_locks()

            os.register_at_fork(after_in_child=after_fork)

    def _make_locks(self) -> None:
        """New locks; after a fork the old ones may be held by threads that do not exist here."""
        self._lock = threading.RLock()
        self._gates: dict[_Key, threading.RLock] = {}
        # Threads by their numbers: which one opens a device, and which device one waits for.
        self._openers: dict[_Key, int] = {}
        self._waiting: dict[int, _Key] = {}

    # --- looking names up ------------------------------------------------------------------------

    def _scanned(self) -> tuple[Catalogue, Extensions]:
        """Names of everything installed, read once; the caller holds the lock."""
        if self._catalogue is None or self._extensions is None:
            offers = [*built_in_offers(), *scan(self._path)]
            self._extensions = Extensions(offers, self._allow)
            self._catalogue = Catalogue(offers, self._allow, self._modules, self._extensions.add)
        return self._catalogue, self._extensions

    def names(self) -> list[str]:
        """Names of the devices that could be opened, from metadata alone."""
        with self._lock:
            return self._scanned()[0].names()

    def describe(self, name: str, origin: str = "") -> Described:
        """Description and distribution of a device, by name or alias.

        Raises:
            DeviceError: Unknown or not allowed; `origin` says where the name came from.
            PluginError: Its plugin is broken.
        """
        with self._lock:
            return self._scanned()[0].find(name.upper(), origin)

    def register(self, spec: DeviceSpec) -> None:
        """Add a device in this process, without installing anything.

        Raises:
            DeviceError: The name is taken, or CORE_DEVICES does not allow it.
            PluginError: Not a description that this core can work with.
        """
        with self._lock:
            self._scanned()[0].add(spec, "registered in this process")
            self._choice = None

    # --- opening ---------------------------------------------------------------------------------

    def open(self, text: str, origin: str = "") -> OpenedDevice:
        """Open a device, or return it if it is open already.

        Args:
            text: ``NAME[:INDEX or VARIANT][:RENDERER]``; case does not count.
            origin: Where the text came from, for errors.

        Raises:
            DeviceError: Unknown, or it cannot be opened; the message says why and what to do.
            PluginError: Its plugin breaks the contract.
        """
        name = DeviceName.parse(text)
        described = self.describe(name.name, origin)
        key: _Key = (described.spec.name, name.variant(described.spec))
        opened = self._open.get(key) or self._open_once(key, described)
        opened.check_process()
        if not name.renderer:
            return opened
        chosen = self._by_text.get((key, name.renderer))
        if chosen is None:
            # Two threads may both make one; the first stays, so that devices compare by identity.
            made = opened.with_renderer(name.renderer)
            chosen = self._by_text.setdefault((key, name.renderer), made)
        return chosen

    def _open_once(self, key: _Key, described: Described) -> OpenedDevice:
        """Open under the device's own lock, so that a slow driver holds up nobody else."""
        name, me = canonical_name(*key), threading.get_ident()
        with self._lock:
            gate = self._gates.setdefault(key, threading.RLock())
            extensions = self._scanned()[1].load()
            if self._leads_back_to(me, key):
                raise PluginError(f"device {name} asks for itself while it opens")
            self._waiting[me] = key
        with gate:
            self._waiting.pop(me, None)
            if key in self._open:
                return self._open[key]
            self._openers[key] = me
            start = time.perf_counter()
            try:
                opened = open_device(described, key[1], extensions)
            except CoreError as error:
                events.emit(events.Failed(device=name, stage="open", reason=in_words(error)))
                raise
            finally:
                del self._openers[key]
            self._open[key] = opened
        offer = described.offer
        if events.observers:
            seconds = time.perf_counter() - start
            events.emit(
                events.Opened(
                    device=name,
                    distribution=offer.distribution,
                    version=offer.version,
                    seconds=seconds,
                )
            )
        return opened

    def _leads_back_to(self, thread: int, key: _Key) -> bool:
        """Whether `thread` would wait for itself; the caller holds the lock.

        So it is when it opens this device, or one that this device's opener waits for, and so on.
        """
        wanted: _Key | None = key
        while wanted is not None and wanted in self._openers:
            opener = self._openers[wanted]
            if opener == thread:
                return True
            wanted = self._waiting.get(opener)
        return False

    def opened(self) -> list[OpenedDevice]:
        """Every open device, in order of opening."""
        return list(self._open.values())

    def close_all(self) -> None:
        """Wait for and close every open device; what they gave must not be used any more."""
        with self._lock:
            closing, self._open = self._open, {}
            self._by_text.clear()
        for opened in closing.values():
            if opened.process_id == os.getpid():
                try:
                    opened.device.synchronize()
                    opened.device.close()
                except Exception as error:  # noqa: BLE001 - the others are to be closed too
                    warn(f"{opened.name} does not close: {in_words(error)} ({opened.offer.source})")

    # --- choosing --------------------------------------------------------------------------------

    def default_choice(self) -> Choice:
        """The device to use when none is named, and why; found once, unless DEV names it.

        Warns when nothing is usable but the interpreter, and about plugins that are broken.
        """
        explicit = explicit_choice()
        if explicit is not None:
            return explicit
        with self._lock:
            if self._choice is None:
                self._choice = implicit_choice(self._scanned()[0])
            return self._choice

    def default_name(self) -> str:
        """Canonical text of the default device: ``CPU``, ``CUDA:1``.

        Raises:
            DeviceError: DEV names a device that there is not.
        """
        choice = self.default_choice()
        name = DeviceName.parse(choice.text)
        origin = choice.reason.removeprefix("chosen by ") if choice.explicit else ""
        spec = self.describe(name.name, origin).spec
        return canonical_name(spec.name, name.variant(spec), name.renderer)

    # --- reporting -------------------------------------------------------------------------------

    def status(self, *, renew: bool = False) -> list[DeviceStatus]:
        """One row per device that is installed, whatever state it is in; raises nothing.

        Args:
            renew: Probe again instead of using verdicts from disk.
        """
        with self._lock:
            catalogue, _ = self._scanned()
            catalogue.describe_all()
            return status_rows(catalogue, {key[0] for key in self._open}, renew=renew)

    def checks(self, name: str) -> list[Check]:
        """A plugin's own checks of a device, run in a child process with a time limit.

        Raises:
            DeviceError: There is no such device.
        """
        described = self.describe(name)
        key = described.spec.name
        answer: Any = probing.run_tasks([(key, "checks", described.offer.module, key)])[key]
        if isinstance(answer, dict):
            return [Check("checks of the plugin", passed=False, finding=answer["reason"])]
        return [Check(**row) for row in answer]

    def failed_extensions(self) -> dict[str, str]:
        """Extensions that were left out, with the reason; they are loaded to find out."""
        with self._lock:
            catalogue, extensions = self._scanned()
            catalogue.names()  # modules of CORE_PLUGINS may be extensions
            extensions.load()
            return dict(extensions.failed)


#: The registry of this process.
registry: Final = Registry()
