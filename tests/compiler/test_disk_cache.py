"""The disk cache among processes: concurrent writers, killed ones, corrupt and too many entries."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from core import Device
from core.compiler import disk_cache
from core.compiler.disk_cache import DiskCache
from core.foundation.settings import Context
from core.runtime import open_device

# Writes entries "0" ... "9" of known content for ever, or reads them; says what was wrong.
WRITER = """
import sys
from core.compiler.disk_cache import DiskCache
cache, size = DiskCache("test"), int(sys.argv[1])
print("ready", flush=True)
for turn in range(int(sys.argv[2])):
    key = str(turn % 10)
    cache.put(key, key.encode() * size)
    found = cache.get(key)
    assert found is None or found == key.encode() * size, found[:20]
print("done", flush=True)
"""

PROGRAM = """
from core import Tensor
from core.compiler.compile import STATISTICS
assert (Tensor([1, 2, 3]) * 3 + 1).tolist() == [4, 7, 10]
print(STATISTICS.kernels, STATISTICS.disk_hits)
"""


@pytest.fixture
def _kept():
    """The default device's programs are kept on disk."""
    if not open_device(Device.DEFAULT).renderer.compiler.key:
        pytest.skip("the device compiles nothing that could be kept")


@pytest.fixture
def cache(tmp_path):
    with Context(CACHE=True, CACHE_DIR=str(tmp_path)):
        yield DiskCache("test")


def start(code, folder, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "CORE_CACHE": "1", "CORE_CACHE_DIR": str(folder),
             "PYTHONPATH": os.pathsep.join(filter(None, sys.path))})


def finished(process):
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0, out
    return out


def compiled(folder):
    """(programs, of which found on disk) of a small program in a process of its own."""
    programs, hits = map(int, finished(start(PROGRAM, folder)).split())
    return programs, hits


def test_what_was_put_is_there_and_nothing_else(cache):
    assert cache.get("a") is None
    cache.put("a", b"content")
    cache.put("b", b"")
    assert cache.get("a") == b"content"
    assert cache.get("b") == b""
    assert cache.size() == (2, 2 * 32 + 7)
    assert cache.clear() == 2
    assert cache.get("a") is None


def test_without_the_setting_nothing_is_kept(cache):
    with Context(CACHE=False):
        cache.put("a", b"content")
        assert cache.get("a") is None
    assert cache.get("a") is None


def test_writers_in_several_processes_do_not_harm_each_other(cache, tmp_path):
    writers = [start(WRITER, tmp_path, 50_000, 300) for _ in range(4)]
    for writer in writers:
        assert finished(writer).split() == ["ready", "done"]
    assert all(cache.get(str(k)) == str(k).encode() * 50_000 for k in range(10))
    assert len(list(cache.folder.iterdir())) == 10


def test_a_killed_writer_leaves_whole_entries_or_none(cache, tmp_path):
    generator = random.Random(0)
    for _ in range(8):
        writer = start(WRITER, tmp_path, 3_000_000, 100_000)
        assert writer.stdout.readline() == "ready\n"
        time.sleep(generator.uniform(0.01, 0.06))
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        for k in range(10):
            assert cache.get(str(k)) in {None, str(k).encode() * 3_000_000}
    cache.put("3", b"another")
    assert cache.get("3") == b"another"


def test_what_killed_writers_left_is_removed(cache):
    cache.put("a", b"content")
    torn = cache.folder / ".writing-torn"
    torn.write_bytes(b"half")
    fresh = cache.folder / ".writing-fresh"
    fresh.write_bytes(b"half")
    os.utime(torn, (1, 1))
    cache.shrink()
    assert not torn.exists()
    assert fresh.exists()  # somebody may be writing it
    assert cache.get("a") == b"content"


@pytest.mark.parametrize("damage", [
    lambda raw: raw[:-1], lambda raw: raw[:10], lambda raw: b"", lambda raw: raw + b"x",
    lambda raw: raw[:40] + bytes([raw[40] ^ 1]) + raw[41:],
    lambda raw: bytes([raw[0] ^ 1]) + raw[1:],
], ids=["short", "shorter", "empty", "long", "flipped content", "flipped digest"])
def test_a_damaged_entry_is_none_and_goes(cache, damage):
    cache.put("a", b"content of the entry")
    path = cache.path("a")
    path.write_bytes(damage(path.read_bytes()))
    assert cache.get("a") is None
    assert not path.exists()
    cache.put("a", b"content of the entry")
    assert cache.get("a") == b"content of the entry"


def test_a_folder_that_cannot_be_written_caches_nothing(tmp_path):
    """A file stands in the place of the folder: also for root nothing can be made below it."""
    (tmp_path / "file").write_text("")
    with Context(CACHE=True, CACHE_DIR=str(tmp_path / "file")):
        cache = DiskCache("test")
        cache.put("a", b"content")
        assert cache.get("a") is None
        assert cache.size() == (0, 0)
        assert cache.clear() == 0


def test_a_damaged_entry_that_cannot_be_removed_is_none(cache, monkeypatch):
    cache.put("a", b"content")
    cache.path("a").write_bytes(b"damaged")

    def refuse(path, *arguments, **options):
        raise PermissionError(str(path))

    monkeypatch.setattr("pathlib.Path.unlink", refuse)
    assert cache.get("a") is None


def test_the_oldest_entries_go_when_there_is_too_much(cache, monkeypatch):
    monkeypatch.setattr(disk_cache, "_LARGEST_BYTES", 10 * (1000 + 32))
    for k in range(30):
        cache.put(str(k), b"x" * 1000)
        os.utime(cache.path(str(k)), (k, k))
    cache.shrink()
    assert [k for k in range(30) if cache.get(str(k))] == list(range(20, 30))


def test_many_short_processes_stay_within_the_bound(cache, monkeypatch):
    """Nothing in a process counts its writes: each instance here writes once."""
    monkeypatch.setattr(disk_cache, "_LARGEST_BYTES", 10 * (1000 + 32))
    largest = 0
    for k in range(1500):
        DiskCache("test").put(str(k), b"x" * 1000)
        largest = max(largest, len(os.listdir(cache.folder)))
    assert largest < 500
    assert cache.size()[0] < 400


@pytest.mark.usefixtures("_kept")
def test_programs_are_found_in_the_next_process(tmp_path):
    made, hits = compiled(tmp_path)
    assert made > 0
    assert hits == 0
    assert compiled(tmp_path) == (made, made)


@pytest.mark.usefixtures("_kept")
def test_damaged_programs_are_compiled_again(tmp_path):
    made, _ = compiled(tmp_path)
    entries = list((tmp_path / "binaries").iterdir())
    assert entries
    for entry in entries:
        entry.write_bytes(entry.read_bytes()[:-5])
    assert compiled(tmp_path) == (made, 0)
    assert compiled(tmp_path) == (made, made)


@pytest.mark.usefixtures("_kept")
def test_processes_that_start_at_once_leave_the_entries_of_one(tmp_path):
    processes = [start(PROGRAM, tmp_path / "many") for _ in range(4)]
    for process in processes:
        finished(process)
    made, _ = compiled(tmp_path / "one")

    def names(folder):
        return {entry.name for entry in (tmp_path / folder / "binaries").iterdir()}

    assert names("many") == names("one")
    assert compiled(tmp_path / "many") == (made, made)


def test_programs_run_where_nothing_can_be_cached(tmp_path):
    (tmp_path / "file").write_text("")
    made, hits = compiled(tmp_path / "file")
    assert made > 0
    assert hits == 0
