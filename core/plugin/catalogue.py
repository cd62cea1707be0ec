"""Devices by name: found → described, or failed for a reason that is remembered.

Names come from `discovery`; a stub is imported when one of its devices is first wanted. Whatever
goes wrong with one plugin stays with its own names.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

from core.foundation.errors import CoreError, DeviceError, PluginError
from core.foundation.lazy_import import load
from core.foundation.settings import owner_choice
from core.foundation.user_frame import warn
from core.plugin.description import DeviceSpec
from core.plugin.discovery import BUILT_IN, DEVICE_GROUP, AllowList, Offer, normalized
from core.plugin.hook_calls import hooks_of, implements
from core.plugin.markers import API

#: Devices of the distributions made in core's own repository, for the hint how to install one.
FIRST_PARTY = {"CPU": "cpu", "CUDA": "cuda", "AMD": "amd", "CL": "amd", "WEBGPU": "webgpu",
               "QEMU": "qemu"}


@dataclass(frozen=True)
class Described:
    """A device whose stub has spoken."""

    spec: DeviceSpec
    offer: Offer


@dataclass(frozen=True)
class Failure:
    """Why a device cannot be described; kept so that everyone gets the same answer."""

    message: str
    cure: str
    cause: BaseException | None

    def error(self) -> PluginError:
        """A fresh exception: one raised twice would collect tracebacks."""
        error = PluginError(self.message, cure=self.cure)
        error.__cause__ = self.cause
        return error


class Catalogue:
    """All devices that could be asked for.

    Args:
        offers: Entry points of devices, of every major API number, and built-in ones.
        allow: The setting DEVICES.
        modules: The setting PLUGINS: modules to load as plugins, installed or not.
        add_extension: Receives those of `modules` that describe no device.
    """

    def __init__(
        self,
        offers: Sequence[Offer],
        allow: AllowList,
        modules: Sequence[str] = (),
        add_extension: Callable[[Offer], None] = lambda _offer: None,
    ) -> None:
        self._allow = allow
        self._modules = list(modules)
        self._add_extension = add_extension
        self.offers: dict[str, list[Offer]] = {}
        self.denied: dict[str, Offer] = {}
        self.taken: list[Offer] = []
        self.other_api: dict[str, Offer] = {}
        self.described: dict[str, Described] = {}
        self.failed: dict[str, Failure] = {}
        self._stubs: dict[str, dict[str, DeviceSpec]] = {}
        for offer in offers:
            self._add(offer)

    def _add(self, offer: Offer) -> None:
        """File an offer where `find` looks for it."""
        if offer.group != DEVICE_GROUP:
            return
        if not self._allow.permits(offer.name):
            self.denied[offer.name] = offer
        elif offer.major != API[0]:
            self.other_api.setdefault(offer.name, offer)
        elif offer.name in BUILT_IN and offer.module != BUILT_IN[offer.name]:
            # Nobody can take a built-in device's name: it must work when plugins are broken.
            self.taken.append(offer)
        else:
            self.offers.setdefault(offer.name, []).append(offer)

    def names(self) -> list[str]:
        """Every device name that could be described, in order."""
        self._load_modules()
        return sorted(self.offers)

    def add(self, spec: DeviceSpec, source: str) -> None:
        """Add a device that is described in this process.

        Raises:
            DeviceError: The name is taken, or CORE_DEVICES does not allow it.
            PluginError: The description is not acceptable.
        """
        self._load_modules()
        spec = described_device(spec, "Device.register()")
        name = spec.name
        if name in self.offers:
            raise DeviceError(f"there is a device {name} already", cure="choose another name")
        if not self._allow.permits(name):
            raise _not_allowed(name, "")
        offer = Offer(name=name, module=spec.module, distribution=source)
        _check_spec(spec, offer)
        self.offers[name] = [offer]
        self.described[name] = Described(spec, offer)

    def describe_all(self) -> None:
        """Import every stub; what fails is in `failed`, nothing is raised."""
        for name in self.names():
            try:
                self.find(name)
            except CoreError:
                continue

    def find(self, name: str, origin: str = "") -> Described:
        """The description of a device.

        Args:
            name: Name or alias in capitals.
            origin: Where the name came from, for errors: ``"DEV in the environment"``.

        Raises:
            DeviceError: Unknown, or not allowed.
            PluginError: Its plugin is broken, offered twice, or does not fit this core.
        """
        self._load_modules()
        if name in self.described:
            return self.described[name]
        if name in self.failed:
            raise self.failed[name].error()
        if name in self.offers:
            return self._describe(name, self._owner(name))
        asked = f" (asked for by {origin})" if origin else ""
        if name in self.denied:
            raise _not_allowed(name, asked)
        if name in self.other_api:
            raise _wrong_api(name, self.other_api[name], (self.other_api[name].major, 0))
        return self._by_alias(name, asked)

    def _by_alias(self, name: str, asked: str) -> Described:
        """Aliases are known once stubs have spoken, so this costs the import of all of them."""
        self.describe_all()
        meant = [described for described in self.described.values()
                 if name in (alias.upper() for alias in described.spec.aliases)]
        if len(meant) > 1:
            names = sorted(described.spec.name for described in meant)
            raise DeviceError(f"{name}{asked} is another name of {' and of '.join(names)}",
                              cure=f"use one of {', '.join(names)}")
        if meant:
            return meant[0]
        near = difflib.get_close_matches(name, [*self.offers, *self.denied], 1, 0.6)
        if near:
            cure = f"did you mean {near[0]}?"
        elif name in FIRST_PARTY:
            cure = f"install core-plugin-{FIRST_PARTY[name]}"
        else:
            cure = "install its plugin"
        raise DeviceError(
            f"there is no device {name}{asked}; there are {', '.join(sorted(self.offers))}",
            cure=f"{cure}; `core devices` lists what is there",
        )

    def _owner(self, name: str) -> Offer:
        """The one offer for `name`.

        Raises:
            PluginError: Several distributions offer it, and CORE_OWNER_<name> chooses none.
        """
        offers = self.offers[name]
        if len({(offer.distribution, offer.module) for offer in offers}) == 1:
            return offers[0]
        choice = owner_choice(name)
        for offer in offers:
            if choice and normalized(offer.distribution) == normalized(choice):
                return offer
        sources = " and ".join(offer.source for offer in offers)
        unknown = f"; CORE_OWNER_{name}={choice} is none of them" if choice else ""
        raise PluginError(
            f"device {name} is offered by {sources}{unknown}",
            cure=f"uninstall one, or set CORE_OWNER_{name}={offers[0].distribution}",
        )

    def _describe(self, name: str, offer: Offer) -> Described:
        """Import the stub and keep what it says about `name`, or why it fails."""
        try:
            specs = self._specs_of(offer)
            if name not in specs:
                raise PluginError(
                    f"its entry point {name} names {offer.module}, which describes "
                    f"{', '.join(specs) or 'no device'}"
                )
            _check_spec(specs[name], offer)
        except KeyboardInterrupt:
            raise
        # A plugin may do anything at import, sys.exit() included; it stays its own problem.
        except BaseException as error:
            self.failed[name] = _failure(name, offer, error)
            raise self.failed[name].error() from error
        described = self.described[name] = Described(specs[name], offer)
        return described

    def _specs_of(self, offer: Offer) -> dict[str, DeviceSpec]:
        """What a stub describes; asked once, though it may stand under several names."""
        if offer.module in self._stubs:
            return self._stubs[offer.module]
        stub = importlib.import_module(offer.module)
        try:
            answers: list[Any] = hooks_of(stub).core_devices()
        except PluginError:
            _check_newer(stub, offer)
            raise
        specs: dict[str, DeviceSpec] = {}
        for answer in answers:
            if not isinstance(answer, (list, tuple)):
                raise PluginError(f"core_devices() returned {answer!r}, not a list of DeviceSpec")
            for given in answer:
                spec = described_device(given, "core_devices()")
                specs[spec.name] = spec
        self._stubs[offer.module] = specs
        return specs

    def _load_modules(self) -> None:
        """Load the modules of CORE_PLUGINS; they take precedence over what is installed."""
        while self._modules:  # one by one: a warning may be an error, and the rest comes later
            module, *self._modules = self._modules
            try:
                if not implements(importlib.import_module(module), "core_devices"):
                    self._add_extension(
                        Offer(name=module.upper(), module=module, distribution="CORE_PLUGINS")
                    )
                    continue
                names = self._specs_of(
                    Offer(name=module.upper(), module=module, distribution="CORE_PLUGINS"))
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # noqa: BLE001 - as in _describe
                warn(
                    f"CORE_PLUGINS: module {module} is left out: {in_words(error)}",
                    "repair it, put its folder on PYTHONPATH, or take it out of CORE_PLUGINS",
                )
                continue
            for name in names:
                offer = Offer(name=name, module=module, distribution=f"{module} (CORE_PLUGINS)")
                if name not in BUILT_IN:  # it takes the place of what is installed
                    self.offers.pop(name, None)
                self._add(offer)


def in_words(error: BaseException) -> str:
    """Kind and first line of an error; a message of core's own stands for itself."""
    if isinstance(error, CoreError):
        return error.message
    try:
        lines = str(error).splitlines()
    except Exception:  # noqa: BLE001 - an exception out of a plugin may be broken itself
        lines = []
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


class OtherApiError(PluginError):
    """A plugin for another plugin API; its message is complete."""


def _failure(name: str, offer: Offer, error: BaseException) -> Failure:
    cure = error.cure if isinstance(error, CoreError) else ""
    if isinstance(error, OtherApiError):
        return Failure(error.message, cure, error)
    wanted = offer.requirement_on_core()
    skew = f" [it asks for {wanted}, this is core {load('core:__version__')}]" if wanted else ""
    return Failure(
        f"device {name} cannot be used: {in_words(error)} ({offer.source}){skew}",
        cure or offer.way_out,
        error,
    )


def _not_allowed(name: str, asked: str) -> DeviceError:
    return DeviceError(
        f"device {name}{asked} is installed, but CORE_DEVICES does not allow it",
        cure=f"add {name.lower()} to CORE_DEVICES, or unset it",
    )


def described_device(given: Any, source: str) -> DeviceSpec:
    """What somebody gave as the description of a device, its name in capitals.

    Raises:
        PluginError: It is none, or its name cannot be written where names of devices are.
    """
    if not isinstance(given, DeviceSpec):
        raise PluginError(f"{source} gave {given!r}, which is no DeviceSpec")
    name = given.name
    if not isinstance(name, str) or not name.strip() or set(name) & set(":, \t\n"):
        raise PluginError(f"DeviceSpec.name is {name!r}, not a name of a device",
                          cure="choose a word without spaces, commas and colons")
    return replace(given, name=name.upper())


def _check_newer(stub: ModuleType, offer: Offer) -> None:
    """Hooks that this core does not know are no mistake of a stub that is made for a newer one."""
    try:
        specs = [spec for spec in stub.core_devices() if isinstance(spec, DeviceSpec)]
        newer = [spec for spec in specs if spec.api > API]
    except Exception:  # noqa: BLE001 - then what was found before counts
        return
    if newer:
        raise _wrong_api(newer[0].name, offer, newer[0].api)


def _check_spec(spec: DeviceSpec, offer: Offer) -> None:
    """Refuse a description that this core cannot work with."""
    api = spec.api
    if not (isinstance(api, tuple) and len(api) == 2 and all(isinstance(n, int) for n in api)):
        raise PluginError(f"DeviceSpec.api is {api!r}, not (major, minor)")
    if api[0] != API[0] or api[1] > API[1]:
        raise _wrong_api(spec.name, offer, api)
    for field, kind in (("module", str), ("probe", str), ("priority", int)):
        if not isinstance(getattr(spec, field), kind):
            raise PluginError(
                f"DeviceSpec.{field} is {getattr(spec, field)!r}, not {kind.__name__}"
            )
    for field in ("variants", "aliases"):
        value = getattr(spec, field)
        # One text would be taken for a sequence of letters.
        if not isinstance(value, (tuple, list)) or not all(isinstance(v, str) for v in value):
            raise PluginError(f"DeviceSpec.{field} is {value!r}, not a tuple of texts")
    if spec.count is not None and (not isinstance(spec.count, int) or spec.count < 1):
        raise PluginError(f"DeviceSpec.count is {spec.count!r}, not None or at least 1")


def _wrong_api(name: str, offer: Offer, api: tuple[int, int]) -> OtherApiError:
    """Say which side is behind."""
    newer = api > API
    if newer:
        cure = f"upgrade core, or install an older {offer.distribution}"
    else:
        cure = f"upgrade {offer.distribution}, or install an older core"
    side = "a newer" if newer else "an older"
    return OtherApiError(
        f"device {name} of {offer.source} needs {side} core: it was written for plugin API "
        f"{api[0]}.{api[1]}, core {load('core:__version__')} offers {API[0]}.{API[1]}",
        cure=cure,
    )
