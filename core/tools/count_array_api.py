"""Counts the names of the Python Array API standard that core declares.

    python -m core.tools.count_array_api
"""

from __future__ import annotations

import core.array_api
from core.array_api.standard import declared
from core.frontend import Tensor


def report() -> str:
    """A line per section with what is missing, then the sum."""
    lines, there, all_names = [], 0, 0
    for section, names in declared(core.array_api, Tensor).items():
        missing = [name for name, has in names.items() if not has]
        there, all_names = there + len(names) - len(missing), all_names + len(names)
        rest = f"; missing: {' '.join(missing)}" if missing else ""
        lines.append(f"{section:22} {len(names) - len(missing):3} of {len(names):3}{rest}")
    lines.append(f"{'all':22} {there:3} of {all_names:3}, {100 * there / all_names:.1f} %")
    return "\n".join(lines)


if __name__ == "__main__":
    print(report())
