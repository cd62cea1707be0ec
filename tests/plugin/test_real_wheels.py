"""Broken plugins as wheels that pip installs: core, the command line and other devices work on."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from core.testing.fresh_environment import FreshEnvironment
from core.testing.wheels import EXTENSIONS, Wheel, pip_install

DESCRIBES = """
from core.plugin import *
@hookimpl
def core_devices():
    return [DeviceSpec(name="{name}", module="{module}"{details})]
"""
OPENS = """
from core.testing.sample_device import *
from core.testing.sample_device import (
    core_open_device, core_renderers, core_allocator, core_loader)
"""


def stub(name, module="core.testing.sample_device", details=""):
    return DESCRIBES.format(name=name, module=module, details=details)


def plugin(name, text, module="", **details):
    """A wheel of one device whose stub is `text`, beside a module for what opens it."""
    package = f"made_up_{name.lower()}"
    files = {f"{package}/__init__.py": text, f"{package}/device.py": module}
    return Wheel(f"core-plugin-{name.lower()}", {name: package}, files, version="1.5", **details)


def opening(name, module):
    return plugin(name, stub(name, f"made_up_{name.lower()}.device"), OPENS + module)


def probing(name, probe):
    text = f"import os, signal, time\n{stub(name, details=', priority=300, probe=PROBE')}"
    package = f"made_up_{name.lower()}"
    text = text.replace("PROBE", f"'{package}:probe'")
    return plugin(name, f"{text}\ndef probe():\n    {probe}\n")


#: Wheels of each kind, and words of its message when FOO is opened, or probed if it says so.
KINDS = {
    "import error": (plugin("FOO", "import no_such_package"), "No module named 'no_such_package'"),
    "library missing": (
        plugin("FOO", "import ctypes; ctypes.CDLL('libnothere.so')"), "OSError: libnothere.so"),
    "exits at import": (plugin("FOO", "raise SystemExit(3)"), "SystemExit: 3"),
    "probe hangs": (probing("FOO", "time.sleep(600)"), "did not answer"),
    "probe crashes": (probing("FOO", "os.kill(os.getpid(), signal.SIGSEGV)"), "SIGSEGV"),
    "newer API": (plugin("FOO", stub("FOO", details=", api=(1, 99)")), "needs a newer core"),
    "newer API that does not import": (
        plugin("FOO", "from core.plugin import NotInventedYet", requires="core>=0.9"),
        "it asks for core>=0.9"),
    "newer major": (plugin("FOO", "raise SystemExit", group="core.plugins.v2"), "a newer core"),
    "older API": (plugin("FOO", stub("FOO", details=", api=(0, 3)")), "needs an older core"),
    "older major": (plugin("FOO", "raise SystemExit", group="core.plugins.v0"), "an older core"),
    "misspelt hook": (
        plugin("FOO", stub("FOO") + "@hookimpl\ndef core_alocator(device): pass\n"),
        "did you mean 'core_allocator'"),
    "wrong argument": (
        plugin("FOO", stub("FOO") + "@hookimpl\ndef core_allocator(dev): pass\n"),
        "core_allocator takes dev"),
    "no allocator": (opening("FOO", "del core_allocator\n"), "nobody implements core_allocator"),
    "wrong type": (
        opening("FOO", "@hookimpl\ndef core_allocator(): return 3\n"),
        "core_allocator must give a Allocator, not int"),
    "entry point to nowhere": (
        Wheel("core-plugin-foo", {"FOO": "nowhere_at_all"}, version="1.5"),
        "No module named 'nowhere_at_all'"),
    "library without devices": (plugin("FOO", ""), "describes no device"),
}
GOOD = plugin("GOOD", stub("GOOD"))
PROBED = [kind for kind in KINDS if kind.startswith("probe")]
#: Wheels of extensions that fail, and words of the warning when GOOD opens.
EXTENSION_KINDS = {
    "raises at import": ("raise OSError('no licence')", "OSError: no licence"),
    "exits at import": ("raise SystemExit(3)", "SystemExit: 3"),
    "needs a module": ("import no_such_package", "No module named 'no_such_package'"),
    "misspelt hook": (
        "from core.plugin import hookimpl\n@hookimpl\ndef core_rendrers(device): pass",
        "did you mean 'core_renderers'"),
    "opens devices": (
        "from core.plugin import hookimpl\n@hookimpl\ndef core_open_device(): pass",
        "must not implement core_open_device"),
    "raises in a hook": (
        "from core.plugin import hookimpl\n@hookimpl\ndef core_allocator(): raise OSError('boom')",
        "core_allocator failed in extension FAILING"),
    "exits in a hook": (
        "from core.plugin import hookimpl\n@hookimpl\ndef core_renderers(): raise SystemExit(4)",
        "core_renderers failed in extension FAILING"),
}
SCRIPT = """
import json, sys, warnings
warnings.simplefilter("ignore")
import core
from core.foundation.errors import CoreError
from core.plugin.registry import registry
messages = {}
for name in sys.argv[1:]:
    try:
        registry.open(name)
        messages[name] = "open"
    except CoreError as error:
        messages[name] = str(error)
sum_ = (core.Tensor([1, 2], device="REFERENCE") + 1).tolist()
print(json.dumps({"messages": messages, "sum": sum_, "extensions": registry.failed_extensions()}))
"""


CHOOSE = """
import json, sys, warnings
from core.plugin.registry import registry
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    assert registry.default_name() != "FOO"
print(json.dumps([str(w.message) for w in caught if "FOO" in str(w.message)]))
"""
WARNINGS = """
import json, warnings
from core.plugin.registry import registry
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    registry.open("GOOD")
print(json.dumps([str(w.message) for w in caught]))
"""


def environment(*folders):
    """Variables of a child that finds these folders beside what this process finds."""
    path = [*map(str, folders), os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, path)),
                         "CORE_PROBE_SECONDS": "2", "CORE_DEV": "REFERENCE"}


def printed(command, variables):
    done = subprocess.run(command, env=variables, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run(command, variables):
    return json.loads(printed(command, variables))


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    folder = tmp_path_factory.mktemp("good")
    pip_install([GOOD.build(folder)], "--target", str(folder / "site"))
    return folder / "site"


def installed(wheel, folder):
    site = folder / "site"
    pip_install([wheel.build(folder)], "--target", str(site))
    return site


@pytest.mark.parametrize("kind", KINDS)
def test_a_broken_device_breaks_nothing_else(kind, good, tmp_path):
    wheel, words = KINDS[kind]
    variables = environment(installed(wheel, tmp_path), good) | {
        "CORE_CACHE_DIR": str(tmp_path / "cache")}
    found = run([sys.executable, "-c", SCRIPT, "FOO", "GOOD"], variables)
    assert found["messages"]["GOOD"] == "open"
    assert found["sum"] == [2, 3]
    rows = {row["device"]: row for row in
            run([sys.executable, "-m", "core", "devices", "--json"], variables)}
    assert rows["GOOD"]["status"] in ("ready", "open", "installed")
    message = found["messages"]["FOO"]
    if kind in PROBED:  # a probe counts where a default is looked for; who names FOO gets it
        assert message == "open"
        assert words in rows["FOO"]["reason"]
        (message,) = run([sys.executable, "-c", CHOOSE], variables | {"CORE_DEV": ""})
        assert "uninstall core-plugin-foo" in message
    else:
        assert "cure: " in message
    assert "core-plugin-foo 1.5" in message
    assert words in message
    assert rows["FOO"]["version"] == "1.5"


def test_the_table_of_devices_with_every_kind_installed(good, tmp_path):
    """`core devices` as people read it, and a default, with one plugin of each kind installed."""
    site = tmp_path / "site"
    wheels = every_kind()
    pip_install([wheel.build(tmp_path) for wheel in wheels], "--target", str(site))
    variables = environment(site, good) | {"CORE_CACHE_DIR": str(tmp_path / "cache")}
    table = printed([sys.executable, "-m", "core", "devices"], variables | {"COLUMNS": "250"})
    assert all(name in table for wheel in (*wheels, GOOD) for name in wheel.entries)
    assert "1.5" in table
    chosen = variables | {"CORE_DEV": "GOOD"}  # a broken plugin is no matter for who names another
    assert printed([sys.executable, "-W", "error", "-c",
                    "import core; print(core.Device.DEFAULT)"], chosen) == "GOOD\n"


def test_two_distributions_of_one_name(good, tmp_path):
    one, other = (replace(plugin("FOO", stub("FOO")), distribution=name, entries={"FOO": module},
                          files={f"{module}.py": stub("FOO")})
                  for name, module in (("acme-foo", "acme_foo"), ("beta-foo", "beta_foo")))
    site = tmp_path / "site"
    pip_install([one.build(tmp_path), other.build(tmp_path)], "--target", str(site))
    variables = environment(site, good)
    found = run([sys.executable, "-c", SCRIPT, "FOO", "GOOD"], variables)["messages"]
    assert found["GOOD"] == "open"
    assert "acme-foo 1.5 and beta-foo 1.5" in found["FOO"]
    assert "CORE_OWNER_FOO" in found["FOO"]
    other = run([sys.executable, "-c", SCRIPT, "FOO"], variables | {"CORE_OWNER_FOO": "gamma"})
    assert "CORE_OWNER_FOO=gamma is none of them" in other["messages"]["FOO"]
    found = run([sys.executable, "-c", SCRIPT, "FOO"], variables | {"CORE_OWNER_FOO": "beta-foo"})
    assert found["messages"] == {"FOO": "open"}


def every_kind():
    """The wheels of KINDS, each with names of its own, so that all fit into one environment."""
    wheels = []
    for number, (wheel, _) in enumerate(KINDS.values()):
        name, own = f"FOO{number}", f"made_up_foo{number}"
        (module,) = wheel.entries.values()
        files = {path.replace("made_up_foo", own): text.replace('"FOO"', f'"{name}"').replace(
            "made_up_foo", own) for path, text in wheel.files.items()}
        wheels.append(replace(wheel, distribution=f"core-plugin-foo{number}", files=files,
                              entries={name: module.replace("made_up_foo", own)}))
    return wheels


def test_settings_in_the_environment(good, tmp_path):
    """CORE_DEVICES before any of it runs; CORE_PLUGINS for what is not installed."""
    wheel = plugin("FOO", "raise SystemExit('this runs')")
    (tmp_path / "loose_stub.py").write_text(stub("LOOSE"))
    variables = environment(installed(wheel, tmp_path), good, tmp_path) | {
        "CORE_DEVICES": "-foo", "CORE_PLUGINS": "loose_stub", "CORE_STRICT": "1"}
    found = run([sys.executable, "-c", SCRIPT, "FOO", "GOOD", "LOOSE"], variables)["messages"]
    assert "CORE_DEVICES does not allow it" in found["FOO"]
    assert (found["GOOD"], found["LOOSE"]) == ("open", "open")


RENDERER = """
from core.plugin import hookimpl
from core.testing.sample_device import SampleRenderer

@hookimpl
def core_renderers(device):
    return [SampleRenderer("BETTER", priority=9)] if device.target.name == "GOOD" else []
"""
WRAPPER = """
from core.plugin import hookimpl

@hookimpl(wrapper=True)
def core_allocator(device):
    allocator = yield
    allocator.wrapped = True
    return allocator
"""
OBSERVER = """
from core.plugin import hookimpl
seen = []

@hookimpl
def core_event(event):
    seen.append(type(event).__name__)
"""
LOOK = """
import json, warnings
from core.plugin.registry import registry
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    good = registry.open("GOOD")
import made_up_observer
print(json.dumps({
    "renderers": [r.name for r in good.renderers], "in use": good.renderer.name,
    "wrapped": good.allocator.wrapped, "seen": made_up_observer.seen,
    "extensions": list(good.extensions), "said": [str(w.message) for w in caught],
    "failed": registry.failed_extensions()}))
"""


def extension(name, text):
    return Wheel(f"core-{name}", {name: f"made_up_{name}"}, {f"made_up_{name}.py": text},
                 group=EXTENSIONS)


def test_extensions_add_a_renderer_wrap_an_allocator_watch_and_fail(good, tmp_path):
    wheels = [extension("renderer", RENDERER), extension("wrapper", WRAPPER),
              extension("observer", OBSERVER), extension("failing", "raise OSError('no licence')")]
    site = tmp_path / "site"
    pip_install([w.build(tmp_path) for w in wheels], "--target", str(site))
    found = run([sys.executable, "-c", LOOK], environment(site, good))
    assert found["in use"] == "BETTER"
    assert len(found["renderers"]) == 2
    assert found["wrapped"] is True
    assert "Opened" in found["seen"]
    assert found["extensions"] == ["core-observer 1.0", "core-renderer 1.0", "core-wrapper 1.0"]
    (said,) = found["said"]
    assert "core-failing 1.0" in said
    assert "no licence" in said
    assert "no licence" in found["failed"]["FAILING"]


COUNTER = """
from core.plugin import Allocator, hookimpl
made = []
seen = []

class Counting(Allocator):
    def __init__(self, real):
        self.real = real
        for name in ("free", "copy_in", "copy_out", "view", "map", "host_view"):
            setattr(self, name, getattr(real, name))
    def allocate(self, size_bytes):
        made.append(size_bytes)
        return self.real.allocate(size_bytes)
    def free(self, block): ...
    def copy_in(self, block, offset, source): ...
    def copy_out(self, destination, block, offset): ...
    def view(self, block, offset, size_bytes): ...

@hookimpl(wrapper=True)
def core_allocator(device):
    return Counting((yield))

@hookimpl
def core_event(event):
    seen.append(type(event).__name__)
"""
COUNTED = """
import json, sys
import core, made_up_counter
from core.plugin.registry import registry
x = core.Tensor(list(range(5000)), device=sys.argv[1])
found = [(x * 2 + 1).sum().item(), (x[1:] - x[:-1]).max().item()]
print(json.dumps([found, len(made_up_counter.made), made_up_counter.seen,
                  list(registry.open(sys.argv[1]).extensions)]))
"""


def test_a_wrapped_allocator_serves_real_programs(device, tmp_path):
    site = installed(extension("counter", COUNTER), tmp_path)
    variables = environment(site) | {"CORE_CACHE_DIR": str(tmp_path / "cache")}
    found, made, seen, names = run([sys.executable, "-c", COUNTED, device], variables)
    assert found == [24_995_000 + 5000, 1]
    assert made >= 2
    assert {"Opened", "Compiled"} <= set(seen)
    assert names == ["core-counter 1.0"]


@pytest.mark.parametrize("kind", EXTENSION_KINDS)
def test_a_broken_extension_breaks_no_device(kind, good, tmp_path):
    text, words = EXTENSION_KINDS[kind]
    variables = environment(installed(extension("failing", text), tmp_path), good)
    (message,) = run([sys.executable, "-c", WARNINGS], variables)
    assert words in message
    assert "core-failing 1.0" in message
    assert kind == "misspelt hook" or "uninstall core-failing" in message
    rows = run([sys.executable, "-m", "core", "devices", "--json"], variables)
    assert {row["device"]: row["status"] for row in rows}["GOOD"] == "ready"


@pytest.mark.full
def test_all_of_them_in_one_environment(tmp_path, request):
    """core's wheel and a wheel of every kind, each with a name of its own, in one real venv."""
    root = request.config.rootpath
    place = FreshEnvironment(tmp_path)
    place.install(root)
    wheels = [GOOD, *every_kind(), extension("failing", "raise OSError('no licence')"),
              extension("observer", OBSERVER)]
    python = str(place.programs / "python")
    pip_install([w.build(tmp_path) for w in wheels], python=python)
    names = [f"FOO{number}" for number in range(len(KINDS))]
    found = json.loads(place.check([python, "-c", SCRIPT, "GOOD", *names], DEV="REFERENCE"))
    assert found["messages"]["GOOD"] == "open"
    assert found["sum"] == [2, 3]
    assert "no licence" in found["extensions"]["FAILING"]
    rows = {row["device"]: row for row in json.loads(place.check(
        [python, "-m", "core", "devices", "--json"], DEV="REFERENCE",
        CORE_PROBE_SECONDS="2"))}
    for name, (kind, (_, words)) in zip(names, KINDS.items(), strict=True):
        message = rows[name]["reason"] if kind in PROBED else found["messages"][name]
        assert words in message, kind
        if kind not in PROBED:
            assert f"core-plugin-{name.lower()} 1.5" in message
