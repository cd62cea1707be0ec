"""Asking a few modules through pluggy, with errors that name the hook and the mistake.

Each question gets a plugin manager of its own, dropped afterwards. With one shared manager the
order of answers would depend on which device opened first, one raising implementation would abort
everybody's, and a plugin whose first call raised would stay registered (measured with pluggy
1.7.0; a manager costs 0.5 ms).
"""

from __future__ import annotations

import difflib
import inspect
from types import ModuleType
from typing import Any, Final

import pluggy

from core.foundation.errors import PluginError
from core.plugin import hookspecs
from core.plugin.markers import PROJECT

#: Every hook of the API by name, with its arguments.
HOOKS: Final = {
    name: tuple(inspect.signature(function).parameters)
    for name, function in vars(hookspecs).items()
    if name.startswith(f"{PROJECT}_")
}


def hooks_of(*modules: ModuleType) -> pluggy.HookRelay:
    """The hooks as implemented by `modules`: the owner first, then extensions.

    A later module is asked before an earlier one; wrappers nest in the same order.

    Raises:
        PluginError: A hook is misspelt, or takes an argument that it does not have.
    """
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(hookspecs)
    for module in dict.fromkeys(modules):
        _check_names(manager, module)
        try:
            manager.register(module)
        except pluggy.PluginValidationError as error:
            raise PluginError(_wrong_arguments(manager, module) or str(error)) from error
    return manager.hook


def implements(module: ModuleType, hook: str) -> bool:
    """Whether `module` has an implementation of `hook`, decorated as such."""
    return getattr(getattr(module, hook, None), f"{PROJECT}_impl", None) is not None


def _check_names(manager: pluggy.PluginManager, module: ModuleType) -> None:
    for name in dir(module):
        options = manager.parse_hookimpl_opts(module, name)
        if options is None:
            if name in HOOKS and inspect.isfunction(getattr(module, name)):
                raise PluginError(
                    f"{module.__name__}.{name} is not decorated",
                    cure="put @hookimpl from core.plugin above it",
                )
        elif (options.get("specname") or name) not in HOOKS and not options.get("optionalhook"):
            near = difflib.get_close_matches(name, HOOKS, 1)
            raise PluginError(
                f"unknown hook {name!r} in {module.__name__}",
                cure=f"did you mean {near[0]!r}?" if near else f"hooks are {', '.join(HOOKS)}",
            )


def _wrong_arguments(manager: pluggy.PluginManager, module: ModuleType) -> str:
    """Say which implementation of `module` takes an argument that its hook does not have."""
    for name in dir(module):
        options = manager.parse_hookimpl_opts(module, name)
        hook = (options.get("specname") or name) if options else ""
        if hook in HOOKS:
            own: Any = getattr(module, name)
            extra = [a for a in inspect.signature(own).parameters if a not in HOOKS[hook]]
            if extra:
                expected = ", ".join(HOOKS[hook]) or "no arguments"
                return (
                    f"{module.__name__}.{name} takes {', '.join(extra)}, but {hook} has {expected}"
                )
    return ""
