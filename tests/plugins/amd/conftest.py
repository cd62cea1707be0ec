"""Opens the first OpenCL device once; without one the tests here are skipped with the reason."""

import os

import pytest

pytest.importorskip("pyopencl", reason="the library pyopencl is not installed")
pytest.importorskip("core_plugin_amd", reason="core-plugin-amd is not installed")

from core.plugin import DeviceError
from core.runtime.device import open_device


@pytest.fixture(scope="session")
def opened():
    """AMD, on any OpenCL device."""
    before = os.environ.get("CORE_AMD_ANY_OPENCL")
    os.environ["CORE_AMD_ANY_OPENCL"] = "1"
    try:
        return open_device("AMD")
    except DeviceError as error:
        pytest.skip(f"no OpenCL device opens: {error}")
    finally:
        if before is None:
            del os.environ["CORE_AMD_ANY_OPENCL"]
