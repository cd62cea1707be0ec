"""Extensions: plugins that own no device but add to devices of others, or watch.

They are loaded once, when the first device opens, ordered by name. One that fails is left out with
a warning; no device depends on it.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Final

from core.foundation import events
from core.foundation.errors import CoreError, PluginError
from core.foundation.user_frame import warn
from core.plugin.catalogue import in_words
from core.plugin.discovery import EXTENSION_GROUP, AllowList, Offer
from core.plugin.hook_calls import hooks_of, implements
from core.plugin.markers import API

#: Hooks that only a device's owner may implement.
_OWNERS_HOOKS: Final = ("core_open_device", "core_devices")


@dataclass(frozen=True)
class Extension:
    """A loaded extension."""

    offer: Offer
    module: ModuleType


class Extensions:
    """The extensions of this process.

    Args:
        offers: Entry points; those of devices are ignored.
        allow: The setting DEVICES, which holds for extensions as well.
    """

    def __init__(self, offers: Sequence[Offer], allow: AllowList) -> None:
        self._offers = [
            offer
            for offer in offers
            if offer.group == EXTENSION_GROUP and allow.permits(offer.name)
        ]
        self._loaded: list[Extension] | None = None
        self.failed: dict[str, str] = {}

    def add(self, offer: Offer) -> None:
        """One more, before any is loaded."""
        self._offers.append(offer)

    def load(self) -> list[Extension]:
        """Every extension that can be used; imported at the first call."""
        if self._loaded is None:
            # An extension that uses a device while it is imported comes here again, and gets those
            # that were loaded before it.
            self._loaded = []
            try:
                for offer in sorted(self._offers, key=lambda offer: offer.name):
                    if offer.module not in (other.offer.module for other in self._loaded):
                        self._loaded.extend(self._load(offer))
            except BaseException:  # a warning that is an error, Ctrl-C: all again the next time
                self._loaded = None
                raise
            self._watch(self._loaded)
        return list(self._loaded)

    def _load(self, offer: Offer) -> list[Extension]:
        """The one extension of an offer; none, and a warning, when it cannot be used."""
        try:
            if offer.major != API[0]:
                raise PluginError(f"it needs plugin API {offer.major}, this core has {API[0]}")
            module = importlib.import_module(offer.module)
            hooks_of(module)
            for hook in _OWNERS_HOOKS:
                if implements(module, hook):
                    raise PluginError(f"an extension must not implement {hook}")
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - a plugin may do anything at import
            self.failed[offer.name] = in_words(error)
            warn(
                f"extension {offer.name} ({offer.source}) is left out: {in_words(error)}",
                error.cure if isinstance(error, CoreError) and error.cure else offer.way_out,
            )
            return []
        return [Extension(offer, module)]

    @staticmethod
    def _watch(extensions: Sequence[Extension]) -> None:
        """Pass events on to those that watch, each apart: one that raises is counted alone."""
        for extension in extensions:
            if implements(extension.module, "core_event"):
                ask = hooks_of(extension.module).core_event

                def observer(event: events.Event, ask: object = ask) -> None:
                    ask(event=event)  # type: ignore[operator]

                observer.__qualname__ = f"extension {extension.offer.name}"
                events.observers.append(observer)
