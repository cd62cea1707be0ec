"""`Device`: devices by name, the default, devices registered in this process, forked children."""

import os

import numpy as np
import pytest

from core import Device, Tensor
from core.foundation.errors import CoreWarning, DeviceError, PluginError
from core.plugin import DeviceSpec
from core.plugin.registry import Registry
from core.runtime import device as device_module
from core.runtime.device import DeviceTable


@pytest.fixture
def table(plugin_folder, monkeypatch):
    """A table of its own over a registry of its own."""
    monkeypatch.setattr(device_module, "registry", plugin_folder.registry())
    monkeypatch.setattr(device_module, "_opened", {})
    return DeviceTable()


def test_a_registered_device_opens_and_may_become_the_default(table):
    with pytest.warns(CoreWarning, match="no device plugin installed"):
        assert table.DEFAULT != "MINE"
    table.register(DeviceSpec(name="mine", module="core.testing.sample_device", priority=50))
    assert table["MINE"].name == "MINE"
    assert "MINE" in table.names()
    assert table.DEFAULT == "MINE"
    with pytest.raises(DeviceError, match="there is a device MINE already"):
        table.register(DeviceSpec(name="MINE", module="core.testing.sample_device"))
    with pytest.raises(PluginError, match="which is no DeviceSpec"):
        table.register("core.testing.sample_device")


def test_a_registered_device_that_does_not_open_says_whose_it_is(table):
    table.register(DeviceSpec(name="MINE", module="no_such_module_at_all"))
    with pytest.raises(DeviceError, match=r"no_such_module_at_all.*registered in this process"):
        table["MINE"]


def test_a_forked_child_reads_the_registry_no_more_than_its_parent(device):
    if not Device[device].opened.target.fork_safe:
        pytest.skip(f"{device} says that it does not survive a fork")
    x = Tensor(np.arange(4, dtype=np.float32), device=device).realize()
    (x + 1).realize()
    child = os.fork()
    if child == 0:  # must end by os._exit, whatever happens
        status = 1
        try:
            asked = []
            Registry.open = lambda *arguments: asked.append(arguments)
            found = (x + 1).tolist()
            status = 0 if (found, asked) == ([1, 2, 3, 4], []) else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
