"""ELF files of 32 and 64 bits, little endian: objects are read, static executables written.

Layouts are those of the System V ABI, chapters "Object Files" and "Program Loading".
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from core.plugin import DeviceError

_MAGIC: Final = b"\x7fELF"
_LITTLE_ENDIAN: Final = 1
_RELOCATABLE, _EXECUTABLE = 1, 2
_SYMBOL_TABLE, _NO_BITS, _WITH_ADDENDS = 2, 8, 4
_OCCUPIES_MEMORY: Final = 2
_ABSOLUTE: Final = 0xFFF1
_PAGE: Final = 4096


class _Layout(NamedTuple):
    """How one of the two classes of file lays its records out."""

    header: struct.Struct  # from byte 16 on
    section: struct.Struct
    symbol: struct.Struct
    relocation: struct.Struct
    symbol_shift: int  # of the symbol's number in a relocation's information


_LAYOUTS: Final = {
    1: _Layout(struct.Struct("<HHIIIIIHHHHHH"), struct.Struct("<10I"),
               struct.Struct("<IIIBBH"), struct.Struct("<IIi"), 8),
    2: _Layout(struct.Struct("<HHIQQQIHHHHHH"), struct.Struct("<IIQQQQIIQQ"),
               struct.Struct("<IBBHQQ"), struct.Struct("<QQq"), 32),
}


class _Section(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


class Symbol(NamedTuple):
    """A symbol.

    Attributes:
        name: Its name; empty for that of a section.
        offset: Where it lies in the object's memory; None where another object defines it.
        visible: Whether other objects may see it.
    """

    name: str
    offset: int | None
    visible: bool


class Relocation(NamedTuple):
    """A word of the object's memory that depends on where a symbol lies.

    Attributes:
        offset: The word's place in the object's memory.
        kind: What to do, by the number that the processor's ABI gives it.
        symbol: Number of the symbol.
        addend: What is added to its address.
    """

    offset: int
    kind: int
    symbol: int
    addend: int


class ObjectFile(NamedTuple):
    """A relocatable file whose sections are laid out one behind the other.

    Attributes:
        machine: The processor, by the number that the ABI gives it.
        flags: Of the processor.
        memory: Content of all sections that take memory.
        symbols: All symbols.
        relocations: What has to be patched in `memory`.
    """

    machine: int
    flags: int
    memory: bytes
    symbols: tuple[Symbol, ...]
    relocations: tuple[Relocation, ...]

    @property
    def undefined(self) -> list[str]:
        """Names that another object has to define."""
        return [s.name for s in self.symbols if s.offset is None and s.visible and s.name]

    @property
    def defined(self) -> dict[str, int]:
        """Where each visible symbol lies."""
        return {s.name: s.offset for s in self.symbols
                if s.visible and s.name and s.offset is not None}


def read_object(data: bytes) -> ObjectFile:
    """Read a relocatable file.

    Raises:
        DeviceError: The bytes are no such file.
    """
    try:
        return _read(data)
    except (struct.error, IndexError, KeyError, ValueError) as error:
        raise DeviceError(f"no object file, or a damaged one: {error}") from error


def _read(data: bytes) -> ObjectFile:
    if data[:4] != _MAGIC or data[5] != _LITTLE_ENDIAN:
        raise ValueError("it does not begin like an ELF file of little endian")
    layout = _LAYOUTS[data[4]]
    kind, machine, _, _, _, at, flags, _, _, _, entry_size, count, _ = (
        layout.header.unpack_from(data, 16))
    if kind != _RELOCATABLE:
        raise ValueError("the ELF file is not relocatable")
    sections = [_Section(*layout.section.unpack_from(data, at + k * entry_size))
                for k in range(count)]
    memory, places = _lay_out(data, sections)
    symbols: tuple[Symbol, ...] = ()
    relocations: list[Relocation] = []
    for section in sections:
        if section.kind == _SYMBOL_TABLE:
            symbols = _symbols(data, layout, section, sections[section.link].offset, places)
        elif section.kind == _WITH_ADDENDS and section.info in places:
            start, step = places[section.info], layout.relocation.size
            for position in range(section.offset, section.offset + section.size, step):
                offset, info, addend = layout.relocation.unpack_from(data, position)
                shift = layout.symbol_shift
                relocations.append(Relocation(
                    start + offset, info & ((1 << shift) - 1), info >> shift, addend))
    return ObjectFile(machine, flags, memory, symbols, tuple(relocations))


def _lay_out(data: bytes, sections: list[_Section]) -> tuple[bytes, dict[int, int]]:
    """The bytes of all sections in memory, and where each of them begins."""
    memory, places = bytearray(), {}
    for number, section in enumerate(sections):
        if section.flags & _OCCUPIES_MEMORY and section.size:
            memory += bytes(-len(memory) % max(section.alignment, 1))
            places[number] = len(memory)
            memory += (bytes(section.size) if section.kind == _NO_BITS else
                       data[section.offset:section.offset + section.size])
    return bytes(memory), places


def _symbols(
    data: bytes, layout: _Layout, table: _Section, strings: int, places: dict[int, int]
) -> tuple[Symbol, ...]:
    found = []
    for at in range(table.offset, table.offset + table.size, layout.symbol.size):
        if layout is _LAYOUTS[2]:
            name_at, info, _, section, value, _ = layout.symbol.unpack_from(data, at)
        else:
            name_at, value, _, info, _, section = layout.symbol.unpack_from(data, at)
        begin = strings + name_at
        name = data[begin:data.index(b"\0", begin)].decode()
        offset = (places[section] + value if section in places else
                  value if section == _ABSOLUTE else None)
        found.append(Symbol(name, offset, bool(info >> 4)))
    return tuple(found)


def executable(
    memory: bytes, entry: int, *, machine: int, flags: int, wide: bool, base: int
) -> bytes:
    """A static executable of one segment, which may be read, written and run.

    Args:
        memory: What lies at `base` + 4096; the headers come before it.
        entry: Offset in `memory` at which it starts.
        machine: The processor's number.
        flags: Of the processor.
        wide: Whether the file is one of 64 bits.
        base: Address of the file's first byte in memory.
    """
    kind = 2 if wide else 1
    layout = _LAYOUTS[kind]
    size = _PAGE + len(memory)
    segment = (struct.pack("<IIQQQQQQ", 1, 7, 0, base, base, size, size, _PAGE) if wide else
               struct.pack("<8I", 1, 0, base, base, size, size, 7, _PAGE))
    identity = _MAGIC + bytes([kind, _LITTLE_ENDIAN, 1]) + bytes(9)
    header_size = len(identity) + layout.header.size
    header = layout.header.pack(
        _EXECUTABLE, machine, 1, base + _PAGE + entry, header_size, 0, flags, header_size,
        len(segment), 1, layout.section.size, 0, 0)
    return (identity + header + segment).ljust(_PAGE, b"\0") + memory


#: Bytes in front of `memory` in an executable.
HEADER_BYTES: Final = _PAGE
