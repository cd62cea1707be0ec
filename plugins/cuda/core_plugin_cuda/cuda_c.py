"""CUDA C: what core's writer of C calls differently, and how arguments come in.

    LINEAR(PARAM 0, PARAM 1, SPECIAL "g0", ...)
    →  extern "C" __global__ void name(float *b0, float *b1, int s2) {...}

The first line is a comment that tells the loader what the arguments are. Numbers come out as IEEE
says: the compiler is told to fuse nothing, to round divisions and roots correctly and to keep
denormals (`FLAGS`). No header is needed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from core.ir import AddressSpace, Op, UOp, dtypes
from core.render import CDialect, FunctionWriter
from core.render.items import parameters

#: What begins the first line of a text.
HEADER: Final = "// core: "
#: Options by which numbers come out as they should.
FLAGS: Final = ("--fmad=false", "--prec-div=true", "--prec-sqrt=true", "--ftz=false")
_TYPES: Final = {
    dtypes.bool: "bool", dtypes.int8: "signed char", dtypes.int16: "short", dtypes.int32: "int",
    dtypes.int64: "long long", dtypes.uint8: "unsigned char", dtypes.uint16: "unsigned short",
    dtypes.uint32: "unsigned", dtypes.uint64: "unsigned long long", dtypes.float16: "float16",
    dtypes.float32: "float", dtypes.float64: "double",
}
# A float16 only lies in memory and is converted, by one instruction each way.
_FLOAT16: Final = """struct float16 {
  unsigned short code;
  float16() = default;
  __device__ float16(int v) : float16((float)v) {}
  __device__ explicit float16(float v) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(code) : "f"(v)); }
  __device__ explicit float16(double v) { asm("cvt.rn.f16.f64 %0, %1;" : "=h"(code) : "d"(v)); }
  __device__ explicit operator float() const {
    float v; asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(code)); return v; }
};"""
_FLOATS: Final = (dtypes.float32, dtypes.float64)

CUDA_C: Final = CDialect(
    name="CUDA C",
    types=_TYPES,
    suffixes={dtypes.uint32: "u", dtypes.int64: "ll", dtypes.uint64: "ull", dtypes.float32: "f"},
    computed_in={dtypes.float16: dtypes.float32},
    infinity="__int_as_float(0x7f800000)",
    nan="__int_as_float(0x7fc00000)",
    functions={
        Op.SQRT: {dtypes.float32: "__fsqrt_rn({0})", dtypes.float64: "__dsqrt_rn({0})"},
        Op.TRUNC: dict.fromkeys(_FLOATS, "trunc({0})"),
        Op.MULACC: {dtypes.float32: "__fmaf_rn({0}, {1}, {2})",
                    dtypes.float64: "__fma_rn({0}, {1}, {2})"},
    },
    function='extern "C" __global__ void {name}({parameters})',
    spaces={AddressSpace.LOCAL: "__shared__ "},
    launch={"g": "blockIdx.{axis}", "l": "threadIdx.{axis}"},
    barrier="__syncthreads();",
    ordered_load="*(volatile decltype({place}) *)&{place}",
    ordered_store="__threadfence(); *(volatile decltype({place}) *)&{place} = {value};",
    atomic_add="atomicAdd(&{place}, {value})",
    flags=FLAGS,
)
_AXES: Final = {"0": "x", "1": "y", "2": "z"}


class KernelWriter(FunctionWriter):
    """Writes one kernel."""

    def __init__(self, items: Sequence[UOp]) -> None:
        # Where nobody meets, nothing is shared: LOCAL memory is a thread's own scratch.
        shares = any(item.op is Op.BARRIER for item in items)
        super().__init__(items, CUDA_C if shares else replace(CUDA_C, spaces={}))

    def write(self, name: str) -> str:
        """The whole text, behind a line about its arguments."""
        return f"{HEADER}{about(name, self.items)}\n{super().write(name)}"

    def _type(self, dtype: object) -> str:
        text = super()._type(dtype)  # type: ignore[arg-type]
        if dtype is dtypes.float16:
            self.types["float16"] = _FLOAT16
        return text

    def _special(self, node: UOp) -> None:
        kind, axis = str(node.arg)[:1], str(node.arg)[-1:]
        self._define(node, [self.dialect.launch[kind].format(axis=_AXES[axis])])

    def _pointer(self, node: UOp, dtype: object) -> str:
        # A pointer knows its address space by itself; only an array is declared with one.
        volatile = "volatile " if node.op is Op.PARAM and node.arg.volatile else ""
        return f"{volatile}{self._memory_type(dtype)} *"  # type: ignore[arg-type]


def about(name: str, items: Sequence[UOp]) -> str:
    """What a loader has to know of a kernel, as JSON."""
    params = parameters(items)
    return json.dumps({
        "name": name,
        "buffers": sum(p.arg.space is not AddressSpace.ALU for p in params),
        "scalars": [_scalar(p) for p in params if p.arg.space is AddressSpace.ALU],
    })


def _scalar(param: UOp) -> str:
    """numpy's name of the type in which a scalar argument comes."""
    dtype = dtypes.int64 if param.dtype.is_weak else param.dtype
    return "uint8" if dtype is dtypes.bool else str(dtype.name)


def render_cuda(name: str, items: Sequence[UOp]) -> str:
    """The text of a program that defines one kernel.

    Args:
        name: Of the kernel.
        items: Of its LINEAR.

    Raises:
        CompileError: An item has no form in CUDA C.
    """
    return KernelWriter(items).write(name)
