"""What every printer asks about the items of a program."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Final

from core.ir import AddressSpace, Op, UOp


def parameters(items: Sequence[UOp]) -> list[UOp]:
    """The PARAMs of a program in the order of their argument slots: buffers, then scalars."""
    found = dict.fromkeys(n for n in items if n.op is Op.PARAM)
    return sorted(found, key=lambda p: (p.arg.space is AddressSpace.ALU, p.arg.slot))


_WORD: Final = (1 << 64) - 1


def pack_arguments(addresses: Iterable[int], scalars: Iterable[float]) -> bytes:
    """The slots of 8 bytes from which the functions of LLVM IR and of plain C take arguments.

    Args:
        addresses: Of the buffers' first bytes.
        scalars: Python's floats become doubles, its ints 64 bits.
    """
    words = [*addresses, *map(slot_word, scalars)]
    return struct.pack(f"{len(words)}Q", *words)


def slot_word(value: int | float) -> int:  # noqa: PYI041 -- mypy tells them apart
    """The 8 bytes of a scalar argument as an integer: a double's bits, or modulo 2^64."""
    if isinstance(value, float):
        return int(struct.unpack("Q", struct.pack("d", value))[0])
    return int(value) & _WORD


def lanes(node: UOp) -> int:
    """Lanes of a value of shape (n,); 0 for a scalar."""
    return int(node.shape[0]) if node.shape else 0


def plain(node: UOp) -> UOp:
    """The value behind what only orders."""
    while node.op is Op.AFTER:
        node = node.src[0]
    return node


def root(node: UOp) -> UOp:
    """What stands below views of another dtype and what only orders."""
    while node.op in (Op.AFTER, Op.BITCAST):
        node = node.src[0]
    return node


def is_storage(node: UOp) -> bool:
    """Whether a node is memory: a buffer, a private array, or another dtype's view of one."""
    node = root(node)
    return node.op is Op.BUFFER or (
        node.op is Op.PARAM and node.arg.space is not AddressSpace.ALU)
