"""The programs of the tour run; those of plugin-authors.md have a test of their own."""

import re
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
TOUR = (DOCS / "tour.md").read_text(encoding="utf-8")


def test_the_tours_programs_hold(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", TOUR, re.DOTALL)
    assert len(blocks) >= 6
    program = tmp_path / "tour.py"
    program.write_text("\n".join(blocks))
    done = subprocess.run([sys.executable, program], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
