"""How dialects of C differ, as tables: names of types, of functions, and of what C has no word for.

`c_style` prints all of them. A new dialect is one more `CDialect`; where it needs a new kind of
difference, that becomes a field here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from core.ir import AddressSpace, DType, Op, dtypes


@dataclass(frozen=True, kw_only=True)
class VectorForms:
    """Vector registers of a dialect whose operators work on them; {} stand for texts.

    Args:
        name: The type of {count} lanes of {dtype}.
        declaration: What declares it, of lanes of {type}, {size} bytes of {lane_size} each.
        build: A value out of {lanes}, separated by commas.
        lane: Lane number {lane} of {value}.
        same_bits: The bits of {value} as a vector of type {name}.
        load: The {count} lanes at {pointer}, which is aligned to one of them.
        store: The statement that writes {count} lanes of {value} to {pointer}.
        operators: Operations that take whole vectors; others are done lane by lane.
        dtypes: Those that lanes may have.
        counts: How many lanes there may be.
        largest: Bytes of the largest vector.
    """

    name: str
    declaration: str
    build: str
    lane: str
    same_bits: str
    load: str
    store: str
    operators: frozenset[Op]
    dtypes: frozenset[DType]
    counts: frozenset[int]
    largest: int

    def hold(self, dtype: DType, count: int) -> bool:
        """Whether a value of `count` lanes is a vector and not `count` variables."""
        return (count in self.counts and dtype in self.dtypes
                and count * dtype.itemsize <= self.largest)


@dataclass(frozen=True, kw_only=True)
class CDialect:
    """What one dialect of C calls things; {} in a text stand for its parts.

    Args:
        name: The dialect, for people.
        types: Type of each dtype that it computes in; of bool, a register's.
        suffixes: What a literal of a dtype ends with.
        computed_in: Dtypes whose arithmetic is done in a wider one and rounded once.
        infinity: The float32 that is infinite.
        nan: A float32 that is no number.
        functions: Operations that are calls, by dtype.
        heading: First lines of every text.
        function: Head of a function {name} with {parameters}.
        parameters: Its parameters when it takes all arguments as an array ``args`` of 8-byte
            slots, buffers first, floats as doubles; empty: each is a parameter of its own.
        loop: First item and end of the loop of type THREAD.
        spaces: What stands before the type of a pointer to, or an array in, an address space.
        array: What stands behind the name and size of a private array.
        launch: Launch index of {axis} by the first letter of a SPECIAL's name.
        barrier: The statement where all threads of a work group meet; empty: there is one thread.
        ordered_load: The value at {place}, read before whatever follows.
        ordered_store: The statement that writes {value} to {place} after whatever came before.
        atomic_add: The value at {place} before {value} is added to it atomically.
        vectors: Its vector registers; None: each lane is a variable.
        define: The statement that names a {value} {name}, of {type}.
        cast: A {value} converted to the type {name}.
        choose: {yes} where {condition}, else {no}.
        bits: The bits of {value} seen as {type}; empty: by a union.
        literal: Writes a constant; None: as C does.
        bool_forms: Operations on two bools for which C's operators on integers do not serve.
        unequal: Whether two floats differ, NaN being unlike anything.
        is_number: Whether a float is not NaN.
        shift_count: A shift's second operand.
        counting: Head of a loop over {name} of {type} from {first} to below {bound}.
        endless: Head of a loop that only a break leaves.
        flags: Options that its compiler must be given so that numbers come out as they should.
    """

    name: str
    types: Mapping[DType, str]
    suffixes: Mapping[DType, str]
    infinity: str
    nan: str
    functions: Mapping[Op, Mapping[DType, str]]
    function: str
    heading: str = ""
    parameters: str = ""
    loop: tuple[str, str] = ("lo", "hi")
    computed_in: Mapping[DType, DType] = field(default_factory=dict)
    spaces: Mapping[AddressSpace, str] = field(default_factory=dict)
    array: str = ""
    launch: Mapping[str, str] = field(default_factory=dict)
    barrier: str = ""
    ordered_load: str = ""
    ordered_store: str = ""
    atomic_add: str = ""
    vectors: VectorForms | None = None
    define: str = "{type} {name} = {value};"
    cast: str = "({name}){value}"
    choose: str = "{condition} ? {yes} : {no}"
    bits: str = ""
    literal: Callable[[float, DType], str] | None = None
    bool_forms: Mapping[Op, str] = field(default_factory=dict)
    unequal: str = "{0} != {1}"
    is_number: str = "{0} == {0}"
    shift_count: str = "{0}"
    counting: str = "for ({type} {name} = {first}; {name} < {bound}; {name}++)"
    endless: str = "for (;;)"
    flags: tuple[str, ...] = ()


_INTEGERS: Final = {
    dtypes.int8: "signed char", dtypes.int16: "short", dtypes.int32: "int",
    dtypes.int64: "long long", dtypes.uint8: "unsigned char", dtypes.uint16: "unsigned short",
    dtypes.uint32: "unsigned", dtypes.uint64: "unsigned long long",
}
_FLOATS: Final = {dtypes.float16: "_Float16", dtypes.float32: "float", dtypes.float64: "double"}

#: Vectors of GCC and Clang: gcc.gnu.org/onlinedocs/gcc/Vector-Extensions.html.
GNU_VECTORS: Final = VectorForms(
    name="{dtype}x{count}",
    declaration=(
        "typedef {type} {name} __attribute__((vector_size({size})));\n"
        "typedef {type} {name}_memory "
        "__attribute__((vector_size({size}), aligned({lane_size}), may_alias));"),
    build="({name}){{{lanes}}}",
    lane="{value}[{lane}]",
    same_bits="({name}){value}",
    load="({name})*(const {name}_memory *)({pointer})",
    store="*({name}_memory *)({pointer}) = {value};",
    operators=frozenset({Op.ADD, Op.SUB, Op.MUL, Op.FDIV, Op.NEG, Op.AND, Op.OR, Op.XOR}),
    dtypes=frozenset({*_INTEGERS, dtypes.float32, dtypes.float64}),
    counts=frozenset({2, 4, 8, 16, 32, 64}),
    largest=64,
)

#: C11 with what GCC and Clang add to it; no header is needed.
PLAIN_C: Final = CDialect(
    name="C",
    types={dtypes.bool: "_Bool", **_INTEGERS, **_FLOATS},
    suffixes={dtypes.uint32: "u", dtypes.int64: "ll", dtypes.uint64: "ull", dtypes.float32: "f"},
    computed_in={dtypes.float16: dtypes.float32},
    infinity="__builtin_inff()",
    nan='__builtin_nanf("")',
    functions={
        Op.SQRT: {dtypes.float32: "__builtin_sqrtf({0})", dtypes.float64: "__builtin_sqrt({0})"},
        Op.TRUNC: {dtypes.float32: "__builtin_truncf({0})", dtypes.float64: "__builtin_trunc({0})"},
        Op.MULACC: {dtypes.float32: "__builtin_fmaf({0}, {1}, {2})",
                    dtypes.float64: "__builtin_fma({0}, {1}, {2})"},
    },
    function="void {name}({parameters})",
    parameters="const long long *args, long long lo, long long hi, long long tid",
    array=" __attribute__((aligned(64)))",
    ordered_load="__atomic_load_n(&{place}, __ATOMIC_ACQUIRE)",
    ordered_store="__atomic_store_n(&{place}, {value}, __ATOMIC_RELEASE);",
    atomic_add="__atomic_fetch_add(&{place}, {value}, __ATOMIC_SEQ_CST)",
    vectors=GNU_VECTORS,
    # Products are not fused into sums, buffers may be seen in two dtypes; the other two say that
    # nobody reads errno or the exception flags.
    flags=("-ffp-contract=off", "-fno-strict-aliasing", "-fwrapv", "-fno-math-errno",
           "-fno-trapping-math"),
)
