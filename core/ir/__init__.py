"""What a program is: dtypes, operations, the interned UOp, rewriting, text and specifications."""

from core.ir.arguments import (
    AddressSpace,
    AxisType,
    BufferSlot,
    CallInfo,
    Constant,
    CustomText,
    Invalid,
    KernelInfo,
    LoopRange,
    ParamSlot,
    ProgramInfo,
    Reduction,
    constant,
)
from core.ir.bounds import bounds, largest_bytes, largest_dimension, maximum_of, minimum_of
from core.ir.dtype import ALL_DTYPES, STORED_DTYPES, DType, dtype_named, dtypes, promote
from core.ir.operation import (
    BINARY_OPS,
    COMMUTATIVE,
    COMPARISON,
    EFFECTS,
    ELEMENTWISE,
    OPERATIONS,
    TERNARY,
    UNARY,
    Op,
    neutral_element,
    operation_flops,
)
from core.ir.pattern import Pattern, Rule, const_var, literal, node, var
from core.ir.rewrite import RuleSet, rewrite
from core.ir.shape import broadcast_shapes, dimensions, product, same_dimension, same_shape
from core.ir.text import parse, text
from core.ir.traversal import (
    address_space,
    device_of,
    map_graph,
    open_ranges,
    own_nodes,
    storage_of,
    substitute,
    toposort,
    users,
)
from core.ir.uop import UOp, live_count

__all__ = [
    "ALL_DTYPES", "BINARY_OPS", "COMMUTATIVE", "COMPARISON", "EFFECTS", "ELEMENTWISE",
    "OPERATIONS", "STORED_DTYPES", "TERNARY", "UNARY",
    "AddressSpace", "AxisType", "BufferSlot", "CallInfo", "Constant", "CustomText", "DType",
    "Invalid", "KernelInfo", "LoopRange", "Op", "ParamSlot", "Pattern", "ProgramInfo", "Reduction",
    "Rule", "RuleSet", "UOp", "address_space", "bounds", "broadcast_shapes", "const_var",
    "constant", "device_of", "dimensions", "dtype_named", "dtypes", "largest_bytes",
    "largest_dimension", "literal",
    "live_count", "map_graph", "maximum_of", "minimum_of", "neutral_element", "node", "open_ranges",
    "operation_flops", "own_nodes", "parse", "product", "promote", "rewrite",
    "same_dimension", "same_shape",
    "storage_of", "substitute", "text", "toposort", "users", "var",
]
