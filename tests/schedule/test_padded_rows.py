"""A row of scratch has no gate, so it is never a row of a value that is padded where it is read."""

import numpy as np

from core import Tensor


def test_a_padded_sum_is_not_computed_beyond_its_end():
    # REFERENCE raises where an access leaves its storage.
    base = Tensor(np.zeros((3, 4), np.float32), device="REFERENCE")
    index = Tensor(np.array([[0, 1, 1], [0, 0, 2]]), device="REFERENCE")
    source = Tensor(np.ones((2, 3), np.float32), device="REFERENCE")
    added = base.scatter(0, index, source, reduce="add")
    assert added.tolist() == [[2, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 0]]
