"""The OpenCL devices: which are whose, memory, programs, errors."""

import os

import numpy as np
import pytest

pytest.importorskip("pyopencl", reason="the library pyopencl is not installed")
pytest.importorskip("core_plugin_amd", reason="core-plugin-amd is not installed")

import core_plugin_amd
from core import Context, GlobalCounters, Tensor, nn
from core.compiler.pipeline import generate
from core.foundation.errors import CompileError
from core.ir import UOp, dtypes
from core.plugin import DeviceError, OutOfMemoryError, RecordedCall, offers
from core.runtime.copies import pair_copy
from core.runtime.device import open_device
from core.testing.pass_checks import kernel, place
from core_plugin_amd.memory import OpenClCopyQueue
from core_plugin_amd.program import OpenClCompiler, OpenClLoader, OpenClRecording


@pytest.fixture(scope="session")
def opened():
    """AMD, on any OpenCL device."""
    before = os.environ.get("CORE_AMD_ANY_OPENCL")
    os.environ["CORE_AMD_ANY_OPENCL"] = "1"
    try:
        return open_device("AMD")
    except DeviceError as error:
        pytest.skip(f"no OpenCL device opens: {error}")
    finally:
        if before is None:
            del os.environ["CORE_AMD_ANY_OPENCL"]


AMD, OTHER = core_plugin_amd.AMD_VENDOR, 0x8086


@pytest.mark.parametrize(("name", "vendor", "anything", "mine"), [
    ("AMD", AMD, "", True), ("AMD", OTHER, "", False), ("AMD", OTHER, "0", False),
    ("AMD", OTHER, "1", True), ("CL", OTHER, "", True), ("CL", AMD, "", False)])
def test_whose_a_device_is(monkeypatch, name, vendor, anything, mine):
    monkeypatch.setenv("CORE_AMD_ANY_OPENCL", anything)
    assert core_plugin_amd.takes(name, vendor) is mine


def test_the_probe_counts_what_the_driver_lists(opened, monkeypatch):
    monkeypatch.setenv("CORE_AMD_ANY_OPENCL", "1")
    assert core_plugin_amd.probe().count >= 1
    rows = core_plugin_amd.core_checks("AMD")
    assert all(row.passed for row in rows)
    assert core_plugin_amd.core_checks("CUDA") == ()


def test_no_loader_is_said(monkeypatch):
    def missing():
        raise OSError("libOpenCL.so.1: cannot open shared object file")

    monkeypatch.setattr(core_plugin_amd, "_vendors", missing)
    assert core_plugin_amd.probe().count == 0
    assert "no OpenCL loader: libOpenCL.so.1" in core_plugin_amd.probe().reason
    assert not core_plugin_amd.core_checks("AMD")[-1].passed


def test_an_index_that_is_not_there(opened):
    with pytest.raises(DeviceError, match="there is no AMD:99"):
        open_device("AMD:99")


def test_values(opened):
    x = np.random.default_rng(0).normal(size=(33, 70)).astype(np.float32)
    t = Tensor(x, device="AMD")
    np.testing.assert_allclose((t @ t.T).numpy(), x @ x.T, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(t.softmax().numpy().sum(1), np.ones(33), rtol=1e-6)
    np.testing.assert_array_equal((t.T + 1).numpy(), x.T + 1)


def test_products_are_not_fused_into_sums(opened):
    a, b = np.float32(1 + 2**-12), np.float32(-(1 + 2**-11))
    x, y = (Tensor(np.full(5, v), device="AMD") for v in (a, b))
    assert (x * x + y).tolist() == [float(a * a + b)] * 5


@pytest.mark.parametrize("start", [0, 1, 3, 17])
def test_a_piece_begins_anywhere(opened, start):
    x = np.arange(100, dtype=np.int16)
    t = Tensor(x, device="AMD").realize()
    np.testing.assert_array_equal((t[start:start + 40] * 2).numpy(), x[start:start + 40] * 2)


def test_copies_within_the_device_go_by_its_queue(opened):
    copy = pair_copy(opened, opened)
    assert next(iter(copy.paths)) == "queue"
    assert isinstance(opened.copy_queue, OpenClCopyQueue)
    data = np.arange(256, dtype=np.uint8)
    one, two = opened.allocator.allocate(256), opened.allocator.allocate(256)
    opened.allocator.copy_in(one, 0, data.data)
    copy(two, 5, one, 9, 100)
    found = np.zeros(100, np.uint8)
    opened.allocator.copy_out(found.data, two, 5)
    np.testing.assert_array_equal(found, data[9:109])


def test_there_and_back(opened):
    x = np.random.default_rng(1).integers(0, 255, 1000).astype(np.uint8)
    default = Tensor(x)
    moved = default.to("AMD")
    assert moved.device == "AMD"
    np.testing.assert_array_equal((moved + 1).to(default.device).numpy(), x + 1)


def test_too_large_a_buffer(opened):
    assert not offers(opened.allocator, "host_view")
    with pytest.raises(OutOfMemoryError, match="the device allows"):
        opened.allocator.allocate(1 << 60)


def test_a_text_that_does_not_compile_shows_the_drivers_words(opened):
    with pytest.raises(CompileError, match="undeclared") as error:
        OpenClCompiler(opened.device).compile(["// core: {}\n__kernel void f() { nothing = 1; }"])
    assert "nothing = 1" in error.value.graph


@pytest.mark.parametrize("binary", [b"", b"{}\nxx", b'{"name": "f", "buffers": 0}\n\x7fELF'])
def test_a_foreign_binary_is_refused(opened, binary):
    with pytest.raises(DeviceError, match="not for this device"):
        OpenClLoader(opened.device).load("f", binary)


def test_a_launch_is_timed_by_its_event(opened):
    x = Tensor(np.ones(1 << 16, np.float32), device="AMD").realize()
    before = GlobalCounters.time_sum_s
    with Context(DEBUG=2):
        (x * 3).realize()
    assert 0 < GlobalCounters.time_sum_s - before < 10


def test_training_follows_the_default_device(opened):
    """Loss after a few steps of a small network equals that of the processor."""
    def losses(device):
        draw = np.random.default_rng(0)
        weights = [Tensor(draw.normal(size=s).astype(np.float32) / 4, device=device,
                          requires_grad=True) for s in ((16, 32), (32, 4))]
        x = Tensor(draw.normal(size=(24, 16)).astype(np.float32), device=device)
        y = Tensor(draw.integers(0, 4, 24), device=device)
        optimizer, found = nn.SGD(weights, lr=0.5), []
        with Tensor.train():
            for _ in range(5):
                optimizer.zero_grad()
                loss = ((x @ weights[0]).relu() @ weights[1]).cross_entropy(y)
                loss.backward()
                optimizer.step()
                found.append(loss.item())
        return found

    np.testing.assert_allclose(losses("AMD"), losses(None), rtol=1e-4)


def test_a_recording_sets_arguments_where_they_change(opened):
    """Replays on other blocks, at other offsets and with other scalars."""
    loader, sent = opened.loaders["opencl"], []
    n = UOp.variable("n", 1, 64, slot=2)
    i = UOp.range(n, 0)
    value = place(1, 64).index(i).load() + n.cast(dtypes.float32)
    program = generate(kernel(place(0, 64).index(i).store(value).end(i)), opened.target,
                       opened.renderer.code_for_op)
    (binary,) = opened.renderer.compiler.compile(
        [opened.renderer.render("added", program.src[1])])
    call = RecordedCall(
        loader.load("added", binary), (0, 1), (0, 256), (2,), 1, 1, False,
        (*program.arg.global_size,), (*program.arg.local_size,))
    back = call._replace(blocks=(1, 0), offsets=(0, 0))
    recording = loader.record([call, back], {})
    assert isinstance(recording, OpenClRecording)
    allocator = opened.allocator
    for count in (64, 5, 64):
        blocks = [allocator.allocate(512) for _ in range(2)]
        data = np.arange(128, dtype=np.float32)
        allocator.copy_in(blocks[1], 0, memoryview(data).cast("B"))
        allocator.copy_in(blocks[0], 0, memoryview(data * 0).cast("B"))
        recording.replay(blocks, {2: count})
        result = np.empty(128, np.float32)
        allocator.copy_out(memoryview(result).cast("B"), blocks[1], 0)
        sent.append(result[:count])
        assert np.array_equal(result[:count], data[64:64 + count] + 2 * count)
        assert np.array_equal(result[count:], data[count:])
        for block in blocks:
            allocator.free(block)
    assert [len(s) for s in sent] == [64, 5, 64]


def test_programs_are_built_together_and_a_bad_one_is_named(opened):
    compiler, loader = opened.renderer.compiler, opened.loaders["opencl"]

    def text(name, body):
        about = f'// core: {{"name": "{name}", "buffers": 1, "scalars": []}}'
        return f"{about}\n__kernel void {name}(__global char *p0, long o0) {{ {body} }}\n"

    good = [text(f"k{k}", f"*(__global int *)(p0 + o0) = {k};") for k in range(10)]
    binaries = compiler.compile(good)
    for k in (0, 9):
        program = loader.load(f"k{k}", binaries[k])
        block = opened.allocator.allocate(64)
        program([block], [], wait=True)
        result = np.zeros(1, np.int32)
        opened.allocator.copy_out(memoryview(result).cast("B"), block, 0)
        assert result[0] == k
        opened.allocator.free(block)
    assert loader.load("k1", binaries[1])._built is loader.load("k2", binaries[2])._built
    with pytest.raises(CompileError, match="wrong_word") as caught:
        compiler.compile([good[0], text("bad", "wrong_word;"), good[1]])
    assert "void bad" in caught.value.graph


def test_a_forked_child_is_refused(opened):
    """PoCL would hang in it."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            Tensor([1.0], device="AMD").numpy()
            os.write(write, b"used")
        except DeviceError as error:
            os.write(write, str(error).encode())
        finally:
            os._exit(0)
    os.close(write)
    said = os.read(read, 1000).decode()
    os.waitpid(child, 0)
    os.close(read)
    assert "forked" in said


def test_time_of_a_launch_is_the_driver_s(opened, capsys):
    """DEBUG=2 shows what the events measured, not what the host waited."""
    with Context(DEBUG=2):
        (Tensor(np.ones((64, 64), np.float32), device="AMD") * 2).realize()
    assert "AMD" in capsys.readouterr().err
