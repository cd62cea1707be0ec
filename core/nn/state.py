"""The tensors of a model by name: found by walking its attributes; and files of such.

    nn.state.safe_save(nn.state.get_state_dict(model), "model.safetensors")
    nn.state.load_state_dict(model, nn.state.safe_load("model.safetensors"))
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from core.foundation.errors import ShapeError
from core.foundation.lazy_import import lazy_names
from core.frontend import Tensor

#: The readers and writers of files load when they are first used.
_LOADERS: Final = ("gguf_load", "safe_load", "safe_metadata", "safe_save", "torch_load")
__getattr__, __dir__ = lazy_names(__name__, {name: f"core.formats:{name}" for name in _LOADERS})

#: What has no tensors inside: not walked.
_LEAVES: Final = (str, bytes, bytearray, int, float, complex, type, type(None))


def get_state_dict(model: Any, prefix: str = "") -> dict[str, Tensor]:
    """Every tensor of a model by its path, such as ``"layers.0.weight"``, in order of definition.

    Walks lists, tuples, mappings and the attributes of objects; an object that is reached twice
    is named twice, one inside of itself is not followed.

    Args:
        model: An object with tensors as attributes, or a container of such.
        prefix: What every name starts with.
    """
    found: dict[str, Tensor] = {}
    # (name, object, ids of the containers around it); the top of the stack is next.
    stack: list[tuple[str, Any, frozenset[int]]] = [(prefix.strip("."), model, frozenset())]
    while stack:
        name, item, around = stack.pop()
        if isinstance(item, Tensor):
            found[name] = item
        elif not isinstance(item, _LEAVES) and id(item) not in around:
            inside = around | {id(item)}
            parts = [(f"{name}.{key}" if name else str(key), part, inside)
                     for key, part in _parts(item)]
            stack.extend(reversed(parts))
    return found


def _parts(item: Any) -> list[tuple[Any, Any]]:
    """(name, object) of what an object holds."""
    if isinstance(item, Mapping):
        return list(item.items())
    if isinstance(item, (list, tuple)):
        names = getattr(item, "_fields", None)
        return list(zip(names, item, strict=True)) if names else list(enumerate(item))
    return list(vars(item).items()) if hasattr(item, "__dict__") else []


def get_parameters(model: Any) -> list[Tensor]:
    """Every tensor of a model, each once; what an optimizer is given.

    Running statistics are among them: `requires_grad` is False there, and optimizers compute
    them without training them.
    """
    return list({id(t): t for t in get_state_dict(model).values()}.values())


def load_state_dict(model: Any, state_dict: Mapping[str, Any], strict: bool = True) -> None:
    """Give the tensors of a model the values of a state; they keep their dtypes and devices.

    Args:
        model: The model; changed only if all values fit.
        state_dict: Tensors or arrays by name, as `get_state_dict` names them.
        strict: Refuse names that only one side has.

    Raises:
        KeyError: With `strict`, names are missing or unknown.
        ShapeError: A value has another shape than the model's tensor.
    """
    own = get_state_dict(model)
    missing = [name for name in own if name not in state_dict]
    unknown = [name for name in state_dict if name not in own]
    if strict and (missing or unknown):
        raise KeyError("the state does not fit the model: "
                       f"missing {missing or 'nothing'}, unknown {unknown or 'nothing'}")
    given = {name: value if isinstance(value, Tensor) else Tensor(value)
             for name, value in state_dict.items() if name in own}
    for name, value in given.items():
        if value.shape != own[name].shape:
            raise ShapeError(f"{name} has shape {own[name].shape} in the model and {value.shape} "
                             "in the state")
    for name, value in given.items():
        own[name].assign(value.detach())
    changed = [own[name] for name in given]
    if changed:
        changed[0].realize(*changed[1:])
