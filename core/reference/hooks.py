"""How REFERENCE and NULL open: the hooks of both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from core.foundation.errors import DeviceError
from core.plugin import (
    Allocator,
    DeviceSpec,
    Loader,
    OpenDevice,
    Renderer,
    hookimpl,
)
from core.reference.device import (
    GRAPH_FORMAT,
    ArrayAllocator,
    GraphLoader,
    GraphRenderer,
    ReferenceDevice,
)
from core.reference.null import (
    NULL_FORMAT,
    NullAllocator,
    NullDevice,
    NullLoader,
    NullRenderer,
)


class _Parts(NamedTuple):
    """What a device is made of."""

    renderer: Callable[[], Renderer]
    allocator: Callable[[], Allocator]
    loader: Callable[[], Loader]
    binary_format: str


_DEVICES: Final[dict[str, Callable[[], OpenDevice]]] = {
    "REFERENCE": ReferenceDevice, "NULL": NullDevice}
_PARTS: Final[dict[type[OpenDevice], _Parts]] = {
    ReferenceDevice: _Parts(GraphRenderer, ArrayAllocator, GraphLoader, GRAPH_FORMAT),
    NullDevice: _Parts(NullRenderer, NullAllocator, NullLoader, NULL_FORMAT),
}


@hookimpl
def core_open_device(spec: DeviceSpec, variant: int | str) -> OpenDevice:
    """Open one of them.

    Raises:
        DeviceError: A second one is asked for.
    """
    if variant not in (0, ""):
        raise DeviceError(f"there is no {spec.name}:{variant}: there is one",
                          cure=f"use {spec.name}")
    return _DEVICES[spec.name]()


@hookimpl
def core_renderers(device: OpenDevice) -> Sequence[Renderer]:
    """Text of the IR."""
    parts = _PARTS.get(type(device))
    return (parts.renderer(),) if parts else ()


@hookimpl
def core_allocator(device: OpenDevice) -> Allocator | None:
    """numpy's memory, or none."""
    parts = _PARTS.get(type(device))
    return parts.allocator() if parts else None


@hookimpl
def core_loader(device: OpenDevice, binary_format: str) -> Loader | None:
    """The reader of the device's own format."""
    parts = _PARTS.get(type(device))
    return parts.loader() if parts and binary_format == parts.binary_format else None
