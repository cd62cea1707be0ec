"""The symbols of an ELF object file (System V ABI, "Object Files": headers, symbol table)."""

from __future__ import annotations

import struct
from typing import Final

_MAGIC: Final = b"\x7fELF\x02\x01"  # 64 bits, little endian
_SYMBOL_TABLE: Final = 2
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_SYMBOL: Final = struct.Struct("<IBBHQQ")


def undefined_symbols(data: bytes) -> list[str]:
    """Names that an object file needs from elsewhere; empty too for other formats than ELF."""
    if not data.startswith(_MAGIC):
        return []
    (table_at,) = struct.unpack_from("<Q", data, 0x28)
    entry_size, count = struct.unpack_from("<HH", data, 0x3A)
    sections = [_SECTION.unpack_from(data, table_at + k * entry_size) for k in range(count)]
    names = []
    for _, kind, _, _, start, size, link, *_ in sections:
        if kind != _SYMBOL_TABLE:
            continue
        strings = sections[link][4]
        for at in range(start, start + size, _SYMBOL.size):
            name_at, _, _, section, _, _ = _SYMBOL.unpack_from(data, at)
            if name_at and section == 0:
                begin = strings + name_at
                names.append(data[begin:data.index(b"\0", begin)].decode())
    return names
