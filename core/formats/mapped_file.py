"""A file as memory: what all readers of formats start from."""

from __future__ import annotations

import mmap
import os
import sys
from math import prod
from typing import Final

from core.foundation.errors import FormatError, UnsupportedError
from core.frontend import Tensor, realization
from core.ir import DType, dtypes

#: More axes than any format or library has.
LARGEST_RANK: Final = 64

Path = str | os.PathLike[str]


class MappedFile:
    """The bytes of a file, read from the disk when they are looked at.

    The map lives as long as any tensor made of it.
    A file that is replaced by another (as `safe_save` does) stays what it was for the map; one
    that is cut short meanwhile takes the process down at the next look, as any map does.

    Args:
        path: The file.
        format_name: For messages, such as ``"a safetensors file"``.

    Attributes:
        name: The path, as text.
        data: All bytes.

    Raises:
        OSError: It cannot be read.
        FormatError: It is empty.
    """

    def __init__(self, path: Path, format_name: str) -> None:
        if sys.byteorder != "little":
            raise UnsupportedError("files of tensors are little-endian, this machine is not")
        self.name, self.format_name = os.fspath(path), format_name
        with open(path, "rb") as file:
            if not os.fstat(file.fileno()).st_size:
                raise self.error("it is empty")
            self.data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))

    def error(self, what: str) -> FormatError:
        """The error that says what is wrong with this file."""
        return FormatError(f"{self.name!r} is not {self.format_name} that can be read: {what}")

    def part(self, start: int, size: int, what: str) -> memoryview:
        """Some bytes.

        Raises:
            FormatError: They are not all in the file.
        """
        if start < 0 or size < 0 or start + size > len(self.data):
            raise self.error(f"{what} would take bytes {start} to {start + size} of "
                             f"{len(self.data)}")
        return self.data[start:start + size]


def tensor_of(
    memory: memoryview, dtype: DType, shape: tuple[int, ...], device: str | None
) -> Tensor:
    """Mapped bytes as a tensor, not read yet.

    Args:
        memory: Row-major, exactly the values.
        dtype: Of the elements.
        shape: Dimensions.
        device: Where the values are wanted; the default device if None.
    """
    assert len(memory) == prod(shape) * dtype.itemsize
    place = (realization.default_device() if device is None
             else realization.device_name(device))
    if dtype is dtypes.bool:  # a file may hold any byte where 0 and 1 belong
        value = realization.storage_of_memory(memory, dtypes.uint8, shape, place)
        return Tensor(value.cast(dtype))
    return Tensor(realization.storage_of_memory(memory, dtype, shape, place))
