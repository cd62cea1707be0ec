"""A virtual environment into which wheels are built and installed, for tests of whole packages.

Nothing is downloaded: what the wheels need is found where this Python has it, behind the
environment's own packages, so that core itself is the wheel that was installed.
"""

from __future__ import annotations

import os
import site
import subprocess
import sysconfig
import venv
from collections.abc import Sequence
from pathlib import Path


class FreshEnvironment:
    """An environment in an empty folder; its commands see neither core's settings nor its source.

    Args:
        folder: An empty folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        venv.create(folder / "env", with_pip=False)
        layout = {"base": str(folder / "env"), "platbase": str(folder / "env")}
        self.programs = Path(sysconfig.get_path("scripts", "venv", layout))
        packages = Path(sysconfig.get_path("purelib", "venv", layout))
        (packages / "parent.pth").write_text("\n".join(site.getsitepackages()) + "\n")
        self.variables = {
            name: value for name, value in os.environ.items()
            if not name.startswith(("CORE_", "PYTHON", "PYTEST", "COV_")) and name != "DEV"}
        self.variables |= {
            "PATH": f"{self.programs}{os.pathsep}{os.environ.get('PATH', '')}",
            "VIRTUAL_ENV": str(folder / "env"),
            "CORE_CACHE_DIR": str(folder / "cache"),
            "PYTHONSAFEPATH": "1", "PYTHONDONTWRITEBYTECODE": "1",
            # Builds take hatchling from this Python; pip spells "no isolation" this way.
            "PIP_NO_BUILD_ISOLATION": "0", "PIP_NO_INDEX": "1",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_CONSTRAINT": "",
        }

    def install(self, *projects: Path) -> None:
        """Build a wheel of each project and install it.

        Raises:
            RuntimeError: pip does not succeed.
        """
        wheels = self.folder / "wheels"
        python = str(self.programs / "python")
        self.check([python, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(wheels),
                    *map(str, projects)])
        self.check([python, "-m", "pip", "install", "-q", "--no-deps", "--force-reinstall",
                    *map(str, wheels.glob("*.whl"))])

    def run(
        self, command: Sequence[str], folder: Path | None = None, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command of the environment; `variables` are added to its own."""
        return subprocess.run(
            command, cwd=folder or self.folder, env=self.variables | variables, check=False,
            capture_output=True, text=True)

    def check(self, command: Sequence[str], folder: Path | None = None, **variables: str) -> str:
        """What a command prints.

        Raises:
            RuntimeError: It does not succeed; with all its output.
        """
        done = self.run(command, folder, **variables)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n"
                               f"{done.stdout}{done.stderr}")
        return done.stdout
