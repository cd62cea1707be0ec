"""Real wheels of made-up plugins: built as files, installed by pip, each into a folder of its own.

A wheel is a zip file with metadata (the binary distribution format of the Python packaging
specifications); nothing has to be compiled for one, so a test makes its own in milliseconds.
"""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
import textwrap
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

DEVICES = "core.plugins.v1"
EXTENSIONS = "core.extensions.v1"


@dataclass(frozen=True)
class Wheel:
    """What is in a wheel.

    Attributes:
        distribution: Its name, with dashes.
        entries: Entry points: name to module.
        files: Module files by path, with their text; dedented.
        version: Its version.
        group: Group of the entry points.
        requires: Its requirement on core.
    """

    distribution: str
    entries: Mapping[str, str]
    files: Mapping[str, str] = field(default_factory=dict)
    version: str = "1.0"
    group: str = DEVICES
    requires: str = "core>=0.1"

    def build(self, folder: Path) -> Path:
        """Write the wheel into a folder; returns its file."""
        stem = f"{self.distribution.replace('-', '_')}-{self.version}"
        information = f"{stem}.dist-info"
        points = "".join(f"{name} = {module}\n" for name, module in self.entries.items())
        contents = {name: textwrap.dedent(text) for name, text in self.files.items()}
        contents |= {
            f"{information}/METADATA": (
                f"Metadata-Version: 2.1\nName: {self.distribution}\nVersion: {self.version}\n"
                f"Requires-Dist: {self.requires}\n"),
            f"{information}/WHEEL": (
                "Wheel-Version: 1.0\nGenerator: core.testing\nRoot-Is-Purelib: true\n"
                "Tag: py3-none-any\n"),
            f"{information}/entry_points.txt": f"[{self.group}]\n{points}",
        }
        record = "".join(f"{name},{_digest(text)},{len(text.encode())}\n"
                         for name, text in contents.items())
        file = folder / f"{stem}-py3-none-any.whl"
        with zipfile.ZipFile(file, "w") as archive:
            for name, text in contents.items():
                archive.writestr(name, text)
            archive.writestr(f"{information}/RECORD", f"{record}{information}/RECORD,,\n")
        return file


def _digest(text: str) -> str:
    """As RECORD has it: sha256, base64 for addresses, no padding."""
    digest = hashlib.sha256(text.encode()).digest()
    return "sha256=" + base64.urlsafe_b64encode(digest).decode().rstrip("=")


def pip_install(wheels: Iterable[Path], *options: str, python: str = sys.executable) -> None:
    """Install wheels with pip, without what they need.

    Raises:
        RuntimeError: pip does not succeed.
    """
    done = subprocess.run(
        [python, "-m", "pip", "install", "-q", "--no-deps", "--no-index",
         "--disable-pip-version-check", "--no-compile", *options, *map(str, wheels)],
        check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"pip ended with {done.returncode}:\n{done.stdout}{done.stderr}")
