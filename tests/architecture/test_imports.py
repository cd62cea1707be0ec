"""Every module can be imported first and alone, and importing core loads nothing heavy."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import core

PACKAGE = Path(core.__file__).parent
#: Needs an optional package, or runs something when imported.
LEFT_OUT = {"core.__main__"}
#: What `import core` may never load; each costs tens of milliseconds.
HEAVY = ("numpy", "llvmlite", "importlib.metadata", "pluggy", "click", "rich", "inspect")


def modules():
    for file in sorted(PACKAGE.rglob("*.py")):
        parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if name not in LEFT_OUT:
            yield name


def loaded_after(statement):
    """Names of modules in a fresh process after a statement."""
    code = f"{statement}; import sys, json; print(json.dumps(sorted(sys.modules)))"
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return set(json.loads(result.stdout))


def test_import_core_is_light():
    loaded = loaded_after("import core")
    assert sorted(loaded & set(HEAVY)) == []
    own = sorted(name for name in loaded if name.partition(".")[0] == "core")
    assert own == ["core", "core.foundation", "core.foundation.lazy_import"]


def test_a_stub_loads_no_numpy_and_no_compiler():
    loaded = loaded_after("import core.plugin")
    assert "numpy" not in loaded
    assert sorted(name for name in loaded if name.startswith(("core.ir", "core.compiler"))) == []


#: One process imports many modules, each after forgetting the ones before: a process for each
#: would take a minute.
ALONE = """
import importlib, sys, traceback
own = lambda: [n for n in sys.modules if n == "core" or n.startswith("core.")]
for name in sys.argv[1:]:
    for loaded in own():
        del sys.modules[loaded]
    try:
        importlib.import_module(name)
    except Exception:
        print(name, traceback.format_exc(limit=-3))
"""


def test_every_module_imports_alone():
    names = [name for name in modules() if not name.startswith("core.testing.conformance")]
    assert len(names) > 30
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", ALONE, *names],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.stdout, result.returncode) == ("", 0), result.stderr


@pytest.mark.parametrize("name", core.__all__)
def test_public_names_exist(name):
    assert getattr(core, name) is not None
    assert name in dir(core)


def test_unknown_public_name():
    with pytest.raises(AttributeError, match="has no attribute 'tensor'"):
        _ = core.tensor
