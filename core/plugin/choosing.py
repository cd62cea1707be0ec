"""Which device is used when the program names none.

``DEV`` decides if it is set: that is an explicit choice and is neither probed nor replaced.
Otherwise the highest priority wins whose hardware is there; only priorities above 100 are probed.
With nothing else the built-in interpreter is used, with a warning: never a silent fallback.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from core.foundation.lazy_import import lazy_import
from core.foundation.settings import origin, settings
from core.foundation.user_frame import warn
from core.plugin.catalogue import Catalogue
from core.plugin.discovery import BUILT_IN
from core.plugin.verdict import Verdict

if TYPE_CHECKING:
    from core.plugin import probing
else:  # it loads subprocess, hashlib and json, which take long and are rarely needed
    probing = lazy_import("core.plugin.probing")

#: Devices of this priority or less are there whenever their plugin is.
ALWAYS_PRESENT: Final = 100
_LAST_RESORT: Final = "REFERENCE"


@dataclass(frozen=True)
class Choice:
    """The default device.

    Args:
        text: As it is to be opened.
        reason: Why this one, in words.
        explicit: The user chose it.
    """

    text: str
    reason: str
    explicit: bool = False


def explicit_choice() -> Choice | None:
    """What the setting DEV says; None when it is not set."""
    if not settings.DEV:
        return None
    return Choice(settings.DEV, f"chosen by {origin('DEV')}", explicit=True)


def implicit_choice(catalogue: Catalogue) -> Choice:
    """The best device that is there."""
    catalogue.describe_all()
    _warn_of_broken(catalogue)
    candidates = sorted(
        (d for d in catalogue.described.values() if d.spec.priority > 0),
        key=lambda described: (-described.spec.priority, described.spec.name),
    )
    uncertain = [d for d in candidates if d.spec.priority > ALWAYS_PRESENT]
    probed = probing.verdicts(uncertain) if uncertain else {}
    passed_over: list[str] = []
    for described in candidates:
        spec = described.spec
        if spec.priority <= ALWAYS_PRESENT:
            verdict = Verdict(1)
        else:
            verdict = probed.get(spec.name, Verdict(0, "its plugin has no probe", fault=True))
        if verdict.count > 0:
            reason = f"highest priority ({spec.priority}) of what is usable"
            return Choice(spec.name, "; ".join([reason, *passed_over]))
        if verdict.fault:
            warn(
                f"device {spec.name} is passed over: {verdict.reason} ({described.offer.source})",
                f"`core doctor {spec.name}` asks again; or {described.offer.way_out}",
            )
        passed_over.append(f"{spec.name}: {verdict.reason}")
    missing = "no installed device is usable" if candidates else "no device plugin installed"
    warn(
        f"{missing}: using the slow interpreter",
        "pip install core-plugin-cpu, or set DEV=REFERENCE to choose it",
    )
    return Choice(_LAST_RESORT, "; ".join(["nothing else is usable", *passed_over]))


def _warn_of_broken(catalogue: Catalogue) -> None:
    """A plugin that cannot even be described might have been the user's choice: say so."""
    for name in catalogue.names():
        if name in catalogue.failed:
            warn(catalogue.failed[name].message, catalogue.failed[name].cure)
        elif name not in catalogue.described and name not in BUILT_IN:
            offers = " and ".join(offer.source for offer in catalogue.offers[name])
            warn(f"device {name} is passed over: offered by {offers}", f"set CORE_OWNER_{name}")
