"""The decorators `@hookimpl` (for plugins) and `@hookspec` (for core), and the API's own number.

The plugin API has a number of its own, apart from core's version. The major number is part of the
entry-point group's name, so that plugins of another major are never imported; the minor number is
in `DeviceSpec.api`. A new optional hook or field raises the minor, anything that breaks a plugin
raises the major.
"""

from __future__ import annotations

from typing import Final

import pluggy

#: Name of pluggy's project; also the prefix of every hook.
PROJECT: Final = "core"
#: The plugin API that this core offers: (major, minor).
API: Final[tuple[int, int]] = (1, 0)

hookspec: Final = pluggy.HookspecMarker(PROJECT)
hookimpl: Final = pluggy.HookimplMarker(PROJECT)
