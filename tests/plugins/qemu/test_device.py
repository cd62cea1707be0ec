"""The QEMU plugin by its hooks: description, memory, launches, recordings."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import core_plugin_qemu
from core.plugin import CompileError, DeviceError, OutOfMemoryError, RecordedCall, offers
from core.testing.hook_bench import HookBench
from core.testing.source_rules import late_imports
from core_plugin_qemu import device as hooks
from core_plugin_qemu import runner as runners
from core_plugin_qemu.architectures import ARCHITECTURES
from core_plugin_qemu.memory import ROWS_BYTES, SharedAllocator, SharedMemory
from core_plugin_qemu.server import ROW_BYTES


def needs(variant):
    return pytest.mark.skipif(shutil.which(f"qemu-{variant}") is None,
                              reason=f"qemu-{variant} is not installed (apt-get install qemu-user)")


@pytest.fixture(
    scope="module", params=[pytest.param(v, marks=needs(v)) for v in core_plugin_qemu.VARIANTS])
def opened(request):
    (spec,) = core_plugin_qemu.core_devices()
    device = hooks.core_open_device(spec=spec, variant=request.param)
    yield device
    device.close()


@pytest.fixture(scope="module")
def bench(opened):
    return HookBench(hooks, opened)


def test_the_stub_describes_the_device_without_loading_it():
    (spec,) = core_plugin_qemu.core_devices()
    assert (spec.name, spec.priority) == ("QEMU", 0)
    assert tuple(ARCHITECTURES) == spec.variants == core_plugin_qemu.VARIANTS
    heavy = ("llvmlite", "numpy", "importlib.metadata", "core.ir.uop")
    code = f"import sys, core_plugin_qemu; print(*(m for m in {heavy} if m in sys.modules))"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))})
    assert found.stdout.split() == []


def test_checks_and_probe_find_what_is_missing(monkeypatch, tmp_path):
    assert core_plugin_qemu.core_checks(name="CPU") == ()
    monkeypatch.setenv("PATH", str(tmp_path))
    rows = {row.subject: row for row in core_plugin_qemu.core_checks(name="QEMU")}
    assert set(rows) == {"system", "qemu-aarch64", "qemu-riscv64", "qemu-hexagon", "llvmlite"}
    assert rows["llvmlite"].passed
    assert not rows["qemu-riscv64"].passed
    assert rows["qemu-riscv64"].cure == "apt-get install qemu-user"
    assert core_plugin_qemu.probe().count == 0
    emulator = tmp_path / "qemu-riscv64"
    emulator.write_text("#!/bin/sh\necho 'qemu-riscv64 version 8'\n")
    emulator.chmod(0o755)
    rows = {row.subject: row for row in core_plugin_qemu.core_checks(name="QEMU")}
    assert rows["qemu-riscv64"].finding == "qemu-riscv64 version 8"
    found = core_plugin_qemu.probe()
    assert (found.count, found.reason) == (1, "qemu-user for riscv64")


def test_a_missing_emulator_says_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DeviceError, match="qemu-aarch64 is not on the path") as caught:
        hooks.EmulatedDevice(ARCHITECTURES["aarch64"])
    assert caught.value.cure == "apt-get install qemu-user"


@pytest.mark.parametrize(
    ("script", "words"),
    [("exit 3", "ends at its start: status 3"),
     ("echo no such processor >&2; exit 1", "status 1, no such processor")])
def test_an_emulator_that_does_not_start_says_why(monkeypatch, tmp_path, script, words):
    emulator = tmp_path / "qemu-aarch64"
    emulator.write_text(f"#!/bin/sh\n{script}\n")
    emulator.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    with pytest.raises(DeviceError, match=words):
        hooks.EmulatedDevice(ARCHITECTURES["aarch64"])


def test_a_time_limit_that_is_none_is_refused(monkeypatch):
    for text in ("soon", "0", "-1", "nan"):
        monkeypatch.setenv(runners.TIME_LIMIT, text)
        with pytest.raises(DeviceError, match=runners.TIME_LIMIT):
            runners.time_limit()
    monkeypatch.setenv(runners.TIME_LIMIT, "2.5")
    assert runners.time_limit() == 2.5
    monkeypatch.delenv(runners.TIME_LIMIT)
    assert runners.time_limit() == 120


@pytest.mark.parametrize("items", [1, 3, 1000])
def test_a_program_runs_every_item_once(bench, items):
    program = bench.increment(items, f"increment_{items}")
    source = np.arange(items, dtype=np.int32)
    blocks = [bench.block(np.zeros(items, np.int32)), bench.block(source)]
    for step in (1, -7):
        seconds = program(blocks, [step], wait=step == 1)
        assert (seconds is not None) == (step == 1)
        np.testing.assert_array_equal(bench.read(blocks[0], items), source + step)


def test_launches_see_what_was_written_before(bench, opened):
    """Many launches that are not waited for, with writes of the host between them."""
    program = bench.increment(4, "increment_4")
    first, second = (bench.block(np.zeros(4, np.int32)) for _ in range(2))
    allocator = bench.allocator
    for round_number in range(50):
        program([second, first], [1])
        program([first, second], [1])
        if round_number == 30:
            allocator.copy_in(first, 0, memoryview(np.full(4, 1000, np.int32)).cast("B"))
    opened.synchronize()
    assert set(allocator.host_view(first).cast("i")) == {1000 + 2 * 19}


def test_a_recording_runs_in_order_with_new_blocks_and_scalars(bench, opened):
    program = bench.increment(4, "increment_4r")
    other = bench.increment(2, "increment_2r")
    calls = [RecordedCall(program, (1, 0), (0, 0), (7,), 1, 1, False),
             RecordedCall(other, (0, 1), (8, 4), (9,), 1, 1, True)]
    recording = bench.loader.record(calls, {})
    for start in (0, 10):
        source = np.arange(start, start + 4, dtype=np.int32)
        blocks = [bench.block(source), bench.block(np.zeros(4, np.int32))]
        for _ in range(2):  # the second replay finds the rows filled
            recording.replay(blocks, {7: 5, 9: 100})
        opened.synchronize()
        once = np.concatenate([source[:2], source[1:3] + 105])
        twice = np.concatenate([once[:2], once[1:3] + 105])
        np.testing.assert_array_equal(bench.read(blocks[1], 4), once + 5)
        np.testing.assert_array_equal(bench.read(blocks[0], 4), twice)


def test_rows_are_used_again_when_they_are_full(bench):
    program = bench.increment(1, "increment_1w")
    block = bench.block(np.zeros(1, np.int32))
    size = ROW_BYTES + 3 * 8
    count = 2000
    assert count * size * 60 > ROWS_BYTES
    recording = bench.loader.record(
        [RecordedCall(program, (0, 0), (0, 0), (1,), 1, 1, False)] * count, {})
    for _ in range(60):
        recording.replay([block], {1: 1})
    assert bench.read(block, 1)[0] == 60 * count


def test_more_launches_than_rows_are_not_recorded(bench):
    program = bench.increment(1, "increment_1m")
    call = RecordedCall(program, (0, 0), (0, 0), (1,), 1, 1, False)
    with pytest.raises(NotImplementedError, match="too many"):
        bench.loader.record([call] * (ROWS_BYTES // (ROW_BYTES + 24) + 1), {})


def test_memory_grows_when_blocks_no_longer_fit(bench):
    allocator = bench.allocator
    blocks = [allocator.allocate(200 << 20) for _ in range(3)]
    assert len({block.arena.number for block in blocks}) > 1
    program = bench.increment(2, "increment_2g")
    source = np.array([5, -6], np.int32)
    allocator.copy_in(blocks[0], 0, memoryview(source).cast("B"))
    last = allocator.view(blocks[2], (200 << 20) - 8, 8)
    program([last, blocks[0]], [1])
    np.testing.assert_array_equal(bench.read(last, 2), source + 1)
    for block in blocks:
        allocator.free(block)
    # A place that is free again is a place of zeros: large blocks go back to the system.
    again = allocator.allocate(200 << 20)
    assert bytes(allocator.host_view(again)[:16]) in (bytes(16), source.tobytes() + bytes(8))
    allocator.free(again)


def test_no_room_says_so(bench, monkeypatch):
    allocator = bench.allocator
    with pytest.raises(OutOfMemoryError, match="no room for 1152921504606846976 bytes"):
        allocator.allocate(1 << 60)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OutOfMemoryError, match="no room for 4096 bytes: shared memory is full"):
        allocator.allocate(4096)
    monkeypatch.undo()
    allocator.free(allocator.allocate(4096))


@pytest.mark.parametrize(
    ("mebibytes", "words"),
    [(1, "no shared memory of"), (520, "no room for 419430400 bytes: .*File too large")])
def test_a_limit_of_the_system_is_an_error_in_words(mebibytes, words):
    """A process that may not have so much memory gets no device or no block, but no signal."""
    code = ("import resource; from core_plugin_qemu.memory import SharedMemory\n"
            f"resource.setrlimit(resource.RLIMIT_FSIZE, ({mebibytes} << 20, {mebibytes} << 20))\n"
            "try:\n    memory = SharedMemory(1 << 40, 1 << 20)\n"
            "    for _ in range(2): memory.allocate(400 << 20)\n"
            "except (RuntimeError, MemoryError) as error: print(error)")
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))})
    assert re.search(words, done.stdout)


def test_room_for_code_ends_with_words():
    memory = SharedMemory(1 << 40, 1 << 16)
    memory.allocate_code(1 << 15)
    with pytest.raises(OutOfMemoryError, match="65536 bytes that there are"):
        memory.allocate_code(1 << 16)
    memory.close()


def test_blocks_are_aligned_and_the_host_sees_them():
    memory = SharedMemory(1 << 40, 1 << 20)
    allocator = SharedAllocator(memory, lambda: None)
    assert offers(allocator, "host_view")
    blocks = [allocator.allocate(size) for size in (1, 64, 100)]
    assert all(block.offset % 64 == 0 for block in blocks)
    view = allocator.host_view(allocator.view(blocks[2], 4, 8))
    assert (view.format, view.ndim, view.readonly, len(view)) == ("B", 1, False, 8)
    view[:] = bytes(range(8))
    out = bytearray(4)
    allocator.copy_out(memoryview(out), blocks[2], 6)
    assert out == bytes([2, 3, 4, 5])
    memory.close()


def test_code_that_needs_a_library_is_refused(bench):
    text = "declare void @somewhere()\ndefine void @k() {\n  call void @somewhere()\n  ret void\n}"
    with pytest.raises(CompileError, match="somewhere"):
        bench.renderer.compiler.compile([text])


def test_there_are_no_late_imports():
    folder = Path(core_plugin_qemu.__file__).parent
    assert [fault for file in folder.glob("*.py") for fault in late_imports(file)] == []
