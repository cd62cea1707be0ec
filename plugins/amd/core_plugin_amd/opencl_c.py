"""OpenCL C: what core's writer of C calls differently, and how arguments come in.

    LINEAR(PARAM 0, PARAM 1, SPECIAL "g0", ...)
    →  __kernel void name(__global char *p0, long o0, __global char *p1, long o1) {...}

A buffer comes with the byte at which its piece begins: OpenCL's own pieces of buffers must begin at
coarse multiples. The first line is a comment that tells the loader what the arguments are.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from core.ir import AddressSpace, DType, Op, UOp, dtypes
from core.render import CDialect, FunctionWriter, VectorForms
from core.render.items import parameters

#: What begins the first line of a text.
HEADER: Final = "// core: "
_TYPES: Final = {
    dtypes.bool: "bool", dtypes.int8: "char", dtypes.int16: "short", dtypes.int32: "int",
    dtypes.int64: "long", dtypes.uint8: "uchar", dtypes.uint16: "ushort", dtypes.uint32: "uint",
    dtypes.uint64: "ulong", dtypes.float32: "float", dtypes.float64: "double",
}
_FLOATS: Final = (dtypes.float32, dtypes.float64)

#: OpenCL C 1.2, 6.1.2 and 6.12.7: vload and vstore ask for the alignment of one lane alone.
_VECTORS: Final = VectorForms(
    name="{type}{count}",
    declaration="",
    build="({name})({lanes})",
    lane="{value}.s{lane:x}",
    same_bits="as_{name}({value})",
    load="vload{count}(0, {pointer})",
    store="vstore{count}({value}, 0, {pointer});",
    operators=frozenset({Op.ADD, Op.SUB, Op.MUL, Op.FDIV, Op.NEG, Op.AND, Op.OR, Op.XOR}),
    dtypes=frozenset(_TYPES) - {dtypes.bool},
    counts=frozenset({2, 4, 8, 16}),
    largest=128,
)


def dialect(types: frozenset[DType], *, fma: bool) -> CDialect:
    """OpenCL C for a device that computes in some dtypes.

    Args:
        types: Those that it stores and computes in.
        fma: Whether its ``fma`` rounds once.
    """
    functions = {
        Op.SQRT: dict.fromkeys(_FLOATS, "sqrt({0})"),
        Op.TRUNC: dict.fromkeys(_FLOATS, "trunc({0})"),
    }
    if fma:
        functions[Op.MULACC] = dict.fromkeys(_FLOATS, "fma({0}, {1}, {2})")
    pragmas = ["#pragma OPENCL FP_CONTRACT OFF"]
    if dtypes.float64 in types:
        pragmas.append("#pragma OPENCL EXTENSION cl_khr_fp64 : enable")
    return CDialect(
        name="OpenCL C",
        types={dtype: name for dtype, name in _TYPES.items() if dtype in types},
        suffixes={dtypes.uint32: "u", dtypes.int64: "L", dtypes.uint64: "UL",
                  dtypes.float32: "f"},
        infinity="INFINITY",
        nan="NAN",
        functions=functions,
        heading="\n".join(pragmas),
        function="__kernel void {name}({parameters})",
        spaces={AddressSpace.GLOBAL: "__global ", AddressSpace.LOCAL: "__local "},
        launch={"g": "get_group_id({axis})", "l": "get_local_id({axis})"},
        barrier="barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);",
        vectors=_VECTORS,
        bits="as_{type}({value})",
    )


class KernelWriter(FunctionWriter):
    """Writes one kernel."""

    def write(self, name: str) -> str:
        """The whole text, behind a line about its arguments."""
        params = parameters(self.items)
        about = {
            "name": name,
            "buffers": sum(p.arg.space is not AddressSpace.ALU for p in params),
            "scalars": [p.dtype.name for p in params if p.arg.space is AddressSpace.ALU],
        }
        return f"{HEADER}{json.dumps(about)}\n{super().write(name)}"

    def _declared(self, node: UOp) -> str:
        slot = node.arg.slot
        if node.arg.space is AddressSpace.ALU:
            return f"{self._memory_type(node.dtype)} s{slot}"
        return f"__global char *p{slot}, long o{slot}"

    def _param(self, node: UOp) -> None:
        super()._param(node)
        if node.arg.space is not AddressSpace.ALU:
            slot, pointer = node.arg.slot, self._pointer(node, node.dtype)
            self.arrays.append(f"  {pointer}b{slot} = ({pointer})(p{slot} + o{slot});")


def render_opencl(name: str, items: Sequence[UOp], language: CDialect) -> str:
    """The text of a program that defines one kernel.

    Args:
        name: Of the kernel.
        items: Of its LINEAR.
        language: What `dialect` gave.

    Raises:
        CompileError: An item has no form in OpenCL C.
    """
    return KernelWriter(items, language).write(name)
