"""Object code → addresses of functions in this process."""

from __future__ import annotations

import threading
from functools import cache
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from core.foundation.errors import DeviceError
from core.foundation.lazy_import import lazy_import

if TYPE_CHECKING:
    from llvmlite import binding
else:
    binding = lazy_import("llvmlite.binding", "loading code")

_numbers: Final = count()
_lock: Final = threading.Lock()


@cache
def _linker() -> Any:
    """The process's linker. What it loads is laid out and relocated in memory of its own."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding.create_lljit_compiler()


class LoadedObject:
    """An object file in memory: it stays there as long as this lives.

    Args:
        data: The object file.
        names: Functions whose addresses are wanted.

    Raises:
        DeviceError: The file is damaged, for another processor, or lacks a function.
    """

    def __init__(self, data: bytes, *names: str) -> None:
        builder = binding.JITLibraryBuilder().add_object_img(data)
        for name in names:
            builder.export_symbol(name)
        try:
            with _lock:
                self._tracker = builder.link(_linker(), f"object {next(_numbers)}")
        except RuntimeError as error:
            raise DeviceError(f"cannot load {', '.join(names)}: {error}") from error
        self.addresses: dict[str, int] = {name: self._tracker[name] for name in names}


def load_object(data: bytes, *names: str) -> LoadedObject:
    """Load an object file and look functions up in it; see `LoadedObject`."""
    return LoadedObject(data, *names)
