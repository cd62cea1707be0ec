"""Files that hold tensors: safetensors, GGUF, checkpoints of PyTorch.

A file is mapped, not read: a tensor's bytes come from the disk when it is computed with. Headers
are checked whole before the first tensor is made, and no code that a file may hold is run.
"""

from core.formats.gguf import gguf_load
from core.formats.safetensors import safe_load, safe_metadata, safe_save
from core.formats.torch_checkpoint import torch_load

__all__ = ["gguf_load", "safe_load", "safe_metadata", "safe_save", "torch_load"]
