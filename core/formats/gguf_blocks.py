"""Quantised blocks of GGUF, turned into float32 by operations of Tensor: on the device, when used.

A row of bytes is one block. Layouts after ggml-common.h and dequantize_row_* in ggml-quants.c of
https://github.com/ggml-org/ggml. In the K types 256 values share a float16 scale and have small
integer scales of their own for each 16 or 32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from core.frontend import Tensor
from core.ir import DType, dtypes

_SHORT: Final = 32
_LONG: Final = 256
#: Values of the four bits of IQ4 types.
_UNEVEN: Final = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
#: Values of E2M1 (OCP Microscaling Formats 1.0), twice.
_FOUR_BIT_FLOATS: Final = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)


class Block(NamedTuple):
    """One type of block.

    Attributes:
        name: As ggml calls it.
        elements: Values of one block.
        size_bytes: Its bytes.
        values: (blocks, bytes) uint8 to (blocks, elements) float32.
    """

    name: str
    elements: int
    size_bytes: int
    values: Callable[[Tensor], Tensor]


def _number(x: Tensor, start: int, dtype: DType = dtypes.float16) -> Tensor:
    """One number of each block, as (blocks, 1) float32."""
    return x[:, start:start + dtype.itemsize].bitcast(dtype).float()


def _nibbles(x: Tensor, start: int, size: int) -> Tensor:
    """Low halves of some bytes, then high halves: (blocks, 2 * size)."""
    part = x[:, start:start + size]
    return (part & 15).cat(part >> 4, dim=1)


def _fields(part: Tensor, bits: int) -> Tensor:
    """Fields of bytes, lowest first: (blocks, ..., n) to (blocks, ..., 8 / bits, n)."""
    fields = [(part >> shift) & ((1 << bits) - 1) for shift in range(0, 8, bits)]
    return fields[0].stack(*fields[1:], dim=-2)


def _fifth_bits(x: Tensor, start: int) -> Tensor:
    """32 bits of each block as (blocks, 32) of 0 and 16."""
    part = x[:, start:start + 4].unsqueeze(2).expand(-1, 4, 8)
    places = Tensor.arange(8, dtype=dtypes.uint8, device=x.device)
    return (((part >> places) & 1) << 4).reshape(-1, _SHORT)


def _q4_0(x: Tensor) -> Tensor:
    return (_nibbles(x, 2, 16).float() - 8) * _number(x, 0)


def _q4_1(x: Tensor) -> Tensor:
    return _nibbles(x, 4, 16).float() * _number(x, 0) + _number(x, 2)


def _q5_0(x: Tensor) -> Tensor:
    return ((_nibbles(x, 6, 16) | _fifth_bits(x, 2)).float() - 16) * _number(x, 0)


def _q5_1(x: Tensor) -> Tensor:
    return (_nibbles(x, 8, 16) | _fifth_bits(x, 4)).float() * _number(x, 0) + _number(x, 2)


def _q8_0(x: Tensor) -> Tensor:
    return x[:, 2:34].bitcast(dtypes.int8).float() * _number(x, 0)


def _q8_k(x: Tensor) -> Tensor:
    return x[:, 4:260].bitcast(dtypes.int8).float() * _number(x, 0, dtypes.float32)


def _two_bit_fields(x: Tensor, start: int) -> Tensor:
    """64 bytes as 256 fields: of each 32 bytes the lowest fields, then the next ones."""
    return _fields(x[:, start:start + 64].reshape(-1, 2, 32), 2)


def _q2_k(x: Tensor) -> Tensor:
    scales = x[:, :16]
    scale = (scales & 15).float() * _number(x, 80)
    least = (scales >> 4).float() * _number(x, 82)
    values = _two_bit_fields(x, 16).reshape(-1, 16, 16).float()
    return (values * scale.unsqueeze(2) - least.unsqueeze(2)).reshape(-1, _LONG)


def _q3_k(x: Tensor) -> Tensor:
    low = _nibbles(x, 96, 8)
    high = _fields(x[:, 104:108], 2).reshape(-1, 16)
    scale = ((low | (high << 4)).float() - 32) * _number(x, 108)
    # Where the bit of the mask is missing, 4 is taken off.
    mask = _fields(x[:, :32], 1).reshape(-1, 2, 4, 32)
    values = _two_bit_fields(x, 32).float() - (1 - mask.float()) * 4
    return (values.reshape(-1, 16, 16) * scale.unsqueeze(2)).reshape(-1, _LONG)


def _scales_and_least(x: Tensor, start: int) -> tuple[Tensor, Tensor]:
    """Eight 6-bit scales and eight 6-bit minima of 12 bytes, times the two of the block."""
    first, second, third = (x[:, start + k:start + k + 4] for k in (0, 4, 8))
    scale = (first & 63).cat((third & 15) | ((first >> 6) << 4), dim=1)
    least = (second & 63).cat((third >> 4) | ((second >> 6) << 4), dim=1)
    return ((scale.float() * _number(x, 0)).unsqueeze(2),
            (least.float() * _number(x, 2)).unsqueeze(2))


def _q4_k(x: Tensor) -> Tensor:
    scale, least = _scales_and_least(x, 4)
    values = _fields(x[:, 16:144].reshape(-1, 4, 32), 4).reshape(-1, 8, 32).float()
    return (values * scale - least).reshape(-1, _LONG)


def _q5_k(x: Tensor) -> Tensor:
    scale, least = _scales_and_least(x, 4)
    fifth = _fields(x[:, 16:48], 1)
    values = _fields(x[:, 48:176].reshape(-1, 4, 32), 4).reshape(-1, 8, 32) | (fifth << 4)
    return (values.float() * scale - least).reshape(-1, _LONG)


def _q6_k(x: Tensor) -> Tensor:
    low = _fields(x[:, :128].reshape(-1, 2, 64), 4).reshape(-1, 2, 4, 32)
    high = _fields(x[:, 128:192].reshape(-1, 2, 32), 2)
    scale = x[:, 192:208].bitcast(dtypes.int8).float() * _number(x, 208)
    values = ((low | (high << 4)).float() - 32).reshape(-1, 16, 16)
    return (values * scale.unsqueeze(2)).reshape(-1, _LONG)


def _looked_up(table: tuple[int, ...], index: Tensor) -> Tensor:
    return Tensor(list(table), dtype=dtypes.float32, device=index.device,
                  requires_grad=False)[index.int()]


def _iq4_nl(x: Tensor) -> Tensor:
    return _looked_up(_UNEVEN, _nibbles(x, 2, 16)) * _number(x, 0)


def _iq4_xs(x: Tensor) -> Tensor:
    low = _fields(x[:, 4:8].unsqueeze(2), 4).reshape(-1, 8)
    high = _fields(x[:, 2:4].unsqueeze(2), 2).reshape(-1, 8)
    scale = ((low | (high << 4)).float() - 32) * _number(x, 0)
    values = _looked_up(_UNEVEN, _fields(x[:, 8:136].reshape(-1, 8, 16), 4).reshape(-1, 8, 32))
    return (values * scale.unsqueeze(2)).reshape(-1, _LONG)


def _mxfp4(x: Tensor) -> Tensor:
    exponent = x[:, :1].int()
    # 2**(exponent - 128): the table holds twice the values. The two smallest are denormal.
    bits = (exponent < 2).where(exponent * 0x200000 + 0x200000, (exponent - 1) << 23)
    return _looked_up(_FOUR_BIT_FLOATS, _nibbles(x, 1, 16)) * bits.bitcast(dtypes.float32)


#: By ggml's number of the type.
BLOCKS: Final = {
    2: Block("Q4_0", _SHORT, 18, _q4_0), 3: Block("Q4_1", _SHORT, 20, _q4_1),
    6: Block("Q5_0", _SHORT, 22, _q5_0), 7: Block("Q5_1", _SHORT, 24, _q5_1),
    8: Block("Q8_0", _SHORT, 34, _q8_0),
    10: Block("Q2_K", _LONG, 84, _q2_k), 11: Block("Q3_K", _LONG, 110, _q3_k),
    12: Block("Q4_K", _LONG, 144, _q4_k), 13: Block("Q5_K", _LONG, 176, _q5_k),
    14: Block("Q6_K", _LONG, 210, _q6_k), 15: Block("Q8_K", _LONG, 292, _q8_k),
    20: Block("IQ4_NL", _SHORT, 18, _iq4_nl), 23: Block("IQ4_XS", _LONG, 136, _iq4_xs),
    39: Block("MXFP4", _SHORT, 17, _mxfp4),
}
