"""CUDA on its simulator: programs, memory, recordings, and what the plugin says without a card."""

import os
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("cuda.bindings", reason="cuda-bindings is not installed")
pytest.importorskip("core_plugin_cuda", reason="core-plugin-cuda is not installed")

import core_plugin_cuda
from core import Device, Tensor, jit
from core.plugin import CompileError, DeviceError, OutOfMemoryError, RecordedCall
from core.runtime.copies import pair_copy
from core.runtime.device import open_device
from core_plugin_cuda.nvrtc import resources
from core_plugin_cuda.program import CudaLoader, dependencies


@pytest.fixture(scope="session")
def opened():
    before = os.environ.get(core_plugin_cuda.SIMULATOR_VARIABLE)
    os.environ[core_plugin_cuda.SIMULATOR_VARIABLE] = "1"
    try:
        return open_device("CUDA")
    finally:
        if before is None:
            del os.environ[core_plugin_cuda.SIMULATOR_VARIABLE]


def test_it_says_that_it_is_a_simulator(opened):
    assert "simulator" in repr(Device["CUDA"])
    assert opened.target.architecture == "sm_80 simulator"


def test_the_simulator_is_never_the_implicit_default(monkeypatch):
    monkeypatch.setenv(core_plugin_cuda.SIMULATOR_VARIABLE, "1")
    assert core_plugin_cuda.probe().count == 0


@pytest.mark.parametrize(("reason", "missing"), [
    ("no driver library: libcuda.so.1", "library"), ("the driver finds no device", "device"),
    ("the driver is too old", "driver")])
def test_what_is_missing_is_said_plainly(monkeypatch, reason, missing):
    def absent():
        raise core_plugin_cuda.DriverMissingError(reason, missing)

    monkeypatch.delenv(core_plugin_cuda.SIMULATOR_VARIABLE, raising=False)
    monkeypatch.setattr(core_plugin_cuda, "count_devices", absent)
    assert core_plugin_cuda.probe().count == 0
    assert reason in core_plugin_cuda.probe().reason
    row = core_plugin_cuda.core_checks("CUDA")[-1]
    assert not row.passed
    assert reason in row.finding
    assert row.cure
    assert core_plugin_cuda.core_checks("AMD") == ()


@pytest.mark.parametrize(("version", "status", "count", "words"), [
    (12080, 0, 1, "too old: it supports CUDA 12.8"), (13000, 100, 0, "finds no device"),
    (13000, 0, 0, "finds no device"), (13000, 3, 0, "error 3")])
def test_the_drivers_answers_are_understood(monkeypatch, version, status, count, words):
    class Library:
        def __init__(self, name):
            pass

        def cuDriverGetVersion(self, into):  # noqa: N802
            into._obj.value = version

        def cuInit(self, flags):  # noqa: N802
            return status

        def cuDeviceGetCount(self, into):  # noqa: N802
            into._obj.value = count

    monkeypatch.setattr(core_plugin_cuda.ctypes, "CDLL", Library)
    with pytest.raises(core_plugin_cuda.DriverMissingError, match=words):
        core_plugin_cuda.count_devices()


def test_the_stub_loads_nothing_heavy():
    code = ("import sys, core_plugin_cuda; core_plugin_cuda.core_devices();"
            "print([m for m in ('numpy', 'cuda', 'core_plugin_cuda.device') if m in sys.modules])")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          env=environment)
    assert done.stdout.strip() == "[]"


def test_values(opened):
    x = np.random.default_rng(0).normal(size=(33, 70)).astype(np.float32)
    t = Tensor(x, device="CUDA")
    np.testing.assert_allclose((t @ t.T).numpy(), x @ x.T, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(t.softmax().numpy().sum(1), np.ones(33), rtol=1e-6)
    np.testing.assert_array_equal(t.half().numpy(), x.astype(np.float16))


def test_products_are_not_fused_into_sums(opened):
    a, b = np.float32(1 + 2**-12), np.float32(-(1 + 2**-11))
    x, y = (Tensor(np.full(5, v), device="CUDA") for v in (a, b))
    assert (x * x + y).tolist() == [float(a * a + b)] * 5


def test_copies_within_the_device_go_by_its_queue(opened):
    copy = pair_copy(opened, opened)
    assert next(iter(copy.paths)) == "queue"
    data = np.arange(256, dtype=np.uint8)
    one, two = opened.allocator.allocate(256), opened.allocator.allocate(256)
    opened.allocator.copy_in(one, 0, data.data)
    copy(two, 5, one, 9, 100)
    found = np.zeros(100, np.uint8)
    opened.allocator.copy_out(found.data, two, 5)
    np.testing.assert_array_equal(found, data[9:109])


def test_a_trace_is_replayed_as_a_recording(opened):
    step = jit(lambda t: ((t + 1) * 2).contiguous().sum(0) + t)
    for k in range(4):
        x = np.full((9, 7), k, np.float32)
        found = step(Tensor(x, device="CUDA").realize()).numpy()
        np.testing.assert_array_equal(found, ((x + 1) * 2).sum(0) + x)


def test_what_a_graph_waits_for():
    def call(items, *, meet):
        return RecordedCall(None, (), (), (), items, 1, meet)

    calls = [call(4, meet=False), call(1, meet=False), call(1, meet=False), call(8, meet=True),
             call(1, meet=False)]
    assert dependencies(calls) == [(), (), (1,), (0, 1, 2), (0, 1, 2)]


def test_more_memory_than_there_is(opened):
    with pytest.raises(OutOfMemoryError, match="of the simulator's"):
        opened.allocator.allocate(1 << 60)


def test_a_text_that_does_not_compile_shows_the_compilers_words(opened):
    with pytest.raises(CompileError, match='identifier "nothing" is undefined') as error:
        opened.renderer.compiler.compile(["// core: {}\n__global__ void f() { nothing = 1; }"])
    assert "nothing = 1" in error.value.graph


@pytest.mark.parametrize("binary", [
    b"", b"{}\nxx", b'{"name": "f", "buffers": 0, "scalars": []}\n\x7fELF'])
def test_a_foreign_binary_is_refused(opened, binary):
    with pytest.raises(DeviceError, match="is not for"):
        CudaLoader(opened.device.driver).load("f", binary)


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_100"])
def test_kernels_compile_for_processors(architecture):
    source = ('extern "C" __global__ void f(float *a) { __shared__ float t[64];'
              "t[threadIdx.x] = a[threadIdx.x]; __syncthreads(); a[threadIdx.x] = t[0]; }")
    found = resources(source, architecture)
    assert 0 < found.registers < 64
    assert found.shared_bytes >= 256
    assert found.spilled_bytes == 0
