"""The command line `core`, also as `python -m core`."""

from __future__ import annotations

import sys

from core.foundation.errors import SettingError
from core.foundation.lazy_import import load


def main() -> None:
    """Run the command line; a setting that cannot be read ends it with a message."""
    try:
        command_line = load("core.tools.command_line")  # reads the environment
    except SettingError as error:
        sys.stderr.write(f"core: {error}\n")
        sys.exit(1)
    command_line.main()


if __name__ == "__main__":
    main()
