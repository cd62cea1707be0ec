"""What an implementation of the standard says of itself."""

from __future__ import annotations

from typing import Any

from core.array_api.data_types import FLOATS, KINDS
from core.frontend import realization
from core.frontend.conversion import default_float, default_int
from core.ir import DType

_INTERPRETER = "REFERENCE"


class NamespaceInfo:
    """Answers of `__array_namespace_info__`."""

    def capabilities(self) -> dict[str, Any]:
        """What an implementation may leave out: nothing is."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        """The device that is used when none is named."""
        return realization.default_device()

    def default_dtypes(self, *, device: str | None = None) -> dict[str, DType]:
        """The dtypes of Python numbers and of indices; there are no complex ones."""
        return {"real floating": default_float(), "integral": default_int(),
                "indexing": default_int()}

    def devices(self) -> list[str]:
        """The default device, and the one that is always there."""
        return list(dict.fromkeys((realization.default_device(), _INTERPRETER)))

    def dtypes(
        self, *, device: str | None = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, DType]:
        """The standard's dtypes by name, of some kinds only if given.

        Raises:
            ValueError: There is no kind of that name.
        """
        wanted = ("bool", "numeric") if kind is None else kind
        kinds = wanted if isinstance(wanted, tuple) else (wanted,)
        for name in kinds:
            if name not in KINDS:
                raise ValueError(f"there is no kind {name!r} of dtypes")
        return {d.name: d for name in kinds for d in KINDS[name]
                if not d.is_float or d in FLOATS}


def __array_namespace_info__() -> NamespaceInfo:  # noqa: N807 - the standard's name
    """The answers."""
    return NamespaceInfo()
