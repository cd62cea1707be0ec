"""The registry: names, opening, variants, renderers, threads, forks, extensions."""

import os
import sys
import threading
import tomllib
from pathlib import Path

import pytest

from core import Context
from core.foundation import events
from core.foundation.errors import CoreWarning, DeviceError, PluginError
from core.plugin import DeviceSpec
from core.plugin.catalogue import FIRST_PARTY
from core.plugin.interfaces import offers


def test_nothing_is_imported_before_it_is_wanted(plugin_folder):
    plugin_folder.good("FOO")
    plugin_folder.good("BAR")
    registry = plugin_folder.registry()
    assert {"FOO", "BAR", "REFERENCE", "NULL"} <= set(registry.names())
    loaded = [name for name in sys.modules if name.startswith(plugin_folder.path.name)]
    assert loaded == []
    registry.open("foo")
    loaded = [name for name in sys.modules if name.startswith(plugin_folder.path.name)]
    assert loaded == [f"{plugin_folder.path.name}_foo_"]


def test_open_binds_everything_and_gives_the_same_object_again(plugin_folder):
    plugin_folder.good("FOO")
    registry = plugin_folder.registry()
    opened = registry.open("foo")
    assert opened is registry.open("FOO:0")
    assert opened is not registry.open("FOO:1")
    assert (opened.name, registry.open("FOO:1").name, registry.open("FOO:1").index) == (
        "FOO", "FOO:1", 1,
    )
    assert opened.renderer is opened.renderers[0]
    assert opened.loader is opened.loaders["sample"]
    assert opened.copy_queue is None
    assert opened.offer.source == "plugin-foo 1.0"
    assert offers(opened.allocator, "host_view")
    assert not offers(opened.allocator, "map")
    assert not offers(opened.loader, "record")


def test_variants_and_aliases(plugin_folder):
    plugin_folder.good("FOO", 'variants=("left", "Right"), aliases=("fu",)')
    registry = plugin_folder.registry()
    assert registry.open("FU").name == "FOO:left"
    assert registry.open("foo:RIGHT").variant == "Right"
    with pytest.raises(DeviceError, match="no variant 'UP'\ncure: its variants are left, Right"):
        registry.open("foo:up")


@pytest.mark.parametrize("text", ["", ":", "FOO:", "FOO::", "A:B:C:D", None, 3])
def test_text_that_is_no_name(plugin_folder, text):
    with pytest.raises(DeviceError, match="is not the name of a device"):
        plugin_folder.registry().open(text)


def test_renderers_are_ordered_and_chosen_by_name(plugin_folder):
    plugin_folder.good("FOO")
    plugin_folder.extension(
        "adds",
        """
        from core.plugin import hookimpl
        from core.testing.sample_device import SampleRenderer

        @hookimpl
        def core_renderers(device):
            return [SampleRenderer("LATE", -1), SampleRenderer("BEST", 5),
                    SampleRenderer("ODD", -2, "odd")]
        """,
    )
    registry = plugin_folder.registry()
    opened = registry.open("FOO")
    assert [r.name for r in opened.renderers] == ["BEST", "SAMPLE", "LATE", "ODD"]
    other = registry.open("FOO::late")
    assert (other.renderer.name, other.device) == ("LATE", opened.device)
    assert registry.open("foo:0:LATE") is other
    assert (opened.name, other.name) == ("FOO", "FOO::LATE")  # what is compiled for it says so
    assert registry.open(other.name) is other
    assert registry.open("foo:2:late").name == "FOO:2:LATE"
    with pytest.raises(DeviceError, match="its renderers are BEST, SAMPLE"):
        registry.open("FOO::NONE")
    with pytest.raises(PluginError, match="nobody loads binaries of format 'odd'"):
        registry.open("FOO::ODD")


def test_unknown_names_say_what_is_close_and_where_the_name_came_from(plugin_folder):
    plugin_folder.good("FOOBAR")
    registry = plugin_folder.registry()
    with pytest.raises(DeviceError, match=r"asked for by DEV.*\n.*did you mean FOOBAR"):
        registry.open("FOBAR", origin="DEV in the environment")
    for name, distribution in (("cpu", "core-plugin-cpu"), ("cl", "core-plugin-amd")):
        with pytest.raises(DeviceError, match=f"cure: install {distribution};"):
            registry.open(name)


def test_the_hints_name_the_devices_of_this_repository():
    folders = (Path(__file__).parents[2] / "plugins").iterdir()
    found = {name: folder.name for folder in folders if (folder / "pyproject.toml").is_file()
             for name in tomllib.loads((folder / "pyproject.toml").read_text())["project"][
                 "entry-points"]["core.plugins.v1"]}
    assert found.items() <= FIRST_PARTY.items()


def test_devices_setting_is_explained(plugin_folder):
    plugin_folder.good("FOO")
    plugin_folder.good("BAR")
    registry = plugin_folder.registry(allow="bar")
    with pytest.raises(DeviceError, match="CORE_DEVICES does not allow it"):
        registry.open("FOO")
    assert registry.open("BAR").name == "BAR"
    assert {row.name: row.status for row in registry.status()}["FOO"] == "not allowed"


@pytest.mark.parametrize("allow", ["-foo,-watch", "bar"])
def test_what_is_not_allowed_is_never_imported(plugin_folder, allow):
    """Not to look the name up, list devices, find a default, or open another one."""
    plugin_folder.broken("FOO", "raise SystemExit('this runs')")
    plugin_folder.extension("watch", "raise SystemExit('this runs too')")
    plugin_folder.good("BAR", "priority=50")
    registry = plugin_folder.registry(allow=allow)
    for name in ("FOO", "NONE"):
        with pytest.raises(DeviceError):
            registry.open(name)
    assert registry.default_name() == "BAR"
    assert registry.open("BAR").extensions == ()
    assert {row.name: row.status for row in registry.status()}["FOO"] == "not allowed"
    assert registry.failed_extensions() == {}
    own = [name for name in sys.modules if name.startswith(plugin_folder.path.name)]
    assert own == [f"{plugin_folder.path.name}_bar_"]


def test_modules_that_are_not_installed(plugin_folder):
    plugin_folder.good("FOO")
    (plugin_folder.path / "not_installed_stub.py").write_text(
        "from core.plugin import DeviceSpec, hookimpl\n"
        "@hookimpl\n"
        "def core_devices():\n"
        "    return [DeviceSpec(name=n, module='core.testing.sample_device')"
        " for n in ('FOO', 'NEW')]\n"
    )
    registry = plugin_folder.registry(modules=("not_installed_stub", "no_such_module_at_all"))
    with pytest.warns(CoreWarning, match="no_such_module_at_all is left out"):
        assert registry.open("new").name == "NEW"
    assert registry.open("FOO").offer.module == "not_installed_stub"


def test_modules_after_one_that_fails_are_loaded_under_strict_too(plugin_folder):
    (plugin_folder.path / "later_stub.py").write_text(
        "from core.plugin import DeviceSpec, hookimpl\n"
        "@hookimpl\n"
        "def core_devices():\n"
        "    return [DeviceSpec(name='LATER', module='core.testing.sample_device')]\n"
    )
    registry = plugin_folder.registry(modules=("no_such_module_at_all", "later_stub"))
    with Context(STRICT=True):
        with pytest.raises(CoreWarning, match="no_such_module_at_all is left out"):
            registry.open("LATER")
        assert registry.open("LATER").name == "LATER"


def test_register_in_this_process(plugin_folder):
    registry = plugin_folder.registry()
    registry.register(DeviceSpec(name="Mine", module="core.testing.sample_device"))
    assert registry.open("mine").offer.distribution == "registered in this process"
    for name in ("MINE", "mine", "null"):
        with pytest.raises(DeviceError, match=f"is a device {name.upper()} already"):
            registry.register(DeviceSpec(name=name, module="x"))
    with pytest.raises(PluginError, match=r"Device.register\(\) gave 'MINE', which is no"):
        registry.register("MINE")
    with pytest.raises(PluginError, match="needs a newer core"):
        registry.register(DeviceSpec(name="NEW", module="x", api=(1, 99)))
    with pytest.raises(DeviceError, match="CORE_DEVICES does not allow it"):
        plugin_folder.registry(allow="-mine").register(DeviceSpec(name="MINE", module="x"))


def test_a_registered_device_may_become_the_default(plugin_folder):
    registry = plugin_folder.registry()
    with pytest.warns(CoreWarning, match="no device plugin installed"):
        assert registry.default_name() == "REFERENCE"
    registry.register(DeviceSpec(name="MINE", module="core.testing.sample_device", priority=50))
    assert registry.default_name() == "MINE"


def test_what_modules_describe_is_allowed_or_not(plugin_folder):
    (plugin_folder.path / "some_stub.py").write_text(
        "from core.plugin import DeviceSpec, hookimpl\n"
        "@hookimpl\n"
        "def core_devices():\n"
        "    return [DeviceSpec(name=n, module='core.testing.sample_device')"
        " for n in ('FOO', 'NULL')]\n"
    )
    registry = plugin_folder.registry(allow="-foo", modules=("some_stub",))
    with pytest.raises(DeviceError, match="CORE_DEVICES does not allow it"):
        registry.open("FOO")
    assert registry.open("NULL").offer.distribution == "core"


def test_an_extension_out_of_a_module_that_is_not_installed(plugin_folder):
    (plugin_folder.path / "some_extension.py").write_text(
        "from core.plugin import hookimpl\n@hookimpl\ndef core_rendrers(): pass\n")
    registry = plugin_folder.registry(modules=("some_extension",))
    with pytest.warns(CoreWarning, match="SOME_EXTENSION .*unknown hook.*did you mean"):
        assert "SOME_EXTENSION" in registry.failed_extensions()


def test_an_alias_of_two_devices_is_refused_in_any_order(plugin_folder):
    plugin_folder.good("FOO", 'aliases=("card",)')
    plugin_folder.good("BAR", 'aliases=("card", "board")')
    for first in ("FOO", "BAR", "BOARD"):
        registry = plugin_folder.registry()
        registry.open(first)
        with pytest.raises(DeviceError, match="CARD is another name of BAR and of FOO"):
            registry.open("card")


def test_threads_get_one_device(plugin_folder):
    plugin_folder.good("FOO")
    plugin_folder.good("BAR")
    registry, opened = plugin_folder.registry(), []
    threads = [
        threading.Thread(target=lambda n=name: opened.append(registry.open(n)))
        for name in ("FOO", "BAR") * 6
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(opened) == 12
    assert len({id(device) for device in opened}) == 2


def test_a_device_may_open_another_one_but_not_itself(plugin_folder):
    plugin_folder.good("FOO")
    template = """
        from core.plugin import DeviceSpec, hookimpl
        from core.testing.sample_device import *
        from core.testing.sample_device import core_renderers, core_allocator, core_loader
        registry = []

        @hookimpl
        def core_devices():
            return [DeviceSpec(name="{name}", module=__name__)]

        @hookimpl
        def core_open_device(spec, variant):
            registry[0].open("{wants}")
            return SampleDevice(spec, variant)
        """
    plugin_folder.broken("OUTER", template.format(name="OUTER", wants="FOO"))
    plugin_folder.broken("SELF", template.format(name="SELF", wants="SELF"))
    registry = plugin_folder.registry()
    for name in ("OUTER", "SELF"):
        registry.describe(name)
        sys.modules[f"{plugin_folder.path.name}_{name}".lower()].registry.append(registry)
    assert registry.open("OUTER").name == "OUTER"
    assert [d.name for d in registry.opened()] == ["FOO", "OUTER"]
    with pytest.raises(PluginError, match="asks for itself"):
        registry.open("SELF")


def test_devices_that_want_each_other_in_two_threads_do_not_wait_for_ever(plugin_folder):
    template = """
        import threading
        from core.plugin import DeviceSpec, hookimpl
        from core.testing.sample_device import *
        from core.testing.sample_device import core_renderers, core_allocator, core_loader
        registry, meeting = [], []

        @hookimpl
        def core_devices():
            return [DeviceSpec(name="{name}", module=__name__)]

        @hookimpl
        def core_open_device(spec, variant):
            try:
                meeting[0].wait(1)  # until the other one is being opened too
            except threading.BrokenBarrierError:
                pass
            registry[0].open("{other}")
            return SampleDevice(spec, variant)
        """
    registry, meeting, found = plugin_folder.registry(), threading.Barrier(2), []
    for name, other in (("LEFT", "RIGHT"), ("RIGHT", "LEFT")):
        plugin_folder.broken(name, template.format(name=name, other=other))
    for name in ("LEFT", "RIGHT"):
        registry.describe(name)
        module = sys.modules[f"{plugin_folder.path.name}_{name}".lower()]
        module.registry.append(registry)
        module.meeting.append(meeting)

    def use(name):
        with pytest.raises(DeviceError, match="asks for itself while it opens") as caught:
            registry.open(name)
        found.append(str(caught.value))

    threads = [threading.Thread(target=use, args=(n,), daemon=True) for n in ("LEFT", "RIGHT")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(found) == 2
    assert registry._openers == registry._waiting == {}


def test_an_extension_may_open_a_device_while_it_is_imported(plugin_folder, monkeypatch):
    plugin_folder.good("FOO")
    plugin_folder.good("BAR")
    registry, before = plugin_folder.registry(), list(events.observers)
    monkeypatch.setattr(sys, "registry_under_test", registry, raising=False)
    plugin_folder.extension("a", "from core.plugin import hookimpl")
    plugin_folder.extension(
        "b",
        """
        import sys
        from core.plugin import hookimpl
        seen = []
        inner = sys.registry_under_test.open("FOO")

        @hookimpl
        def core_event(event):
            seen.append(event.device)
        """,
    )
    try:
        opened = registry.open("BAR")
    finally:
        events.observers[:] = before
    module = sys.modules[f"{plugin_folder.path.name}_extension_b"]
    assert module.inner.extensions == ("extension-a 1.0",)
    assert opened.extensions == ("extension-a 1.0", "extension-b 1.0")
    assert module.seen == ["BAR"]  # watched once, and from then on


def test_a_forked_child_refuses_and_its_locks_are_free(plugin_folder):
    plugin_folder.good("FOO")
    plugin_folder.good("BAR")
    registry = plugin_folder.registry()
    registry.open("FOO")
    held, release = threading.Event(), threading.Event()

    def hold():
        with registry._lock:
            held.set()
            release.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(10)
    child = os.fork()
    if child == 0:  # must end by os._exit, whatever happens
        status = 1
        try:
            registry.open("BAR")
            registry.open("FOO")
        except DeviceError as error:
            status = 0 if "forked" in str(error) else 2
        finally:
            os._exit(status)
    release.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_events_and_a_watching_extension(plugin_folder):
    plugin_folder.good("FOO")
    plugin_folder.extension(
        "watch",
        """
        from core.plugin import hookimpl
        seen = []

        @hookimpl
        def core_event(event):
            seen.append(type(event).__name__)
            raise SystemExit("observers may fail")
        """,
    )
    registry, before = plugin_folder.registry(), list(events.observers)
    try:
        registry.open("FOO")
        registry.open("FOO")
    finally:
        events.observers[:] = before
    module = sys.modules[f"{plugin_folder.path.name}_extension_watch"]
    assert module.seen == ["Opened"]
    assert events.failures.pop("extension WATCH") == 1


def test_close_all(plugin_folder):
    plugin_folder.good("FOO")
    registry = plugin_folder.registry()
    opened = registry.open("FOO")
    registry.close_all()
    assert opened.device.closed == 1
    assert registry.open("FOO") is not opened


def test_one_that_does_not_close_leaves_no_other_open(plugin_folder, monkeypatch):
    plugin_folder.good("FOO")
    plugin_folder.good("BAR")
    registry = plugin_folder.registry()
    first, second = registry.open("FOO"), registry.open("BAR")
    monkeypatch.setattr(first.device, "synchronize", lambda: 1 // 0)
    with pytest.warns(CoreWarning, match="FOO does not close: .*plugin-foo 1.0"):
        registry.close_all()
    assert second.device.closed == 1
