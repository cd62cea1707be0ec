"""Reference of the plugin API, made from its code: blocks of `docs/plugin-authors.md`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, Field, fields
from typing import Any, Final

from core.plugin import hookspecs, interfaces
from core.plugin.description import Check, DeviceSpec, Probe
from core.plugin.hook_calls import HOOKS
from core.plugin.target import MatrixUnit, Target
from core.render import CDialect, VectorForms

_INTERFACES: Final[tuple[type, ...]] = (
    interfaces.OpenDevice, interfaces.Allocator, interfaces.Renderer, interfaces.Compiler,
    interfaces.Loader, interfaces.Program, interfaces.CopyQueue, interfaces.Recording,
)
_DESCRIPTIONS: Final[tuple[type, ...]] = (DeviceSpec, Probe, Check)
_TARGETS: Final[tuple[type, ...]] = (Target, MatrixUnit)
_DIALECTS: Final[tuple[type, ...]] = (CDialect, VectorForms)
_SECTION: Final = re.compile(r"^(Args|Attributes|Returns|Raises|Example):$", re.MULTILINE)


def _table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    columns = list(columns)
    lines = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    lines += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    return re.sub(r"\|  (?=\|)", "| ", "\n".join(lines))


def _one_line(text: str) -> str:
    return " ".join(text.split())


def sections(documented: Any) -> dict[str, str]:
    """A docstring's parts: "" is what stands before the first of Args, Returns, Raises, ..."""
    text = inspect.cleandoc(documented.__doc__ or "")
    parts = _SECTION.split(text)
    return {"": parts[0].strip(), **dict(zip(parts[1::2], parts[2::2], strict=True))}


def described_arguments(documented: Any) -> dict[str, str]:
    """Name → meaning, out of the docstring's Args or Attributes."""
    found = sections(documented)
    text = inspect.cleandoc(found.get("Args") or found.get("Attributes") or "")
    entries = re.split(r"^(\w+): ", text, flags=re.MULTILINE)
    return {name: _one_line(meaning)
            for name, meaning in zip(entries[1::2], entries[2::2], strict=True)}


def signature(function: Callable[..., Any]) -> str:
    """Name, parameters with types and defaults, and result, as an author writes them."""
    spec = inspect.signature(function)
    kept = [p for name, p in spec.parameters.items() if name != "self"]
    result = "" if spec.return_annotation in (None, "None") else f" -> {spec.return_annotation}"
    return f"{function.__name__}({', '.join(str(p).replace(chr(39), '') for p in kept)}){result}"


def _meaning(function: Callable[..., Any]) -> str:
    parts = sections(function)
    text = _one_line(parts[""])
    text += "".join(f" `{name}`: {meaning}"
                    for name, meaning in described_arguments(function).items())
    for title in ("Returns", "Raises"):
        if title in parts:
            text += f" *{title}* {_one_line(parts[title])}"
    return text


def methods(interface: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    """("must" or "may", method) of an interface, in the order of the source."""
    for name, member in vars(interface).items():
        if inspect.isfunction(member) and (not name.startswith("_") or name == "__call__"):
            abstract = getattr(member, "__isabstractmethod__", False)
            yield ("must" if abstract else "may"), member


def interface_reference() -> str:
    """A section for each interface: its attributes and methods."""
    parts = []
    for interface in _INTERFACES:
        attributes = described_arguments(interface)
        rows = [("`" + name + "`", "", meaning) for name, meaning in attributes.items()]
        rows += [(f"`{signature(m)}`", must, _meaning(m)) for must, m in methods(interface)]
        parts.append(f"### {interface.__name__}\n\n{_one_line(sections(interface)[''])}\n\n"
                     + _table(("member", "", "meaning"), rows))
    return "\n\n".join(parts)


def hook_reference() -> str:
    """Every hook."""
    rows = [(f"`{signature(getattr(hookspecs, name))}`", _meaning(getattr(hookspecs, name)))
            for name in HOOKS]
    return _table(("hook", "asked, and what it is for"), rows)


def _default(field: Field[Any]) -> str:
    if field.default is MISSING and field.default_factory is MISSING:
        return "must be given"
    if field.default is MISSING:
        return "empty"
    if isinstance(field.default, float):
        return f"`{field.default:g}`"
    empty = field.default in ((), frozenset(), "")
    return "empty" if empty else f"`{field.default!r}`"


def field_reference(classes: Iterable[type]) -> str:
    """A section for each dataclass: fields, defaults, meaning."""
    parts = []
    for cls in classes:
        meanings = described_arguments(cls)
        rows = [(f"`{f.name}`", _default(f), meanings[f.name])
                for f in fields(cls)]
        parts.append(f"### {cls.__name__}\n\n{_one_line(sections(cls)[''])}\n\n"
                     + _table(("field", "default", "meaning"), rows))
    return "\n\n".join(parts)


BLOCKS: Final[dict[str, Callable[[], str]]] = {
    "plugin hooks": hook_reference,
    "plugin interfaces": interface_reference,
    "plugin descriptions": lambda: field_reference(_DESCRIPTIONS),
    "plugin target": lambda: field_reference(_TARGETS),
    "plugin dialects": lambda: field_reference(_DIALECTS),
}


def frozen_signatures() -> list[str]:
    """What plugins of this API's major number rely on: hooks, and methods of the interfaces."""
    hooks = [signature(getattr(hookspecs, name)) for name in HOOKS]
    return [*hooks, *(f"{interface.__name__}.{signature(method)} [{must}]"
                      for interface in _INTERFACES for must, method in methods(interface))]
