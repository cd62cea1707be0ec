"""A folder of installed distributions, made for a test: plugins that work and plugins that do not.

Each distribution gets its ``dist-info`` and its modules, as an installer would write them, so the
registry finds them the way it finds real ones. Module names must be unique in the process.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path

from core.plugin.registry import Registry

#: Stub of a device whose open hooks are those of `core.testing.sample_device`.
GOOD_STUB = """
from core.plugin import DeviceSpec, hookimpl

@hookimpl
def core_devices():
    return [DeviceSpec(name="{name}", module="core.testing.sample_device"{details})]
"""


class PluginFolder:
    """A folder on `sys.path` to install made-up distributions into.

    Args:
        folder: An empty folder; `path` must be on `sys.path` while its plugins are imported.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder

    def install(
        self,
        distribution: str,
        entries: Mapping[str, str],
        files: Mapping[str, str] | None = None,
        *,
        version: str = "1.0",
        group: str = "core.plugins.v1",
        requires: str = "core>=0.1",
    ) -> None:
        """Write one distribution.

        Args:
            distribution: Its name, with dashes.
            entries: Entry points: device name to module.
            files: Module files by path, with their text; dedented.
            version: Its version.
            group: Group of the entry points.
            requires: Its requirement on core.
        """
        information = self.path / f"{distribution.replace('-', '_')}-{version}.dist-info"
        information.mkdir(parents=True)
        metadata = f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
        (information / "METADATA").write_text(f"{metadata}Requires-Dist: {requires}\n")
        lines = [f"[{group}]", *(f"{name} = {module}" for name, module in entries.items())]
        (information / "entry_points.txt").write_text("\n".join(lines) + "\n")
        for name, text in (files or {}).items():
            file = self.path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(textwrap.dedent(text))

    def good(self, name: str, details: str = "", distribution: str = "") -> None:
        """Install a device that works.

        Args:
            name: Name of the device.
            details: Further arguments of its DeviceSpec, as text.
            distribution: Name of the distribution; made from the device's name when empty.
        """
        module = f"{self.path.name}_{name}_{distribution}".lower().replace("-", "_")
        text = GOOD_STUB.format(name=name, details=f", {details}" if details else "")
        self.install(
            distribution or f"plugin-{name.lower()}", {name: module}, {f"{module}.py": text}
        )

    def broken(self, name: str, text: str, **options: str) -> None:
        """Install a device whose stub is `text`."""
        module = f"{self.path.name}_{name}".lower().replace("-", "_")
        self.install(f"plugin-{name.lower()}", {name: module}, {f"{module}.py": text}, **options)

    def extension(self, name: str, text: str) -> None:
        """Install an extension whose module is `text`."""
        module = f"{self.path.name}_extension_{name}".lower()
        files = {f"{module}.py": text}
        self.install(f"extension-{name}", {name: module}, files, group="core.extensions.v1")

    def registry(self, allow: str = "", modules: tuple[str, ...] = ()) -> Registry:
        """A registry that sees only this folder."""
        return Registry([str(self.path)], allow, modules)

    def forget_modules(self) -> None:
        """Drop this folder's modules, so that the process is as before."""
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", "")).startswith(str(self.path)):
                del sys.modules[name]
