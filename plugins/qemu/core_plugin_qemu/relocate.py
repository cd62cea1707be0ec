"""A linker for kernels: patches an object file's memory for the address at which it will lie.

Numbers and formulas of relocations are those of the processors' ELF psABIs: "RISC-V ELF
Specification", "ELF for the Arm 64-bit Architecture", "Qualcomm Hexagon Application Binary
Interface". A kind that is not handled is an error, never a guess.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Final

from core.plugin import DeviceError
from core_plugin_qemu.elf import ObjectFile, Relocation

AARCH64, RISCV, HEXAGON = 183, 243, 164
_WORD: Final = struct.Struct("<I")
_MASK: Final = 0xFFFFFFFF


def link(parsed: ObjectFile, base: int, elsewhere: Mapping[str, int] | None = None) -> bytes:
    """The object's memory as it has to be when it lies at `base`.

    Args:
        parsed: The object.
        base: Address of its first byte.
        elsewhere: Addresses of what other objects define.

    Raises:
        DeviceError: It needs something that nobody defines, or has an unknown relocation.
    """
    addresses: list[int | None] = []
    for symbol in parsed.symbols:
        there = base + symbol.offset if symbol.offset is not None else (
            elsewhere or {}).get(symbol.name)
        addresses.append(there)
    image = _Image(bytearray(parsed.memory), base, parsed, addresses)
    try:
        patch = _PATCHES[parsed.machine]
    except KeyError:
        raise DeviceError(f"code for processor number {parsed.machine} cannot be linked") from None
    patch(image)
    return bytes(image.memory)


class _Image:
    """An object's memory that is being patched."""

    def __init__(
        self, memory: bytearray, base: int, parsed: ObjectFile, addresses: list[int | None]
    ) -> None:
        self.memory, self.base, self.parsed, self._addresses = memory, base, parsed, addresses

    def target(self, relocation: Relocation) -> int:
        """Address of what a relocation refers to, addend included."""
        address = self._addresses[relocation.symbol]
        if address is None:
            name = self.parsed.symbols[relocation.symbol].name
            raise DeviceError(f"the code needs {name}, which nothing defines")
        return address + relocation.addend

    def word(self, offset: int) -> int:
        """The 32 bits at an offset."""
        return int(_WORD.unpack_from(self.memory, offset)[0])

    def put(self, offset: int, value: int) -> None:
        """Write 32 bits."""
        _WORD.pack_into(self.memory, offset, value & _MASK)

    def replace(self, offset: int, field: int, value: int) -> None:
        """Write the bits of an instruction that `field` has set, the others stay."""
        self.put(offset, (self.word(offset) & ~field) | (value & field))


def _unknown(processor: str, relocation: Relocation) -> DeviceError:
    return DeviceError(f"{processor} code has a relocation of kind {relocation.kind}, "
                       "which is not handled")


def _check_reach(distance: int, bits: int) -> None:
    if not -(1 << (bits - 1)) <= distance < 1 << (bits - 1):
        raise DeviceError(f"a jump of {distance} bytes does not fit into {bits} bits")


# -- RISC-V -----------------------------------------------------------------------------------

_RISCV_IGNORED: Final = frozenset({43, 51})  # ALIGN, RELAX: hints to a linker that shortens code


def _patch_riscv(image: _Image) -> None:
    # The low half of a pair names the instruction that holds the high half.
    high = {r.offset + image.base: image.target(r) - (image.base + r.offset)
            for r in image.parsed.relocations if r.kind == 23}
    for relocation in image.parsed.relocations:
        kind, offset = relocation.kind, relocation.offset
        if kind in _RISCV_IGNORED:
            continue
        target = image.target(relocation)
        distance = target - (image.base + offset)
        if kind == 23:  # PCREL_HI20
            image.replace(offset, 0xFFFFF000, distance + 0x800)
        elif kind == 24:  # PCREL_LO12_I
            image.replace(offset, 0xFFF00000, high[target] << 20)
        elif kind == 25:  # PCREL_LO12_S
            low = high[target] & 0xFFF
            image.replace(offset, 0xFE000F80, (low >> 5) << 25 | (low & 31) << 7)
        elif kind in (18, 19):  # CALL
            image.replace(offset, 0xFFFFF000, distance + 0x800)
            image.replace(offset + 4, 0xFFF00000, distance << 20)
        elif kind == 35:  # ADD32
            image.put(offset, image.word(offset) + target)
        elif kind == 39:  # SUB32
            image.put(offset, image.word(offset) - target)
        elif kind == 57:  # 32_PCREL
            image.put(offset, distance)
        elif kind in _RISCV_JUMPS:
            _RISCV_JUMPS[kind](image, offset, distance)
        else:
            raise _unknown("RISC-V", relocation)


def _scatter(value: int, *pieces: tuple[int, int, int]) -> int:
    """Bits of `value` at other places: each piece is (lowest bit taken, count, lowest bit put)."""
    return sum(((value >> start) & ((1 << count) - 1)) << to for start, count, to in pieces)


def _riscv_branch(image: _Image, offset: int, distance: int) -> None:
    _check_reach(distance, 13)
    image.replace(offset, 0xFE000F80,
                  _scatter(distance, (12, 1, 31), (5, 6, 25), (1, 4, 8), (11, 1, 7)))


def _riscv_jump(image: _Image, offset: int, distance: int) -> None:
    _check_reach(distance, 21)
    image.replace(offset, 0xFFFFF000,
                  _scatter(distance, (20, 1, 31), (1, 10, 21), (11, 1, 20), (12, 8, 12)))


def _short(image: _Image, offset: int, field: int, value: int) -> None:
    """Patch an instruction of 16 bits."""
    (old,) = struct.unpack_from("<H", image.memory, offset)
    struct.pack_into("<H", image.memory, offset, (old & ~field & 0xFFFF) | (value & field))


def _riscv_short_branch(image: _Image, offset: int, distance: int) -> None:
    _check_reach(distance, 9)
    _short(image, offset, 0x1C7C,
           _scatter(distance, (8, 1, 12), (3, 2, 10), (6, 2, 5), (1, 2, 3), (5, 1, 2)))


def _riscv_short_jump(image: _Image, offset: int, distance: int) -> None:
    _check_reach(distance, 12)
    _short(image, offset, 0x1FFC,
           _scatter(distance, (11, 1, 12), (4, 1, 11), (8, 2, 9), (10, 1, 8), (6, 1, 7),
                    (7, 1, 6), (1, 3, 3), (5, 1, 2)))


_RISCV_JUMPS: Final[dict[int, Callable[[_Image, int, int], None]]] = {
    16: _riscv_branch, 17: _riscv_jump, 44: _riscv_short_branch, 45: _riscv_short_jump}


# -- AArch64 ----------------------------------------------------------------------------------

# LDST8, 16, 32, 64 and 128_ABS_LO12_NC: the offset is counted in items of this many bits' shift.
_AARCH64_ITEM_SHIFTS: Final = {278: 0, 284: 1, 285: 2, 286: 3, 299: 4}


def _patch_aarch64(image: _Image) -> None:
    for relocation in image.parsed.relocations:
        kind, offset, target = relocation.kind, relocation.offset, image.target(relocation)
        place = image.base + offset
        distance = target - place
        if kind in (274, 275):  # ADR_PREL_LO21, ADR_PREL_PG_HI21
            if kind == 275:
                distance = (target >> 12) - (place >> 12)
            _check_reach(distance, 21)
            image.replace(offset, 0x60FFFFE0, _scatter(distance, (0, 2, 29), (2, 19, 5)))
        elif kind == 277:  # ADD_ABS_LO12_NC
            image.replace(offset, 0x3FFC00, (target & 0xFFF) << 10)
        elif kind in _AARCH64_ITEM_SHIFTS:
            image.replace(offset, 0x3FFC00, (target & 0xFFF) >> _AARCH64_ITEM_SHIFTS[kind] << 10)
        elif kind in (282, 283):  # JUMP26, CALL26
            _check_reach(distance, 28)
            image.replace(offset, 0x3FFFFFF, distance >> 2)
        elif kind == 261:  # PREL32
            image.put(offset, distance)
        else:
            raise _unknown("AArch64", relocation)


# -- Hexagon ----------------------------------------------------------------------------------


def _spread(value: int, field: int) -> int:
    """The bits of `value`, lowest first, in the places that `field` has set."""
    result = 0
    for bit in range(32):
        if field >> bit & 1:
            result |= (value & 1) << bit
            value >>= 1
    return result


_EXTENDER: Final = 0x0FFF3FFF  # the 26 upper bits of a constant, in an instruction of its own
_CALL: Final = 0x01FF3FFE
_BRANCH_15: Final = 0x00DF20FE


def _patch_hexagon(image: _Image) -> None:
    for relocation in image.parsed.relocations:
        kind, offset, target = relocation.kind, relocation.offset, image.target(relocation)
        distance = target - (image.base + offset)
        if kind in _HEXAGON_FIELDS:
            field, part = _HEXAGON_FIELDS[kind]
            image.replace(offset, field, _spread(part(distance), field))
        elif kind == 6:  # 32
            image.put(offset, target)
        elif kind == 31:  # 32_PCREL
            image.put(offset, distance)
        else:
            raise _unknown("Hexagon", relocation)


# Kind → the field, and what goes there of the distance.
_HEXAGON_FIELDS: Final[dict[int, tuple[int, Callable[[int], int]]]] = {
    1: (_CALL, lambda distance: distance >> 2),  # B22_PCREL
    2: (_BRANCH_15, lambda distance: distance >> 2),  # B15_PCREL
    16: (_EXTENDER, lambda distance: distance >> 6),  # B32_PCREL_X
    18: (_CALL, lambda distance: distance & 0x3F),  # B22_PCREL_X
    65: (0x1F80, lambda distance: distance & 0x3F),  # 6_PCREL_X
}


_PATCHES: Final[dict[int, Callable[[_Image], None]]] = {
    RISCV: _patch_riscv, AARCH64: _patch_aarch64, HEXAGON: _patch_hexagon}
