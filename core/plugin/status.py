"""One row per installed device, for `core devices` and `core doctor`; raises nothing."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.foundation.lazy_import import lazy_import
from core.plugin.catalogue import Catalogue, Described
from core.plugin.discovery import Offer
from core.plugin.markers import API
from core.plugin.verdict import Verdict

if TYPE_CHECKING:
    from core.plugin import probing
else:  # it loads subprocess, hashlib and json, which take long and are rarely needed
    probing = lazy_import("core.plugin.probing")


@dataclass(frozen=True)
class DeviceStatus:
    """What is known about one device.

    Args:
        name: Its name.
        distribution: Where it comes from.
        version: Version of the distribution.
        status: open, ready, no hardware, failed, offered twice, not allowed, needs another core.
        reason: What was found, or what is wrong and what to do.
        priority: Its chance to be the default; 0: only when asked for.
    """

    name: str
    distribution: str
    version: str
    status: str
    reason: str = ""
    priority: int = 0


def status_rows(
    catalogue: Catalogue, opened: Collection[str], *, renew: bool = False
) -> list[DeviceStatus]:
    """Rows for every name in `catalogue`, which has been described as far as it can be."""
    probed = probing.verdicts(catalogue.described.values(), renew=renew)
    rows = [
        _row(offer, "not allowed", "CORE_DEVICES leaves it out")
        for offer in catalogue.denied.values()
    ]
    rows += [
        _row(offer, "failed", f"{offer.name} is a device of core itself; choose another name")
        for offer in catalogue.taken
    ]
    for offer in catalogue.other_api.values():
        if offer.name not in catalogue.offers:
            side = "newer" if offer.major > API[0] else "older"
            rows.append(_row(offer, f"needs {side} core", f"plugin API {offer.major}"))
    for name, offers in catalogue.offers.items():
        if name in catalogue.described:
            described = catalogue.described[name]
            status, reason = _state(described, probed.get(name), is_open=name in opened)
            row = _row(described.offer, status, reason, described.spec.priority)
        elif name in catalogue.failed:
            failure = catalogue.failed[name]
            row = _row(offers[0], "failed", f"{failure.message}; {failure.cure}")
        else:
            sources = " and ".join(offer.source for offer in offers)
            row = _row(offers[0], "offered twice", f"by {sources}: set CORE_OWNER_{name}")
        rows.append(row)
    return sorted(rows, key=lambda row: (-row.priority, row.name))


def _state(described: Described, verdict: Verdict | None, *, is_open: bool) -> tuple[str, str]:
    if is_open:
        return "open", verdict.reason if verdict else ""
    if verdict is None or verdict.count > 0:
        return "ready", verdict.reason if verdict else ""
    if not verdict.fault:
        return "no hardware", verdict.reason
    cure = f"`core doctor {described.spec.name}` asks again; or {described.offer.way_out}"
    return "failed", f"{verdict.reason}; {cure}"


def _row(offer: Offer, status: str, reason: str, priority: int = 0) -> DeviceStatus:
    return DeviceStatus(offer.name, offer.distribution, offer.version, status, reason, priority)
