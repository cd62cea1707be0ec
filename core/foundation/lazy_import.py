"""The one place for late imports: third-party modules at first use, public names at first access.

`import core` must stay cheap, yet ruff forbids imports inside functions (PLC0415), because those
hide what a module depends on. Both wishes meet here: the dependency is declared at the top of the
file and paid for when it is used.

    if TYPE_CHECKING:
        import numpy
    else:
        numpy = lazy_import("numpy")
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any


class LazyModule(ModuleType):
    """Stands for a module that is imported when one of its attributes is first read."""

    def __init__(self, name: str, needed_for: str = "") -> None:
        super().__init__(name)
        self.__dict__["_needed_for"] = needed_for

    def __getattr__(self, attribute: str) -> Any:
        """Import the module, then read the attribute and keep it for the next time."""
        name = self.__name__
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as error:
            needed_for = self.__dict__["_needed_for"]
            if not needed_for or error.name is None or not name.startswith(error.name):
                raise
            message = f"{needed_for} needs the package {error.name!r}: pip install {error.name}"
            raise ModuleNotFoundError(message, name=error.name) from error
        value = getattr(module, attribute)
        self.__dict__[attribute] = value
        return value

    def __repr__(self) -> str:
        """Name and state, without importing anything."""
        state = "loaded" if self.__name__ in sys.modules else "not loaded"
        return f"<lazy module {self.__name__!r}, {state}>"


def lazy_import(name: str, needed_for: str = "") -> ModuleType:
    """A stand-in for module `name`, imported when an attribute of it is first read.

    Args:
        name: Full module name, such as ``"llvmlite.binding"``.
        needed_for: What asks for it; named in the error when it is not installed.

    Returns:
        The module itself if it is loaded already, else a `LazyModule`.
    """
    loaded = sys.modules.get(name)
    return loaded if loaded is not None else LazyModule(name, needed_for)


def load(place: str) -> Any:
    """Import what ``"package.module"`` or ``"package.module:name"`` names and return it.

    Raises:
        ImportError: No such module, or it has no such name.
    """
    module_name, _, attribute = place.partition(":")
    module = importlib.import_module(module_name)
    if not attribute:
        return module
    try:
        return getattr(module, attribute)
    except AttributeError:
        raise ImportError(f"module {module_name!r} has no name {attribute!r}") from None


def lazy_names(
    package: str, places: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` for a package whose public names load on first use (PEP 562).

    Args:
        package: `__name__` of the package.
        places: Public name to ``"module"`` or ``"module:name"``.
    """

    def get_attribute(name: str) -> Any:
        place = places.get(name)
        if place is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = load(place)
        setattr(sys.modules[package], name, value)
        return value

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *places})

    return get_attribute, list_names
