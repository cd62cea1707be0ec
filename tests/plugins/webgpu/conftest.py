"""Opens the first adapter once; without one the tests here are skipped with the reason."""

import pytest

pytest.importorskip("wgpu", reason="the library wgpu is not installed")
pytest.importorskip("core_plugin_webgpu", reason="core-plugin-webgpu is not installed")

import core_plugin_webgpu
from core.plugin import DeviceError
from core.runtime.device import open_device


@pytest.fixture(scope="session")
def opened():
    found = core_plugin_webgpu.probe()
    if not found.count:
        pytest.skip(found.reason)
    try:
        return open_device("WEBGPU")
    except DeviceError as error:
        pytest.skip(f"no adapter opens: {error}")


@pytest.fixture
def device(opened):
    return opened.device
