"""`core plugin new`: a distribution with a device that works, to be replaced piece by piece."""

from __future__ import annotations

import keyword
import re
from importlib import resources
from pathlib import Path
from typing import Final

from core import __version__
from core.foundation.errors import CoreError
from core.plugin.discovery import BUILT_IN
from core.plugin.markers import API

#: Template → where it goes. Templates are .txt, else linters and installers take them for source.
_FILES: Final = {
    "pyproject.toml.txt": "pyproject.toml",
    "README.md.txt": "README.md",
    "tox.ini.txt": "tox.ini",
    "test.yml.txt": ".github/workflows/test.yml",
    "stub.py.txt": "@PACKAGE@/__init__.py",
    "device.py.txt": "@PACKAGE@/device.py",
    "conformance.toml.txt": "@PACKAGE@/conformance.toml",
}


def new_plugin(name: str, folder: Path) -> list[Path]:
    """Write the distribution ``core-plugin-NAME`` with the device ``NAME`` into a folder.

    Args:
        name: Name of the device: letters, digits and "_", beginning with a letter.
        folder: Where its files go, itself; made if it is missing.

    Returns:
        The files written.

    Raises:
        CoreError: The name cannot be a device's, or a file is there already.
    """
    words = _words(name)
    files = {folder / _filled(place, words): _filled(_template(template), words)
             for template, place in _FILES.items()}
    there = [path for path in files if path.exists()]
    if there:
        raise CoreError(f"{there[0]} is there already: nothing was written",
                        cure="give an empty folder by --path")
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return list(files)


def _words(name: str) -> dict[str, str]:
    """What stands for each word in the templates."""
    lower = name.lower().replace("-", "_")
    if not re.fullmatch(r"[a-z][a-z0-9_]*", lower) or keyword.iskeyword(lower):
        raise CoreError(f"{name!r} cannot be the name of a device",
                        cure="use letters, digits and _, beginning with a letter")
    if lower.upper() in BUILT_IN:
        raise CoreError(f"{lower.upper()} is a device of core itself", cure="use another name")
    return {
        "@DEVICE@": lower.upper(),
        "@PACKAGE@": f"core_plugin_{lower}",
        "@DISTRIBUTION@": f"core-plugin-{lower.replace('_', '-')}",
        "@CLASS@": "".join(part.capitalize() for part in lower.split("_")),
        "@CORE@": __version__,
        "@API@": str(API),
    }


def _template(name: str) -> str:
    return (resources.files("core.tools") / "scaffold" / name).read_text(encoding="utf-8")


def _filled(text: str, words: dict[str, str]) -> str:
    return re.sub("|".join(words), lambda match: words[match[0]], text)
