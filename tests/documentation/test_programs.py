"""The programs in docs/ run: the tour, and the device of the page for plugin authors."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from core.tools import report_devices

DOCS = Path(__file__).parents[2] / "docs"
TOUR = (DOCS / "tour.md").read_text(encoding="utf-8")
AUTHORS = (DOCS / "plugin-authors.md").read_text(encoding="utf-8")


def test_the_tours_programs_hold(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", TOUR, re.DOTALL)
    assert len(blocks) >= 6
    program = tmp_path / "tour.py"
    program.write_text("\n".join(blocks))
    done = subprocess.run([sys.executable, program], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def toy(plugin_folder):
    """The device that the page builds, installed."""
    files = dict(re.findall(r"<!-- file: (\S+) -->\n```python\n(.*?)```", AUTHORS, re.DOTALL))
    (entry,) = re.findall(r"^TOY = \"(\w+)\"$", AUTHORS, re.MULTILINE)
    assert f"{entry}.py" in files
    plugin_folder.install("plugin-toy", {"TOY": entry}, files)
    return plugin_folder


def test_the_pages_device_opens_and_its_memory_works(toy):
    opened = toy.registry().open("toy")
    assert opened.target.architecture == "toy-1"
    block = opened.allocator.allocate(8)
    opened.allocator.copy_in(block, 2, memoryview(b"abcd"))
    read = bytearray(3)
    opened.allocator.copy_out(memoryview(read), block, 3)
    assert bytes(read) == b"bcd"


def test_the_doctor_finds_the_pages_device_well(toy, monkeypatch):
    monkeypatch.setattr(report_devices, "registry", toy.registry())
    rows = [row for row in report_devices.doctor_rows("TOY") if row["of"] == "TOY"]
    assert {"/proc", "opens"} <= {row["check"] for row in rows}
    assert all(row["result"] == "passed" for row in rows), rows


def test_the_pages_device_plans_and_compiles_programs(toy):
    program = "from core import Tensor; (Tensor([1.0, 2.0]) @ Tensor([3.0, 4.0])).realize()"
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True,
        env={**os.environ, "DEV": "TOY", "CORE_DEBUG": "1",
             "CORE_CACHE_DIR": str(toy.path / "cache"),
             "PYTHONPATH": os.pathsep.join([str(toy.path), os.environ.get("PYTHONPATH", "")])})
    assert done.returncode == 0, done.stderr
    assert re.search(r"^TOY +compiled reduce_", done.stderr, re.MULTILINE), done.stderr
