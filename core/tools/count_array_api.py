"""Counts the names of the Python Array API standard that core declares.

    python -m core.tools.count_array_api
"""

from __future__ import annotations

import core.array_api
from core.array_api.standard import declared
from core.frontend import Tensor


def report() -> str:
    """A line per section with what is missing, then the sum; extensions apart."""
    sections = declared(core.array_api, Tensor)
    required = {s: names for s, names in sections.items() if not s.startswith("extension")}
    extensions = {s: names for s, names in sections.items() if s not in required}
    return "\n".join((*_lines(required), _sum(required, "all but extensions"),
                      *_lines(extensions), _sum(sections, "with extensions")))


def _lines(sections: dict[str, dict[str, bool]]) -> list[str]:
    lines = []
    for section, names in sections.items():
        missing = [name for name, has in names.items() if not has]
        rest = f"; missing: {' '.join(missing)}" if missing else ""
        lines.append(f"{section:22} {len(names) - len(missing):3} of {len(names):3}{rest}")
    return lines


def _sum(sections: dict[str, dict[str, bool]], title: str) -> str:
    there = [has for names in sections.values() for has in names.values()]
    share = 100 * sum(there) / len(there)
    return f"{title:22} {sum(there):3} of {len(there):3}, {share:.1f} %"


if __name__ == "__main__":
    print(report())
