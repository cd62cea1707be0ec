"""The version policy: a device written for an older minor number of the API goes on working."""

from dataclasses import MISSING, fields

import pytest

from core.foundation.errors import PluginError
from core.plugin import (
    API,
    Check,
    DeviceSpec,
    MatrixUnit,
    Probe,
    RecordedCall,
    Target,
    catalogue,
    hook_calls,
    hookspecs,
)
from core.plugin.hook_calls import hooks_of
from core.plugin.markers import hookspec
from core.testing import sample_device

#: Fields that a plugin of API 1.0 may give or read; * stands behind those that it must give.
FIRST_FIELDS = {
    DeviceSpec: "name* module* probe api priority variants aliases count",
    Probe: "count* reason",
    Check: "subject* passed* finding* cure",
    MatrixUnit: "name* m* n* k* operand* accumulator* threads",
    Target: """name* architecture* dtypes* storage_dtypes vector_bytes vector_registers l1_bytes
        l2_bytes cores has_threads has_local scratch_bytes max_buffers global_limit local_limit
        local_total fma matrix_units timestamps asynchronous thread_safe fork_safe wide_index pause
        stage""",
}


@pytest.mark.parametrize("kind", FIRST_FIELDS, ids=lambda kind: kind.__name__)
def test_fields_stay_and_new_ones_have_defaults(kind):
    """A field that is gone, or a new one that must be given, needs a new major number."""
    first = {word.rstrip("*"): word.endswith("*") for word in FIRST_FIELDS[kind].split()}
    now = {field.name: field.default is MISSING and field.default_factory is MISSING
           for field in fields(kind)}
    assert {name: now.get(name) for name in first} == first
    assert [name for name in now if name not in first and now[name]] == []


def test_a_recorded_call_keeps_the_order_of_its_items():
    assert RecordedCall._fields[:7] == (
        "program", "blocks", "offsets", "scalars", "items", "share", "meet")


@pytest.fixture
def next_minor(monkeypatch):
    """This core as if it offered the next minor number, which has one more hook."""

    def core_power(device):
        """Collect. Watts that the device may take."""

    hookspec(core_power)
    monkeypatch.setattr(hookspecs, "core_power", core_power, raising=False)
    monkeypatch.setitem(hook_calls.HOOKS, "core_power", ("device",))
    monkeypatch.setattr(catalogue, "API", (API[0], API[1] + 1))


POWER = """
from core.plugin import DeviceSpec, hookimpl
from core.testing.sample_device import *
from core.testing.sample_device import (
    core_open_device, core_renderers, core_allocator, core_loader)

@hookimpl
def core_devices():
    return [DeviceSpec(name="FOO", module=__name__, api={api})]

@hookimpl{options}
def core_power(device):
    return 300
"""


@pytest.mark.parametrize("details", ["", f"api={API}", "api=(1, 0)"])
def test_a_device_for_an_older_minor_opens(plugin_folder, next_minor, details):
    plugin_folder.good("FOO", details)
    assert plugin_folder.registry().open("FOO").name == "FOO"
    assert hooks_of(sample_device).core_power(device=None) == []


def test_a_device_for_the_next_minor_needs_that_core(plugin_folder):
    plugin_folder.broken("FOO", POWER.format(api=(API[0], API[1] + 1), options=""))
    with pytest.raises(PluginError, match="needs a newer core.*\n.*upgrade core, or") as caught:
        plugin_folder.registry().open("FOO")
    assert "plugin-foo 1.0" in str(caught.value)
    plugin_folder.broken("BAR", POWER.format(api=API, options="").replace("FOO", "BAR"))
    with pytest.raises(PluginError, match="unknown hook 'core_power'"):
        plugin_folder.registry().open("BAR")


@pytest.mark.parametrize("is_next", [False, True])
def test_a_device_may_work_with_both(plugin_folder, request, is_next):
    """A hook marked as optional is left alone by a core that does not know it."""
    if is_next:
        request.getfixturevalue("next_minor")
    plugin_folder.broken("FOO", POWER.format(api=API, options="(optionalhook=True)"))
    registry = plugin_folder.registry()
    opened = registry.open("FOO")
    assert opened.spec.api == API
    module = __import__("sys").modules[opened.offer.module]
    if is_next:
        assert hooks_of(module).core_power(device=None) == [300]
