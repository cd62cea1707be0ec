"""The digits that come with core."""

import numpy as np
import pytest

from core import dtypes, nn


@pytest.fixture(scope="module")
def digits():
    return nn.datasets.digits(test_every=5)


def test_every_fifth_image_is_for_testing(digits):
    assert digits.train_images.shape == (1437, 1, 8, 8)
    assert digits.test_images.shape == (360, 1, 8, 8)
    assert digits.train_labels.shape == (1437,)
    assert digits.test_labels.shape == (360,)
    # The first ten of the file are 0 to 9; number 0, 5, 10, ... are for testing.
    assert digits.test_labels.tolist()[:3] == [0, 5, 0]
    assert digits.train_labels.tolist()[:8] == [1, 2, 3, 4, 6, 7, 8, 9]


def test_pixels_and_classes(digits):
    images = np.concatenate([digits.train_images.numpy(), digits.test_images.numpy()])
    labels = np.concatenate([digits.train_labels.numpy(), digits.test_labels.numpy()])
    assert digits.train_images.dtype is dtypes.float32
    assert digits.train_labels.dtype is dtypes.int32
    assert (images.min(), images.max()) == (0, 1)
    assert (images * 16 == np.round(images * 16)).all()
    assert digits.test_images.numpy()[0].sum() * 16 == 294
    # Counts of the classes as the repository states them for its test set.
    assert np.bincount(labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    # A one is dark in the middle columns, a zero is not.
    assert images[labels == 1, 0, 3:5, 3:5].mean() > 2 * images[labels == 0, 0, 3:5, 3:5].mean()


def test_another_share(digits):
    other = nn.datasets.digits(test_every=3)
    assert other.test_images.shape[0] == 599
    assert other.test_labels.tolist()[:4] == [0, 3, 6, 9]
    with pytest.raises(ValueError, match="test_every is 1"):
        nn.datasets.digits(test_every=1)


def test_data_are_not_trained(digits):
    assert digits.train_images.requires_grad is False
