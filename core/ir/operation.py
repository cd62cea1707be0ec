"""The operation table: every op of the IR, one row each.

`docs/specification.md` is generated from `OPERATIONS`; the shape and dtype rules live in
`shape.py`, what each stage may hold in `specification/`.
"""

from __future__ import annotations

from enum import IntEnum, auto
from typing import Any, Final, NamedTuple

from core.ir.dtype import DType


class Op(IntEnum):
    """Name of an operation. An IntEnum, because its hash is that of an int: one C call."""

    # leaves
    PARAM = auto()
    BUFFER = auto()
    CONST = auto()
    BINARY = auto()
    # movement
    PERMUTE = auto()
    FLIP = auto()
    RESHAPE = auto()
    EXPAND = auto()
    PAD = auto()
    SHRINK = auto()
    INDEX = auto()
    STACK = auto()
    BITCAST = auto()
    UNSHARD = auto()
    # reduce
    REDUCE = auto()
    # calls
    CALL = auto()
    TUPLE = auto()
    GETTUPLE = auto()
    # memory
    LOAD = auto()
    STORE = auto()
    COPY = auto()
    CONTIGUOUS = auto()
    STAGE = auto()
    # order
    RANGE = auto()
    END = auto()
    AFTER = auto()
    GROUP = auto()
    SINK = auto()
    LINEAR = auto()
    BARRIER = auto()
    IF = auto()
    ENDIF = auto()
    # elementwise, one source
    CAST = auto()
    RECIPROCAL = auto()
    TRUNC = auto()
    NEG = auto()
    SQRT = auto()
    EXP = auto()
    EXP2 = auto()
    LOG = auto()
    LOG2 = auto()
    SIN = auto()
    COS = auto()
    # elementwise, two sources
    POW = auto()
    ADD = auto()
    SUB = auto()
    MUL = auto()
    FDIV = auto()
    FLOORDIV = auto()
    FLOORMOD = auto()
    TRUNCDIV = auto()
    TRUNCMOD = auto()
    MAX = auto()
    CMPLT = auto()
    CMPNE = auto()
    CMPEQ = auto()
    AND = auto()
    OR = auto()
    XOR = auto()
    SHL = auto()
    SHR = auto()
    THREEFRY = auto()
    # elementwise, three sources
    WHERE = auto()
    MULACC = auto()
    # markers
    DETACH = auto()
    CONTIGUOUS_BACKWARD = auto()
    # devices
    MSTACK = auto()
    MSELECT = auto()
    ALLREDUCE = auto()
    # code
    SPECIAL = auto()
    WMMA = auto()
    CUSTOM = auto()
    CUSTOMI = auto()
    CUSTOM_FUNCTION = auto()
    ATOMIC_ADD = auto()
    INS = auto()
    GETADDR = auto()
    PROGRAM = auto()
    SOURCE = auto()

    def __repr__(self) -> str:
        return f"Op.{self.name}"


class Operation(NamedTuple):
    """One row of the table: what the sources are, what the argument holds, what it means."""

    group: str
    sources: str
    argument: str
    meaning: str


def _rows(group: str, text: str) -> dict[Op, Operation]:
    rows = {}
    for line in text.strip().splitlines():
        name, sources, argument, meaning = (cell.strip() for cell in line.split("|"))
        rows[Op[name]] = Operation(group, sources, argument, meaning)
    return rows


OPERATIONS: Final[dict[Op, Operation]] = {
    **_rows("leaves", """
PARAM  | shape | ParamSlot(slot, dtype, device, space, bounds, volatile) | placeholder substituted by CALL
BUFFER | shape | BufferSlot(slot, dtype, device, space) | storage; with a tuple of devices one shard each
CONST  | | Constant(dtype, bits) | rank 0 constant, keyed by its bits; bits "invalid" is Invalid
BINARY | | bytes | machine code
"""),
    **_rows("movement", """
PERMUTE | x | order | axis k of the result is axis order[k] of x
FLIP    | x | flags | reverses the flagged axes
RESHAPE | x, shape | | same elements in row-major order
EXPAND  | x, dims | | prepends axes on the left, along which the value repeats
PAD     | x, offset, shape | | x placed at offset in a larger shape; Invalid elsewhere
SHRINK  | x, offset, shape | | the box of that shape at offset
INDEX   | x, index... | | from the left: a rank 0 integer removes its axis, one of higher rank replaces it, several of higher rank are broadcast together where the first stood; negative counts from the end, out of range is Invalid
STACK   | value... | | new leading axis
BITCAST | x | dtype | same bytes; with another item size the last axis grows or shrinks
UNSHARD | x | ranges, axes | concatenates shards: the only place where sharding is said
"""),
    **_rows("reduce", """
REDUCE | x, range... | Reduction(op, axes) | reduces the first axes of x, or RANGEs once lowered; ADD, MAX or MUL; Invalid is skipped
"""),
    **_rows("calls", """
CALL     | body, argument... | CallInfo or None | body with PARAM k replaced by argument k; a SINK, PROGRAM, LINEAR or CUSTOM_FUNCTION body is opaque
TUPLE    | value... | | several values
GETTUPLE | tuple | position | one of them
"""),
    **_rows("memory", """
LOAD       | place | | the value at a place in storage (INDEX or SHRINK of a buffer); a place that is Invalid gives 0
STORE      | place, value | ordered: bool or None | writes value to a place; an Invalid place or value writes nothing
COPY       | x | device | the value on another device
CONTIGUOUS | x | | the value in row-major storage of its own
STAGE      | value, range... | AddressSpace | value tabulated over ranges; in GLOBAL, LOCAL or REG it is materialised, in ALU it is a function of its index
"""),
    **_rows("order", """
RANGE   | bound | LoopRange(id, axis_type) | a loop counter in [0, bound); void RANGE loops while END's condition holds
END     | effect, range... | | closes ranges round an effect
AFTER   | x, effect... | | x once the effects have happened
GROUP   | effect... | | several effects, unordered
SINK    | effect... | KernelInfo or None | root of a kernel or schedule
LINEAR  | item... | | items in order
BARRIER | effect... | | all threads of a work-group meet
IF      | condition | | opens a conditional block
ENDIF   | if | | closes it
"""),
    **_rows("elementwise", """
CAST       | x | dtype | numeric conversion (DESIGN 2, Numbers)
RECIPROCAL | x | | 1 / x, correctly rounded
TRUNC      | x | | toward zero
NEG        | x | | sign flipped; integers wrap
SQRT       | x | | correctly rounded
EXP        | x | | e ** x
EXP2       | x | | 2 ** x
LOG        | x | | natural logarithm
LOG2       | x | | logarithm to base 2
SIN        | x | | sine, radians
COS        | x | | cosine, radians
POW        | x, y | | x ** y as IEEE pow
ADD        | x, y | | sum; integers wrap
SUB        | x, y | | difference; integers wrap
MUL        | x, y | | product; integers wrap
FDIV       | x, y | | quotient of floats, correctly rounded
FLOORDIV   | x, y | | integer quotient rounded down; 0 where y is 0
FLOORMOD   | x, y | | x - y * FLOORDIV(x, y); 0 where y is 0
TRUNCDIV   | x, y | | integer quotient rounded toward zero; 0 where y is 0
TRUNCMOD   | x, y | | x - y * TRUNCDIV(x, y); 0 where y is 0
MAX        | x, y | | larger; NaN wins, -0 < +0
CMPLT      | x, y | | x < y, bool
CMPNE      | x, y | | x != y, bool
CMPEQ      | x, y | | x == y, bool
AND        | x, y | | bitwise or logical and
OR         | x, y | | bitwise or logical or
XOR        | x, y | | bitwise or logical exclusive or
SHL        | x, y | | x << (y mod width)
SHR        | x, y | | x >> (y mod width), arithmetic for signed x
THREEFRY   | counter, key | | Threefry-2x32, 20 rounds (Salmon et al., SC 2011), on uint64
WHERE      | condition, x, y | | x where condition, else y
MULACC     | x, y, z | | x * y + z, fused where Target.fma
"""),
    **_rows("markers", """
DETACH              | x | | x; no gradient passes
CONTIGUOUS_BACKWARD | x | | x; its gradient is made contiguous
"""),
    **_rows("devices", """
MSTACK    | x... | | one value per device
MSELECT   | x | position | the value of one device
ALLREDUCE | x | op | reduction over the devices of x
"""),
    **_rows("code", """
SPECIAL         | bound | name | launch index in [0, bound)
WMMA            | a, b, c | MatrixUnit | matrix multiply-accumulate of a unit
CUSTOM          | x... | text | statement by a kernel's author
CUSTOMI         | x... | text, dtype | expression by a kernel's author
CUSTOM_FUNCTION | x... | name | opaque function of a device
ATOMIC_ADD      | place, value | | adds to a place atomically; its value is the old one
INS             | x... | instruction | one machine instruction
GETADDR         | x | | address of storage as uint64
PROGRAM         | sink, linear, source, binary | ProgramInfo | a kernel at the stages compiled so far
SOURCE          | | text | program text
"""),
}

ELEMENTWISE: Final = frozenset(op for op, row in OPERATIONS.items() if row.group == "elementwise")
UNARY: Final = frozenset(op for op in ELEMENTWISE if "," not in OPERATIONS[op].sources)
BINARY_OPS: Final = frozenset(op for op in ELEMENTWISE if OPERATIONS[op].sources.count(",") == 1)
TERNARY: Final = ELEMENTWISE - UNARY - BINARY_OPS
COMPARISON: Final = frozenset({Op.CMPLT, Op.CMPNE, Op.CMPEQ})
COMMUTATIVE: Final = frozenset({
    Op.ADD, Op.MUL, Op.MAX, Op.CMPNE, Op.CMPEQ, Op.AND, Op.OR, Op.XOR,
})
EFFECTS: Final = frozenset({
    Op.STORE, Op.END, Op.GROUP, Op.SINK, Op.BARRIER, Op.IF, Op.ENDIF, Op.CUSTOM, Op.LINEAR,
})


FUNCTIONS: Final = frozenset({
    Op.EXP, Op.EXP2, Op.LOG, Op.LOG2, Op.SIN, Op.COS, Op.POW, Op.THREEFRY,
})
_FUNCTION_FLOPS: Final = 12


def operation_flops(op: Op) -> int:
    """Arithmetic of one element of an op, in operations; a function counts as a polynomial."""
    if op in FUNCTIONS:
        return _FUNCTION_FLOPS
    return int(op in ELEMENTWISE)


def neutral_element(op: Op, dtype: DType) -> Any:
    """What a reduction by ADD, MUL or MAX starts from: combining it changes nothing but -0.0.

    A sum starts from +0.0, as numpy's does.
    """
    if op is Op.MAX:
        return dtype.minimum
    return {Op.ADD: 0, Op.MUL: 1}[op]
