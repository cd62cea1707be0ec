"""The text by which a device is asked for: ``NAME[:INDEX or VARIANT][:RENDERER]``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.foundation.errors import DeviceError

if TYPE_CHECKING:
    from core.plugin.description import DeviceSpec


@dataclass(frozen=True)
class DeviceName:
    """A device's text in parts; case does not count, so all parts are in capitals.

    Args:
        name: Name or alias of the device: ``CUDA``.
        part: Index or variant: ``1``, ``RISCV64``; empty when not given.
        renderer: Name of a renderer; empty for the device's best one.
    """

    name: str
    part: str = ""
    renderer: str = ""

    @classmethod
    def parse(cls, text: object) -> DeviceName:
        """Split `text`.

        Raises:
            DeviceError: Not of this form.
        """
        parts = [part.strip().upper() for part in text.split(":")] if isinstance(text, str) else []
        if not 1 <= len(parts) <= 3 or not parts[0] or (len(parts) > 1 and not any(parts[1:])):
            raise DeviceError(
                f"{text!r} is not the name of a device",
                cure="write NAME, NAME:INDEX, NAME:VARIANT or NAME::RENDERER, such as CUDA:1",
            )
        return cls(*parts)

    def variant(self, spec: DeviceSpec) -> int | str:
        """The index, or the variant as `spec` spells it; the first one when none is given.

        Raises:
            DeviceError: The device has no such variant or index, or an index is no number.
        """
        if not spec.variants:
            if not self.part or self.part.isdecimal():
                index = int(self.part or 0)
                if spec.count is not None and index >= spec.count:
                    raise DeviceError(
                        f"there is no {spec.name}:{index}: there "
                        + ("is one" if spec.count == 1 else f"are {spec.count}"),
                        cure=f"use {spec.name}",
                    )
                return index
            raise DeviceError(
                f"{spec.name} has no variant {self.part!r}",
                cure=f"an index may follow: {spec.name}:0; a renderer follows two colons: "
                f"{spec.name}::{self.part}",
            )
        if not self.part:
            return spec.variants[0]
        for variant in spec.variants:
            if variant.upper() == self.part:
                return variant
        raise DeviceError(
            f"{spec.name} has no variant {self.part!r}",
            cure=f"its variants are {', '.join(spec.variants)}",
        )


def canonical_name(name: str, variant: int | str, renderer: str = "") -> str:
    """One spelling per device: ``CUDA`` (index 0), ``CUDA:1``, ``QEMU:riscv64``, ``CUDA::LLVM``."""
    device = name if variant == 0 else f"{name}:{variant}"
    if not renderer:
        return device
    return f"{device}:{renderer}" if ":" in device else f"{device}::{renderer}"
