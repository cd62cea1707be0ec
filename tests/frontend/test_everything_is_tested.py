"""No public operation of Tensor is without a test in this folder, that of nn or of array_api."""

import re
from pathlib import Path

from core import Tensor

HERE = Path(__file__).parent


def test_every_public_name_of_tensor_is_used_by_a_test():
    text = "".join(
        path.read_text(encoding="utf-8")
        for folder in (HERE, HERE.parent / "nn", HERE.parent / "array_api")
        for path in sorted(folder.glob("test_*.py"))
        if path.name != Path(__file__).name)
    names = {name for name in dir(Tensor) if not name.startswith("_")}
    assert len(names) > 200
    assert names - set(re.findall(r"\w+", text)) == set()
