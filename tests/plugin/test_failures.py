"""Whatever one plugin does wrong, its error names plugin, version, cause and cure, and the
other devices work."""

import warnings

import pytest

from core import Context
from core.foundation.errors import CoreWarning, DeviceError, PluginError

DESCRIBES = """
    from core.plugin import DeviceSpec, hookimpl
    @hookimpl
    def core_devices():
        return [DeviceSpec(name="FOO", module="{module}")]
"""
OPENS = """
    from core.plugin import DeviceSpec, hookimpl
    from core.testing import sample_device
    from core.testing.sample_device import *
    from core.testing.sample_device import (
        core_open_device, core_renderers, core_allocator, core_loader)
    @hookimpl
    def core_devices():
        return [DeviceSpec(name="FOO", module=__name__)]
"""

#: Stub of device FOO, and what its error must say.
BROKEN_STUBS = {
    "import error": ("import no_such_package_at_all", "No module named 'no_such_package_at_all'"),
    "library": ("import ctypes; ctypes.CDLL('libnothere.so')", "OSError: libnothere.so"),
    "exits": ("raise SystemExit(3)", "SystemExit: 3"),
    "newer core": ("from core.plugin import NotInventedYet", "it asks for core>=0.9, this is core"),
    "misspelt hook": (
        DESCRIBES + "\n    @hookimpl\n    def core_alocator(device): pass",
        "unknown hook 'core_alocator'.*\n.*did you mean 'core_allocator'",
    ),
    "wrong argument": (
        DESCRIBES + "\n    @hookimpl\n    def core_allocator(dev): pass",
        "core_allocator takes dev, but core_allocator has device",
    ),
    "undecorated": ("def core_devices(): return []", "core_devices is not decorated"),
    "no list": (
        "from core.plugin import *\n@hookimpl\ndef core_devices(): return DeviceSpec("
        "name='FOO', module='x')",
        "not a list of DeviceSpec",
    ),
    "no spec": (
        "from core.plugin import *\n@hookimpl\ndef core_devices(): return ['FOO']",
        "gave 'FOO', which is no DeviceSpec",
    ),
    "other name": (
        "from core.plugin import *\n@hookimpl\ndef core_devices(): return [DeviceSpec("
        "name='BAR', module='x')]",
        "entry point FOO names .* which describes BAR",
    ),
    "raises": (
        "from core.plugin import *\n@hookimpl\ndef core_devices(): raise OSError('odd')",
        "OSError: odd",
    ),
    "raises what cannot be printed": (
        "class Odd(Exception):\n    def __str__(self): raise OSError\nraise Odd",
        "cannot be used: Odd",
    ),
    "no name": (
        "from core.plugin import *\n@hookimpl\ndef core_devices(): return [DeviceSpec("
        "name='FOO:1', module='x')]",
        "DeviceSpec.name is 'FOO:1', not a name of a device",
    ),
    "one text for a tuple": (
        "from core.plugin import *\n@hookimpl\ndef core_devices(): return [DeviceSpec("
        "name='FOO', module='x', aliases='fu')]",
        "DeviceSpec.aliases is 'fu', not a tuple of texts",
    ),
    "odd count": (
        "from core.plugin import *\n@hookimpl\ndef core_devices(): return [DeviceSpec("
        "name='FOO', module='x', count=0)]",
        "DeviceSpec.count is 0, not None or at least 1",
    ),
    "newer minor": (
        "from core.plugin import *\n@hookimpl\ndef core_devices(): return [DeviceSpec("
        "name='FOO', module='x', api=(1, 99))]",
        "needs a newer core: .*API 1.99.*\n.*upgrade core, or",
    ),
    "older major": (
        "from core.plugin import *\n@hookimpl\ndef core_devices(): return [DeviceSpec("
        "name='FOO', module='x', api=(0, 3))]",
        "needs an older core: .*API 0.3.*\n.*upgrade plugin-foo",
    ),
    "new field": (
        "from core.plugin import *\n@hookimpl\ndef core_devices(): return [DeviceSpec("
        "name='FOO', module='x', sharding=1)]",
        "unexpected keyword argument 'sharding'.*this is core",
    ),
}

#: Device module of FOO, and what its error must say when it opens.
BROKEN_MODULES = {
    "no module": (DESCRIBES.format(module="gone_module"), "No module named 'gone_module'"),
    "hook raises": (
        OPENS + "\n    @hookimpl\n    def core_open_device(): raise DeviceError("
        "'no such card', cure='plug it in')\n    from core.plugin import DeviceError",
        "does not open: no such card .*core_open_device.*\n.*plug it in",
    ),
    "exits": (
        OPENS + "\n    @hookimpl\n    def core_open_device(): raise SystemExit(1)",
        "SystemExit: 1",
    ),
    "no allocator": (OPENS + "\n    del core_allocator", "nobody implements core_allocator"),
    "no opener": (OPENS + "\n    del core_open_device", "nobody implements core_open_device"),
    "no renderer": (
        OPENS + "\n    @hookimpl\n    def core_renderers(): return []", "gave no renderer"
    ),
    "no loader": (
        OPENS + "\n    @hookimpl\n    def core_loader(): return None",
        "nobody loads binaries of format 'sample'",
    ),
    "wrong type": (
        OPENS + "\n    @hookimpl\n    def core_allocator(): return 3",
        "core_allocator must give a Allocator, not int",
    ),
    "wrong renderer": (
        OPENS + "\n    @hookimpl\n    def core_renderers():\n        r = SampleRenderer()\n"
        "        r.compiler = 3\n        return [r]",
        "SampleRenderer.compiler: core_renderers must give a Compiler, not int",
    ),
    "odd priority": (
        OPENS + "\n    @hookimpl\n    def core_renderers(): return [SampleRenderer('A', None), "
        "SampleRenderer('B', 1)]",
        "SampleRenderer.priority: core_renderers must give a int, not NoneType",
    ),
    "property raises": (
        OPENS + "\n    class Lazy(SampleRenderer):\n"
        "        compiler = property(lambda self: open('/no/such/compiler'))\n"
        "    @hookimpl\n    def core_renderers(): return [Lazy()]",
        "FileNotFoundError.*no/such/compiler.*core_renderers",
    ),
    "target raises": (
        OPENS + "\n    class Lazy(OpenDevice):\n        synchronize = None\n"
        "        target = property(lambda self: 1 // 0)\n"
        "    @hookimpl\n    def core_open_device(): return Lazy()",
        "ZeroDivisionError.*core_open_device",
    ),
    "closing exits": (
        OPENS + "\n    class Leaves(SampleDevice):\n        def close(self): raise SystemExit\n"
        "    @hookimpl\n    def core_open_device(spec, variant): return Leaves(spec, variant)\n"
        "    @hookimpl\n    def core_allocator(): raise OSError('first')",
        "OSError: first",
    ),
    "no target": (
        OPENS + "\n    @hookimpl\n    def core_open_device(spec, variant):\n"
        "        d = SampleDevice(spec, variant)\n        del d.target\n        return d",
        "OpenDevice.target: core_open_device must give a Target",
    ),
}


@pytest.mark.parametrize("kind", BROKEN_STUBS)
def test_broken_stub(plugin_folder, kind):
    stub, words = BROKEN_STUBS[kind]
    plugin_folder.broken("FOO", stub, version="1.5", requires="core>=0.9")
    plugin_folder.good("GOOD")
    registry = plugin_folder.registry()
    with pytest.raises(PluginError, match=words) as first:
        registry.open("FOO")
    assert "plugin-foo 1.5" in str(first.value)
    assert "cure: " in str(first.value)
    with pytest.raises(PluginError) as again:
        registry.open("FOO")
    assert str(again.value) == str(first.value)
    assert again.value is not first.value
    assert registry.open("GOOD").name == "GOOD"
    rows = {row.name: row for row in registry.status()}
    assert (rows["FOO"].status, rows["GOOD"].status) == ("failed", "open")
    assert rows["FOO"].version == "1.5"


@pytest.mark.filterwarnings("ignore:closing")  # what failed may not close either
@pytest.mark.parametrize("kind", BROKEN_MODULES)
def test_broken_module_is_tried_again_each_time(plugin_folder, kind):
    stub, words = BROKEN_MODULES[kind]
    plugin_folder.broken("FOO", stub, version="1.5")
    plugin_folder.good("GOOD")
    registry = plugin_folder.registry()
    for _ in range(2):
        with pytest.raises(DeviceError, match=words) as caught:
            registry.open("FOO")
        assert "plugin-foo 1.5" in str(caught.value)
        assert "cure: " in str(caught.value)
    assert registry.open("GOOD").name == "GOOD"


def test_a_failed_opening_closes_the_handle(plugin_folder):
    plugin_folder.broken(
        "FOO",
        OPENS + """
    made = []
    @hookimpl
    def core_open_device(spec, variant):
        made.append(SampleDevice(spec, variant))
        return made[-1]
    @hookimpl
    def core_allocator(): raise MemoryError("none left")
""",
    )
    registry = plugin_folder.registry()
    with pytest.raises(DeviceError, match="MemoryError: none left"):
        registry.open("FOO")
    module = __import__("sys").modules[registry.describe("FOO").offer.module]
    assert [device.closed for device in module.made] == [1]


def test_keyboard_interrupt_passes_and_is_not_remembered(plugin_folder):
    plugin_folder.broken("FOO", "raise KeyboardInterrupt")
    registry = plugin_folder.registry()
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            registry.open("FOO")


def test_collision_names_both_and_owner_chooses(plugin_folder, monkeypatch):
    plugin_folder.good("FOO", distribution="acme-foo")
    plugin_folder.good("FOO", distribution="beta-foo")
    registry = plugin_folder.registry()
    with pytest.raises(PluginError, match=r"acme-foo 1.0 and beta-foo 1.0\ncure: .*CORE_OWNER_FOO"):
        registry.open("FOO")
    assert {row.name: row.status for row in registry.status()}["FOO"] == "offered twice"
    monkeypatch.setenv("CORE_OWNER_FOO", "Beta_Foo")
    assert registry.open("FOO").offer.distribution == "beta-foo"


def test_one_stub_under_two_names_is_one_offer(plugin_folder):
    plugin_folder.install(
        "twin",
        {"FOO": "twin_stub", "BAR": "twin_stub"},
        {
            "twin_stub.py": """
            from core.plugin import DeviceSpec, hookimpl
            asked = []
            @hookimpl
            def core_devices():
                asked.append(1)
                return [DeviceSpec(name=n, module="core.testing.sample_device")
                        for n in ("FOO", "BAR")]
            """
        },
    )
    registry = plugin_folder.registry()
    assert [registry.open(name).name for name in ("FOO", "BAR")] == ["FOO", "BAR"]
    assert __import__("twin_stub").asked == [1]


@pytest.mark.parametrize(("group", "side"), [("v2", "a newer"), ("v0", "an older")])
def test_another_major_is_not_imported(plugin_folder, group, side):
    plugin_folder.broken("FOO", "raise SystemExit", group=f"core.plugins.{group}")
    with pytest.raises(PluginError, match=f"needs {side} core"):
        plugin_folder.registry().open("FOO")


def test_a_built_in_name_cannot_be_taken(plugin_folder):
    plugin_folder.good("NULL")
    registry = plugin_folder.registry()
    offer = registry._scanned()[0].offers["NULL"]
    assert [o.distribution for o in offer] == ["core"]
    assert registry.open("NULL").offer.distribution == "core"
    (row,) = [row for row in registry.status() if row.distribution == "plugin-null"]
    assert (row.status, row.reason) == (
        "failed", "NULL is a device of core itself; choose another name")


FAILING_EXTENSIONS = {
    "import": ("import no_such_package_at_all", "extension BAD .* is left out: ModuleNotFound"),
    "owns": (
        "from core.plugin import hookimpl\n@hookimpl\ndef core_open_device(): return None",
        "must not implement core_open_device",
    ),
    "misspelt": (
        "from core.plugin import hookimpl\n@hookimpl\ndef core_rendrers(): return []",
        "unknown hook",
    ),
    "raises": (
        "from core.plugin import hookimpl\n@hookimpl\ndef core_allocator(): raise OSError('boom')",
        r"core_allocator failed in extension BAD \(extension-bad 1.0\): OSError: boom",
    ),
    "wrong type": (
        "from core.plugin import hookimpl\n@hookimpl\ndef core_renderers(): return [3]",
        "core_renderers failed in one of the extensions BAD, GOOD",
    ),
}


@pytest.mark.parametrize("kind", FAILING_EXTENSIONS)
def test_a_failing_extension_is_left_out(plugin_folder, kind):
    text, words = FAILING_EXTENSIONS[kind]
    plugin_folder.good("FOO")
    plugin_folder.extension("bad", text)
    plugin_folder.extension("good", "from core.plugin import hookimpl")
    registry = plugin_folder.registry()
    with pytest.warns(CoreWarning, match=words) as caught:
        assert registry.open("FOO").allocator is not None
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        registry.open("FOO:1") if kind in ("import", "owns", "misspelt") else None


def test_strict_turns_it_into_an_error(plugin_folder):
    plugin_folder.good("FOO")
    plugin_folder.extension("bad", "import no_such_package_at_all")
    plugin_folder.extension("good", "from core.plugin import hookimpl")
    registry = plugin_folder.registry()
    for _ in range(2):
        with Context(STRICT=True), pytest.raises(CoreWarning, match="left out"):
            registry.open("FOO")
    with pytest.warns(CoreWarning, match="left out"):
        assert registry.open("FOO").extensions == ("extension-good 1.0",)


def test_an_extension_wraps_the_allocator(plugin_folder):
    plugin_folder.good("FOO")
    for name in ("one", "two"):
        plugin_folder.extension(
            name,
            f"""
            from core.plugin import hookimpl
            @hookimpl(wrapper=True)
            def core_allocator(device):
                allocator = yield
                allocator.wrapped = [*getattr(allocator, "wrapped", []), "{name}"]
                return allocator
            """,
        )
    opened = plugin_folder.registry().open("FOO")
    assert opened.allocator.wrapped == ["one", "two"]
    assert opened.extensions == ("extension-one 1.0", "extension-two 1.0")
