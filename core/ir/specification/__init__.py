"""What each stage of the compiler may hold, as data; `docs/specification.md` is made from it."""

from core.ir.specification.kernel_graph import KERNEL_GRAPH
from core.ir.specification.program import PROGRAM
from core.ir.specification.tensor_graph import TENSOR_GRAPH
from core.ir.specification.verify import Row, Specification, verify

ALL_SPECIFICATIONS = (TENSOR_GRAPH, KERNEL_GRAPH, PROGRAM)

__all__ = [
    "ALL_SPECIFICATIONS", "KERNEL_GRAPH", "PROGRAM", "TENSOR_GRAPH", "Row", "Specification",
    "verify",
]
