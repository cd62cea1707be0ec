"""core: tensor programs, compiled to native code on whatever device a plugin brings.

    from core import Tensor
    print((Tensor([1, 2, 3]) + 1).tolist())

Importing core loads nothing but this file; each public name loads its layer at first use.
"""

from core.foundation.lazy_import import lazy_names

__version__ = "0.1.0"

#: Public names by layer: where each is loaded from when it is first used (PEP 562).
_PUBLIC = {
    "Tensor": "core.frontend:Tensor",
    "Variable": "core.frontend:Variable",
    "function": "core.frontend:function",
    "jit": "core.frontend:jit",
    "array_api": "core.array_api",
    "nn": "core.nn",
    "Device": "core.runtime:Device",
    "GlobalCounters": "core.runtime:GlobalCounters",
    "dtypes": "core.ir:dtypes",
    "Context": "core.foundation.settings:Context",
}

__all__ = [
    "Context", "Device", "GlobalCounters", "Tensor", "Variable", "array_api", "dtypes",
    "function", "jit", "nn",
]

__getattr__, __dir__ = lazy_names(__name__, _PUBLIC)
