"""Pickles, read without running anything: an interpreter of the pickle machine of its own.

A pickle is a program for a stack machine, and two of its instructions import and call whatever the
file names. Here a name stands for nothing but itself, and a call is looked up in a table that the
reader of a format hands over. Everything else that the machine can do makes plain numbers, text,
lists, tuples, sets and dicts.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Mapping
from typing import IO, Any, Final, NamedTuple, Protocol, cast

#: Makes the value of a call of a listed name, from its arguments.
Call = Callable[..., Any]


class ByteStream(Protocol):
    """What is read of a file."""

    def read(self, size: int, /) -> bytes:
        """The next bytes."""

    def readline(self) -> bytes:
        """The next bytes up to the end of a line."""

    def tell(self) -> int:
        """Position of the next byte."""


class UnpickleError(ValueError):
    """A pickle is damaged, or wants what is not on the list."""


class Name(NamedTuple):
    """A listed name that a pickle refers to; it cannot be called, and holds nothing.

    Attributes:
        text: As in ``"torch.FloatStorage"``.
    """

    text: str


class _Mark:
    """Where a run of operands begins on the stack."""


_MARK: Final = _Mark()
_CONSTANTS: Final[dict[str, Any]] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_EMPTY: Final[dict[str, Callable[[], Any]]] = {
    "EMPTY_LIST": list, "EMPTY_TUPLE": tuple, "EMPTY_DICT": dict, "EMPTY_SET": set,
}
_LITERALS: Final = frozenset({
    "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT", "STRING",
    "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8",
    "UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8",
})
_IGNORED: Final = frozenset({"PROTO", "FRAME"})


def checked_key(key: Any) -> Any:
    """A key of a dict or item of a set, as it is.

    Raises:
        UnpickleError: It is neither a number, text, bytes nor a tuple of such: a tuple that is
            nested deeply enough takes the process down when it is hashed.
    """
    for part in key if isinstance(key, tuple) else (key,):
        if not isinstance(part, (str, int, float, bytes, type(None))):
            raise UnpickleError(f"it has a {type(part).__name__} as a key")
    return key


def read_pickle(
    file: ByteStream, calls: Mapping[str, Call], names: frozenset[str] = frozenset(),
    persistent: Callable[[Any], Any] | None = None,
) -> Any:
    """The value of one pickle; the file is left behind its end.

    Args:
        file: Where it begins.
        calls: What may be called, by full name, and what then makes the value.
        names: What else may be referred to; a `Name`.
        persistent: Makes the value of a persistent id.

    Raises:
        UnpickleError: It is damaged, or refers to anything that is not listed.
    """
    machine = _Machine(calls, names, persistent)
    try:
        for opcode, argument, _ in pickletools.genops(cast("IO[bytes]", file)):
            if opcode.name == "STOP":
                return machine.pop()
            machine.run(opcode.name, argument)
    except UnpickleError:
        raise
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError,
            RecursionError) as error:
        raise UnpickleError(f"the pickle in it is damaged ({error})") from None
    raise UnpickleError("the pickle in it has no end")


class _Machine:
    """Stack and memo of one pickle."""

    def __init__(
        self, calls: Mapping[str, Call], names: frozenset[str],
        persistent: Callable[[Any], Any] | None,
    ) -> None:
        self.calls, self.names, self.persistent = calls, names, persistent
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def pop(self) -> Any:
        """The operand on top."""
        if not self.stack or self.stack[-1] is _MARK:
            raise UnpickleError("the pickle in it is damaged (an operand is missing)")
        return self.stack.pop()

    def popped_to_mark(self) -> list[Any]:
        """The operands above the last mark."""
        for k in range(len(self.stack) - 1, -1, -1):
            if self.stack[k] is _MARK:
                found = self.stack[k + 1:]
                del self.stack[k:]
                return found
        raise UnpickleError("the pickle in it is damaged (a mark is missing)")

    def run(self, name: str, argument: Any) -> None:
        """One instruction."""
        if name in _LITERALS:
            self.stack.append(argument)
        elif name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name])
        elif name in _EMPTY:
            self.stack.append(_EMPTY[name]())
        elif name not in _IGNORED:
            step = _STEPS.get(name)
            if step is None:
                raise UnpickleError(f"the pickle in it wants {name}, which is not on the list of "
                                    "what may be done")
            step(self, argument)

    def named(self, text: str) -> None:
        """A reference to something of a module."""
        if text not in self.calls and text not in self.names:
            raise UnpickleError(f"it refers to {text}, which is not on the list of what a "
                                "checkpoint may name; nothing of it was run")
        self.stack.append(Name(text))

    def stack_global(self) -> None:
        """A reference whose two parts are operands."""
        attribute, module = self.pop(), self.pop()
        self.named(f"{module}.{attribute}")

    def call(self) -> None:
        """The value that the table gives for a name and its arguments."""
        arguments, function = self.pop(), self.pop()
        if not isinstance(function, Name) or function.text not in self.calls:
            shown = function.text if isinstance(function, Name) else type(function).__name__
            raise UnpickleError(f"it wants to call {shown}, which is not on the list of what may "
                                "be called")
        if not isinstance(arguments, tuple):
            raise UnpickleError("the pickle in it is damaged (arguments are no tuple)")
        self.stack.append(self.calls[function.text](*arguments))

    def build(self) -> None:
        """Attributes of an object: those of dicts are left out, nothing else has any."""
        self.pop()
        if not isinstance(self.stack[-1], dict):
            raise UnpickleError("it gives attributes to what has none: "
                                f"{type(self.stack[-1]).__name__}")

    def persist(self, key: Any) -> None:
        """The value of a persistent id."""
        if self.persistent is None:
            raise UnpickleError("it refers to what is outside of it")
        self.stack.append(self.persistent(key))

    def set_items(self, pairs: list[Any]) -> None:
        """Keys and values for the dict below."""
        target = self._top(dict)
        for key, value in zip(pairs[::2], pairs[1::2], strict=True):
            target[checked_key(key)] = value

    def extend(self, items: list[Any]) -> None:
        """Items for the list below."""
        self._top(list).extend(items)

    def add(self, items: list[Any]) -> None:
        """Items for the set below."""
        self._top(set).update(map(checked_key, items))

    def _top(self, kind: type[Any]) -> Any:
        if not isinstance(self.stack[-1], kind):
            raise UnpickleError(f"the pickle in it is damaged (no {kind.__name__} to fill)")
        return self.stack[-1]

    def last(self, count: int) -> list[Any]:
        """The topmost operands, in order."""
        return [self.pop() for _ in range(count)][::-1]

    def remember(self, key: int) -> None:
        """Note the operand on top."""
        value = self.pop()
        self.stack.append(value)
        self.memo[key] = value

    def push(self, value: Any) -> None:
        """A value made of operands that are taken off already."""
        self.stack.append(value)


def _pairs(items: list[Any]) -> dict[Any, Any]:
    return {checked_key(k): v for k, v in zip(items[::2], items[1::2], strict=True)}


_STEPS: Final[dict[str, Callable[[_Machine, Any], Any]]] = {
    "MARK": lambda m, _: m.push(_MARK),
    "POP": lambda m, _: m.stack.pop(),
    "POP_MARK": lambda m, _: m.popped_to_mark(),
    "DUP": lambda m, _: m.push(m.stack[-1]),
    "LIST": lambda m, _: m.push(m.popped_to_mark()),
    "TUPLE": lambda m, _: m.push(tuple(m.popped_to_mark())),
    "DICT": lambda m, _: m.push(_pairs(m.popped_to_mark())),
    "FROZENSET": lambda m, _: m.push(frozenset(map(checked_key, m.popped_to_mark()))),
    "TUPLE1": lambda m, _: m.push(tuple(m.last(1))),
    "TUPLE2": lambda m, _: m.push(tuple(m.last(2))),
    "TUPLE3": lambda m, _: m.push(tuple(m.last(3))),
    "APPEND": lambda m, _: m.extend(m.last(1)),
    "APPENDS": lambda m, _: m.extend(m.popped_to_mark()),
    "SETITEM": lambda m, _: m.set_items(m.last(2)),
    "SETITEMS": lambda m, _: m.set_items(m.popped_to_mark()),
    "ADDITEMS": lambda m, _: m.add(m.popped_to_mark()),
    "PUT": lambda m, key: m.remember(key),
    "BINPUT": lambda m, key: m.remember(key),
    "LONG_BINPUT": lambda m, key: m.remember(key),
    "MEMOIZE": lambda m, _: m.remember(len(m.memo)),
    "GET": lambda m, key: m.push(m.memo[key]),
    "BINGET": lambda m, key: m.push(m.memo[key]),
    "LONG_BINGET": lambda m, key: m.push(m.memo[key]),
    "GLOBAL": lambda m, text: m.named(text.replace(" ", ".")),
    "STACK_GLOBAL": lambda m, _: m.stack_global(),
    "REDUCE": lambda m, _: m.call(),
    "BUILD": lambda m, _: m.build(),
    "PERSID": lambda m, key: m.persist(key),
    "BINPERSID": lambda m, _: m.persist(m.pop()),
}
