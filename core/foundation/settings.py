"""Every setting of core: name, type, default and one sentence; the only reader of the environment.

A setting X comes, in this order, from ``Context(X=...)``, from ``CORE_X`` in the environment, from
a short alias where it has one (``DEV``), or from its default. Reading one is a plain attribute
access, `settings.SPEC`, cheap enough for the IR's constructor (about 40 ns).

Values belong to a thread: a `Context` in one thread does not change another one, and a new thread
starts with the process's values. `core settings` prints the table.
"""

from __future__ import annotations

import difflib
import functools
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, ParamSpec, Self, TypeVar, cast

from core.foundation.errors import SettingError

PREFIX: Final = "CORE_"
#: Variables that begin with the prefix and are no setting of this table: read elsewhere.
OTHER_VARIABLES: Final = ("CORE_OWNER_", "CORE_TEST_SOURCE", "CORE_AMD_", "CORE_CUDA_")

Value = TypeVar("Value", bool, int, str)
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One row of the table.

    Args:
        name: Name without the prefix.
        default: Value when nothing sets it; its type is the setting's type.
        text: One sentence for `core settings` and the docs.
        alias: A second environment variable, without prefix.
        choices: The values allowed; empty when any value of the type is.
        minimum: Smallest value of an integer.
        fixed: Read once when core starts: a `Context` cannot change it.
    """

    name: str
    default: bool | int | str
    text: str
    alias: str = ""
    choices: tuple[str, ...] = ()
    minimum: int | None = 0
    fixed: bool = False

    @property
    def variable(self) -> str:
        """Name of the environment variable."""
        return PREFIX + self.name


def _declare(default: Value, text: str, **details: Any) -> Value:
    """A row, typed for the checker as the value that it will be replaced by."""
    return cast("Value", Setting(name="", default=default, text=text, **details))


class Settings(threading.local):
    """The current value of every setting; one attribute each, per thread."""

    # What the user chooses.
    DEV = _declare("", "Device to use when none is named, such as CPU or CUDA:1.", alias="DEV")
    FLOAT = _declare(
        "float32",
        "dtype of Python floats and of new float tensors.",
        choices=("float32", "float64", "float16", "bfloat16"),
    )
    INT = _declare(
        "int32", "dtype of Python integers and of index results.", choices=("int32", "int64")
    )
    THREADS = _declare(0, "Threads of devices that run on the host; 0: one per usable core.")
    COPY = _declare(
        "", "Path of all copies between devices; empty: the first that a pair has.",
        choices=("", "queue", "kernel", "map", "host"))
    SEED = _declare(0, "Seed of the random generator before Tensor.manual_seed is called.")

    # How programs are compiled.
    NOOPT = _declare(False, "Apply no loop actions: kernels are plain loops.")
    FUEL = _declare(
        64, "Rewrites for each node of a graph, and 20,000 at least, before RewriteLimitError.",
        minimum=1,
    )
    CACHE = _declare(True, "Keep compiled programs on disk.")
    CACHE_DIR = _declare("", "Folder of the disk cache; empty: the user's cache folder.")
    SCHEDULE_CACHE = _declare(512, "Schedules kept in memory, the least recently used go first.")

    # How core checks itself and what it reports.
    SPEC = _declare(False, "Verify what every compiler pass leaves against its specification.")
    DEBUG = _declare(0, "1: a line per compile; 2: a line per kernel run; 4: its program text too.")
    PROGRESS = _declare(True, "Show a progress line on a terminal when compiling takes a second.")
    TRACE_ERRORS = _declare(True, "Remember the line that made a tensor, for lazy errors.")
    STRICT = _declare(False, "Raise every warning of core as an error.")

    # Plugins.
    DEVICES = _declare(
        "", "Plugins allowed (cpu,amd) or forbidden (-amd), before any of them runs.", fixed=True
    )
    PLUGINS = _declare("", "Modules to load as plugins without installing them.", fixed=True)
    PROBE_SECONDS = _declare(3, "Seconds that the probes for hardware may take.", minimum=1)

    def __init__(self) -> None:
        # threading.local calls this again in each thread that touches the object.
        for name, value in _process_values.items():
            setattr(self, name, value)


def _collect() -> dict[str, Setting]:
    """Take the rows out of the class body, so that only values are left to be found."""
    rows: dict[str, Setting] = {}
    for name, row in list(vars(Settings).items()):
        if isinstance(row, Setting):
            rows[name] = Setting(**{**vars(row), "name": name})
            delattr(Settings, name)
    return rows


#: Every setting by name, in the order of the table.
SETTINGS: Final[Mapping[str, Setting]] = _collect()


def parse(row: Setting, text: str) -> bool | int | str:
    """Read a setting's value from text, as the environment gives it.

    Raises:
        SettingError: The text is no value of the setting's type, or not among its choices.
    """
    text = text.strip()
    if isinstance(row.default, bool):
        known = {"1": True, "true": True, "yes": True, "on": True}
        known |= {"0": False, "false": False, "no": False, "off": False, "": False}
        if text.lower() not in known:
            raise _bad_value(row, text, "0 or 1")
        return known[text.lower()]
    if isinstance(row.default, int):
        try:
            return check(row, int(text, 0))
        except ValueError:
            raise _bad_value(row, text, "an integer") from None
    return check(row, text)


def check(row: Setting, value: object) -> bool | int | str:
    """Return `value` as the setting's type.

    Raises:
        SettingError: Wrong type, below the minimum, or not among the choices.
    """
    kind = type(row.default)
    if kind is bool and value in (0, 1):
        return bool(value)
    if type(value) is bool and kind is int:
        value = int(value)
    if not isinstance(value, kind):
        raise _bad_value(row, value, f"of type {kind.__name__}")
    if row.choices and value not in row.choices:
        raise _bad_value(row, value, f"one of {', '.join(c for c in row.choices if c)}")
    if isinstance(value, int) and row.minimum is not None and value < row.minimum:
        raise _bad_value(row, value, f"at least {row.minimum}")
    return value


def _bad_value(row: Setting, value: object, wanted: str) -> SettingError:
    return SettingError(
        f"setting {row.name} cannot be {value!r}: it must be {wanted}",
        cure=f"set {row.variable} in the environment or {row.name} in Context; {row.text}",
    )


def _read(row: Setting) -> tuple[bool | int | str, str]:
    """Value and origin of one setting in this process's environment."""
    for variable in filter(None, (row.variable, row.alias)):
        if variable in os.environ:
            source = f"{variable} in the environment"
            try:
                return parse(row, os.environ[variable]), source
            except SettingError as error:
                error.message = f"{source}: {error.message}"
                raise
    return row.default, "default"


_process_values: dict[str, bool | int | str] = {}
_process_origins: dict[str, str] = {}


def read_environment() -> None:
    """Read every setting again; this thread and threads started later see the new values."""
    for name, row in SETTINGS.items():
        _process_values[name], _process_origins[name] = _read(row)
    if "settings" in globals():
        for name, value in _process_values.items():
            setattr(settings, name, value)


read_environment()

#: The settings of the running thread: `settings.DEBUG`.
settings: Final = Settings()

_overridden = threading.local()


class Context:
    """Override settings inside a block or a function, in this thread only.

        with Context(DEBUG=2):
            y.realize()

    Raises:
        SettingError: No such setting, a value that does not fit, or one that is read only once.
    """

    def __init__(self, **values: bool | int | str) -> None:
        self._values = {name: check(_row(name), value) for name, value in values.items()}
        self._before: list[tuple[dict[str, bool | int | str], dict[str, int]]] = []

    def __enter__(self) -> Self:
        """Set the values and remember those before."""
        depth = vars(_overridden)
        self._before.append(({name: getattr(settings, name) for name in self._values}, dict(depth)))
        for name, value in self._values.items():
            setattr(settings, name, value)
            depth[name] = depth.get(name, 0) + 1
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Set the values from before again, whatever happened inside."""
        values, depth = self._before.pop()
        for name, value in values.items():
            setattr(settings, name, value)
        vars(_overridden).clear()
        vars(_overridden).update(depth)

    def __call__(self, function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        """Use as a decorator: the values hold during each call."""

        @functools.wraps(function)
        def with_context(*arguments: Arguments.args, **options: Arguments.kwargs) -> Result:
            with Context(**self._values):
                return function(*arguments, **options)

        return with_context


def _row(name: str) -> Setting:
    row = SETTINGS.get(name)
    if row is None:
        near = difflib.get_close_matches(name.upper().removeprefix(PREFIX), SETTINGS, 1, 0.5)
        cure = f"did you mean {near[0]}?" if near else "`core settings` lists them all"
        raise SettingError(f"there is no setting {name!r}", cure=cure)
    if row.fixed:
        raise SettingError(
            f"setting {name} is read once, when core looks for plugins",
            cure=f"set {row.variable} in the environment before Python starts",
        )
    return row


def origin(name: str) -> str:
    """Where the current value of a setting comes from, in words: for messages and the table."""
    if vars(_overridden).get(name):
        return f"Context({name}=...)"
    return _process_origins[name]


def unknown_variables() -> dict[str, str]:
    """Variables in the environment that look like settings and are none, with the nearest name.

    A plugin may read variables of its own, so these are shown by `core settings`, not refused.
    """
    known = {row.variable for row in SETTINGS.values()}
    found = {}
    for variable in sorted(os.environ):
        if not variable.startswith(PREFIX) or variable in known:
            continue
        if not variable.startswith(OTHER_VARIABLES):
            near = difflib.get_close_matches(variable, known, 1, 0.8)
            found[variable] = near[0] if near else ""
    return found


def owner_choice(device: str) -> str:
    """The distribution that ``CORE_OWNER_<device>`` names as the one to use; empty for none."""
    return os.environ.get(f"{PREFIX}OWNER_{device}", "")
