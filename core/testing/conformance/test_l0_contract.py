"""L0: the plugin keeps the contract of `core.plugin`: descriptions, objects, errors, processes."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from typing import Any, Final

import numpy as np
import pytest

from core.foundation.errors import CoreError, DeviceError
from core.ir import Op, UOp, dtypes
from core.plugin import API, Target
from core.plugin.description import DeviceSpec
from core.plugin.device_name import DeviceName
from core.plugin.hook_calls import hooks_of
from core.plugin.registry import registry
from core.testing.conformance.bench import Bench
from core.testing.conformance.session import kit_of

_SECONDS: Final = 100
_NONSENSE: Final = "} this is no program {"
#: What a stub may load besides the standard library and its own package.
_LIGHT: Final = ("core.plugin", "core.foundation", "pluggy")
_STUB: Final = """
import json, sys
before = set(sys.modules)
import {module}
print(json.dumps(sorted(set(sys.modules) - before)))
"""
_PROCESS: Final = """
import json, os, sys
from core import Device, Tensor
from core.foundation.errors import DeviceError
name = sys.argv[1]
x = Tensor([1.0, 2.0], device=name) + 1
answer = {"first": x.tolist(), "key": Device[name].opened.renderer.compiler.key}
if hasattr(os, "fork"):
    child = os.fork()
    if not child:
        try:
            os._exit(0 if (x * 3).tolist() == [6.0, 9.0] else 1)
        except DeviceError:
            os._exit(2)
        finally:
            os._exit(3)
    answer["child"] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
answer["after"] = (x * 3).tolist()
print(json.dumps(answer))
"""


def _run_python(text: str, *arguments: str) -> Any:
    """What a program prints as JSON, in a process that finds the modules that this one finds."""
    path = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, "-c", text, *arguments], check=False, capture_output=True, text=True,
        timeout=_SECONDS, env={**os.environ, "PYTHONPATH": path, "CORE_DEBUG": "0"})
    assert done.returncode == 0, f"a fresh process fails:\n{done.stderr[-2000:]}"
    return json.loads(done.stdout.splitlines()[-1])


def _spec(device: str) -> DeviceSpec:
    return registry.describe(DeviceName.parse(device).name).spec


def test_exclusion_list(request: pytest.FixtureRequest) -> None:
    """`conformance.toml` can be read, and every row names a case that there is."""
    assert not kit_of(request.config).fault


def test_description(device: str) -> None:
    """The stub's description is complete and fits this core."""
    spec = _spec(device)
    assert spec.name == spec.name.upper()
    assert spec.name.isidentifier()
    assert spec.api[0] == API[0]
    assert spec.api[1] <= API[1], f"written for API {spec.api}, this core has {API}"
    assert spec.priority <= 100 or spec.probe, "a priority above 100 needs a probe"
    assert len({spec.name, *spec.variants, *spec.aliases}) == 1 + len(
        spec.variants) + len(spec.aliases)


def test_stub_is_light(device: str) -> None:
    """The stub loads the standard library and `core.plugin`, nothing else."""
    module = registry.describe(DeviceName.parse(device).name).offer.module
    own = module.split(".", maxsplit=1)[0]
    allowed = (*_LIGHT, *(sys.stdlib_module_names), module.rpartition(".")[0] or module, module)
    heavy = [name for name in _run_python(_STUB.format(module=module))
             if name not in {"core", own, "core.ir"}
             and not any(name == a or name.startswith(f"{a}.") for a in allowed)]
    assert not heavy, f"importing {module} loads {', '.join(heavy)}"


def test_hooks(device: str) -> None:
    """Every hook is spelt as core spells it, and the mandatory ones are there."""
    spec = _spec(device)
    hooks = hooks_of(importlib.import_module(spec.module))
    for name in ("core_open_device", "core_renderers", "core_allocator", "core_loader"):
        assert getattr(hooks, name).get_hookimpls(), f"{spec.module} implements no {name}"


def test_no_such_variant(device: str) -> None:
    """An index or variant that there is not is refused, and everything goes on."""
    spec = _spec(device)
    wrong = "NO_SUCH_VARIANT" if spec.variants else "9999"  # core writes names in capitals
    with pytest.raises(DeviceError, match=wrong):
        registry.open(f"{spec.name}:{wrong}")


def test_no_such_renderer(device: str) -> None:
    """A renderer that there is not is refused by name."""
    with pytest.raises(DeviceError, match="NO_SUCH_RENDERER"):
        registry.open(f"{_spec(device).name}::NO_SUCH_RENDERER")


def test_opens_once(bench: Bench) -> None:
    """Opening again gives the same device, and says the same of it."""
    again = registry.open(bench.name)
    assert again is bench.opened
    assert again.device.target is bench.opened.target
    assert again.device.synchronize() is None


def test_target(bench: Bench) -> None:
    """The numbers of `Target` make sense."""
    target = bench.opened.target
    assert target.name
    assert target.architecture
    assert target.stage in {"program", "kernel"}
    assert {dtypes.bool, dtypes.int32, dtypes.float32} <= target.dtypes
    assert target.storage_dtypes <= target.dtypes
    assert all(d.bits for d in target.dtypes), "weak dtypes and void are not for devices"
    for number in ("vector_registers", "l1_bytes", "l2_bytes", "cores", "flop_nanoseconds",
                   "dram_byte_nanoseconds", "cache_byte_nanoseconds", "launch_nanoseconds"):
        assert getattr(target, number) > 0, number
    assert target.vector_bytes >= 0
    assert target.vector_bytes & (target.vector_bytes - 1) == 0, "vector_bytes is a power of two"
    assert target.scratch_bytes >= 0
    assert target.max_buffers >= 4, "core's kernels may need 4 buffers"
    assert bench.opened.renderer.name == bench.opened.renderer.name.upper()
    _check_launch_limits(target)


def _check_launch_limits(target: Target) -> None:
    limits = (target.global_limit, target.local_limit, target.local_total)
    assert all(x is None for x in limits) or all(x is not None for x in limits), (
        "global_limit, local_limit and local_total go together")
    if target.global_limit and target.local_limit and target.local_total:
        assert all(n >= 1 for n in (*target.global_limit, *target.local_limit))
        assert max(target.local_limit) <= target.local_total
    if target.has_local:
        assert target.scratch_bytes > 0, "there is work-group memory of no bytes"
    for unit in target.matrix_units:
        assert min(unit.m, unit.n, unit.k, unit.threads) >= 1, unit


def test_renderers(bench: Bench) -> None:
    """Renderers name what they print, and each format has a loader."""
    for renderer in bench.opened.renderers:
        assert set(renderer.code_for_op) <= set(Op)
        assert {Op.ADD, Op.MUL, Op.WHERE, Op.CMPLT, Op.CAST} <= set(renderer.code_for_op)
        assert isinstance(renderer.compiler.key, str)
        assert renderer.binary_format in bench.opened.loaders, f"nothing loads {renderer.name}'s"


def _doubled(bench: Bench, step: float) -> tuple[UOp, np.ndarray[Any, Any]]:
    values = np.arange(5, dtype=np.float32) + np.float32(step)
    return bench.place(values, dtypes.float32) * 2.0, values * 2


def test_program(bench: Bench) -> None:
    """A launch of one kernel: its result, and what it returns with and without waiting."""
    (compiled,) = bench.programs([bench.place(np.ones(5, np.float32), dtypes.float32) + 1.0])
    info, allocator = compiled.arg, bench.opened.allocator
    program = bench.opened.loader.load(info.name, compiled.src[3].arg)
    blocks = [allocator.allocate(20) for _ in info.buffers]
    sizes = [(*size, 1, 1, 1)[:3] for size in (info.global_size, info.local_size or (1,))]
    found = np.zeros(5, np.float32)
    for wait, start in ((False, 0.0), (True, 7.0)):
        values = np.arange(5, dtype=np.float32) + np.float32(start)
        for slot, block in zip(info.buffers, blocks, strict=True):
            if slot not in info.writes:
                allocator.copy_in(block, 0, values.view(np.uint8).data)
        with bench.launching():
            seconds = program(blocks, [], sizes[0], sizes[1], wait)
        assert seconds is None or (wait and seconds >= 0), seconds
        written = blocks[info.buffers.index(info.writes[0])]
        allocator.copy_out(found.view(np.uint8).data, written, 0)
        np.testing.assert_array_equal(found, values + 1)
    bench.opened.device.synchronize()
    for block in blocks:
        allocator.free(block)


def test_several_sources(bench: Bench) -> None:
    """The compiler gives one binary for each text, in order, and none for none."""
    assert bench.opened.renderer.compiler.compile([]) == []
    made = [_doubled(bench, step) for step in (1, 2)]
    other = [value + 1.0 for value, _ in made]
    (first,), (second,) = bench.programs([made[0][0]]), bench.programs([other[1]])
    sources = [program.src[2].arg for program in (first, second)]
    binaries = bench.opened.renderer.compiler.compile(sources)
    assert len(binaries) == 2
    assert all(isinstance(binary, bytes) and binary for binary in binaries)
    for program, binary in zip((first, second), binaries, strict=True):
        bench.opened.loader.load(program.arg.name, binary)
    results = bench.run([made[0][0], other[1]])
    np.testing.assert_array_equal(results[0], made[0][1])
    np.testing.assert_array_equal(results[1], made[1][1] + 1)


def test_text_that_is_no_program(bench: Bench) -> None:
    """Compiling or else loading it says so with an error of core, and the device goes on."""
    compiler, loader = bench.opened.renderer.compiler, bench.opened.loader

    def made() -> list[object]:
        return [loader.load("nonsense", binary) for binary in compiler.compile([_NONSENSE])]

    with pytest.raises(CoreError) as caught:
        made()
    assert str(caught.value).strip()
    value, right = _doubled(bench, 3)
    np.testing.assert_array_equal(bench.run([value])[0], right)


@pytest.mark.parametrize(
    "binary", [b"", b"no binary\n", bytes(4096)], ids=["empty", "text", "zeros"])
def test_bytes_that_are_no_binary(bench: Bench, binary: bytes) -> None:
    """Loading them says so with a `DeviceError`."""
    with pytest.raises(DeviceError):
        bench.opened.loader.load("nothing", binary)


def test_processes(bench: Bench) -> None:
    """A fresh process gets the same compiler key; a forked child works, or is refused in words."""
    answer = _run_python(_PROCESS, bench.name)
    assert answer["first"] == [2.0, 3.0]
    assert answer["after"] == [6.0, 9.0]
    assert answer["key"] == bench.opened.renderer.compiler.key, "the key changes with the process"
    if "child" in answer:
        wanted = 0 if bench.opened.target.fork_safe else 2
        assert answer["child"] == wanted, f"the forked child ended with {answer['child']}"
