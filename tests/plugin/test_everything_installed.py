"""Whatever plugins are installed here: importing core loads none of them, the default is one."""

import json
import os
import subprocess
import sys
from importlib.metadata import entry_points

import pytest

PLUGINS = {point.name: point.value for point in entry_points(group="core.plugins.v1")}
HEAVY = ("numpy", "llvmlite", "importlib.metadata", "pyopencl", "wgpu", "cuda")


def child(*command, **variables):
    """What a fresh process prints, with no device chosen."""
    inherited = {k: v for k, v in os.environ.items() if k not in ("DEV", "CORE_DEV")}
    done = subprocess.run([sys.executable, *command], env=inherited | variables, check=False,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_core_loads_no_plugin():
    loaded = child("-c", "import core, sys; print(*sys.modules)").split()
    packages = {value.partition(".")[0] for value in PLUGINS.values()}
    assert not packages & set(loaded)
    assert not set(HEAVY) & set(loaded)


def test_every_process_chooses_the_same_default(tmp_path):
    names = {child("-W", "ignore", "-c", "import core; print(core.Device.DEFAULT)",
                   PYTHONHASHSEED=str(seed), CORE_CACHE_DIR=str(tmp_path)) for seed in range(4)}
    assert len(names) == 1
    (default,) = [row["device"] for row in json.loads(child(
        "-m", "core", "devices", "--json", CORE_CACHE_DIR=str(tmp_path))) if row["default"]]
    assert names == {f"{default}\n"}


@pytest.mark.skipif(not PLUGINS, reason="no plugin is installed here, only named by CORE_PLUGINS")
@pytest.mark.parametrize("name", sorted(PLUGINS) or [""])
def test_every_installed_device_is_listed(name):
    rows = {row["device"]: row for row in json.loads(child("-m", "core", "devices", "--json"))}
    assert rows[name]["plugin"]
    assert rows[name]["status"]
