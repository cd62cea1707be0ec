"""Data sets that come with core."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Final, NamedTuple

from core.frontend import Tensor
from core.ir import dtypes

_DIGITS: Final = Path(__file__).parent / "data" / "digits.csv.gz"
_SIDE: Final = 8
_WHITE: Final = 16


class Split(NamedTuple):
    """Images to train on and images to test on, with their classes.

    Attributes:
        train_images: (count, channels, height, width) float32 in [0, 1].
        train_labels: (count,) int32.
        test_images: As `train_images`.
        test_labels: As `train_labels`.
    """

    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor


def digits(test_every: int = 5, device: str | None = None) -> Split:
    """1,797 handwritten digits of 8x8 (E. Alpaydin and C. Kaynak, 1998; CC BY 4.0).

    See `core/nn/data/README.md` for their source.

    Args:
        test_every: Images whose index it divides are for testing: 360 of them by default.
        device: Where they live; the default device if None.

    Raises:
        ValueError: `test_every` is below 2.
    """
    if test_every < 2:
        raise ValueError(f"test_every is {test_every}: one of at least 2 images is for testing")
    with gzip.open(_DIGITS, "rt", encoding="ascii") as file:
        rows = [[int(float(value)) for value in line.split(",")] for line in file]
    train = [row for k, row in enumerate(rows) if k % test_every]
    test = rows[::test_every]
    return Split(*_tensors(train, device), *_tensors(test, device))


def _tensors(rows: list[list[int]], device: str | None) -> tuple[Tensor, Tensor]:
    pixels = [value / _WHITE for row in rows for value in row[:-1]]
    images = Tensor(pixels, dtype=dtypes.float32, device=device)
    images = images.reshape(len(rows), 1, _SIDE, _SIDE)
    images.requires_grad = False
    return images, Tensor([row[-1] for row in rows], dtype=dtypes.int32, device=device)
