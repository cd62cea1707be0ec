"""A network on CUDA learns as it does on the default device."""

import os

import numpy as np
import pytest

pytest.importorskip("cuda.bindings", reason="cuda-bindings is not installed")
pytest.importorskip("core_plugin_cuda", reason="core-plugin-cuda is not installed")

from core import Device, Tensor, dtypes
from core.tools.demo import BATCH, Training

os.environ.setdefault("CORE_CUDA_SIMULATOR", "1")


def losses(device, steps):
    """The first losses of the demo's network."""
    before = Device.DEFAULT
    Device.DEFAULT = device
    try:
        training = Training(seed=0, epochs=1)
        batches = (list(range(k * BATCH, (k + 1) * BATCH)) for k in range(steps))
        return [training._step(Tensor(batch, dtype=dtypes.int32)).item() for batch in batches]
    finally:
        Device.DEFAULT = before


@pytest.mark.full
def test_the_demo_learns_as_the_default_device_does():
    np.testing.assert_allclose(losses("CUDA", 5), losses(Device.DEFAULT, 5), rtol=1e-4)
