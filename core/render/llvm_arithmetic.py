"""Elementwise operations as LLVM IR, with the exact numbers of DESIGN section 2.

No fast-math flag is ever written, nothing is contracted, and integers carry no `nsw` or `nuw`:
they wrap.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from core.ir import DType, Op, UOp, bounds, dtypes
from core.render.items import lanes
from core.render.llvm_text import FunctionText, constant_text, register_type, suffix, vector

#: Every elementwise op that has a form here.
PRINTED: Final = frozenset({
    Op.CAST, Op.RECIPROCAL, Op.TRUNC, Op.NEG, Op.SQRT, Op.ADD, Op.SUB, Op.MUL, Op.FDIV,
    Op.TRUNCDIV, Op.TRUNCMOD, Op.MAX, Op.CMPLT, Op.CMPNE, Op.CMPEQ, Op.AND, Op.OR, Op.XOR, Op.SHL,
    Op.SHR, Op.WHERE, Op.MULACC,
})


def code_for_op(*, fma: bool = True, rounding: bool = True) -> frozenset[Op]:
    """The elementwise ops that `render_llvm` prints.

    Args:
        fma: Whether the target has a fused multiply-add instruction; without one MULACC is a
            library call.
        rounding: Whether it rounds floats to integers in one instruction (SSE4.1, any AArch64);
            without one TRUNC is a library call.
    """
    lacking = {Op.MULACC: fma, Op.TRUNC: rounding}
    return PRINTED - {op for op, has in lacking.items() if not has}


# Operation → instruction for (integer, float, bool).
_SIMPLE: Final = {
    Op.ADD: ("add", "fadd", "or"),
    Op.SUB: ("sub", "fsub", "xor"),
    Op.MUL: ("mul", "fmul", "and"),
    Op.FDIV: ("", "fdiv", ""),
    Op.AND: ("and", "", "and"),
    Op.OR: ("or", "", "or"),
    Op.XOR: ("xor", "", "xor"),
}
# Comparison → predicate for (signed, unsigned, float). Ordered, but a NaN differs from anything.
_PREDICATES: Final = {
    Op.CMPLT: ("slt", "ult", "olt"),
    Op.CMPNE: ("ne", "ne", "une"),
    Op.CMPEQ: ("eq", "eq", "oeq"),
}


def binary(function: FunctionText, op: Op, dtype: DType, count: int, a: str, b: str) -> str:
    """ADD, MUL, MAX and the other simple operations of two operands of a dtype and lanes."""
    kind = register_type(dtype, count)
    if op is Op.MAX:
        return _larger(function, dtype, count, a, b)
    column = 2 if dtype.kind == "bool" else int(dtype.is_float)
    return function.let(f"{_SIMPLE[op][column]} {kind} {a}, {b}")


def _larger(function: FunctionText, dtype: DType, count: int, a: str, b: str) -> str:
    kind = register_type(dtype, count)
    if dtype.kind == "bool":
        return function.let(f"or {kind} {a}, {b}")
    # llvm.maximum is the IEEE 754-2019 one: NaN wins and -0 < +0.
    name = "maximum" if dtype.is_float else "smax" if dtype.kind == "signed" else "umax"
    return function.intrinsic(f"llvm.{name}.{suffix(dtype, count)}", kind, (kind, a), (kind, b))


def compare(function: FunctionText, op: Op, dtype: DType, count: int, a: str, b: str) -> str:
    """A comparison: i1 in each lane."""
    column = 2 if dtype.is_float else int(dtype.kind != "signed")
    instruction = "fcmp" if dtype.is_float else "icmp"
    predicate = _PREDICATES[op][column]
    return function.let(f"{instruction} {predicate} {register_type(dtype, count)} {a}, {b}")


def choose(function: FunctionText, kind: str, count: int, gate: str, yes: str, no: str) -> str:
    """`yes` where the i1 of the lane is set, else `no`."""
    return function.let(f"select {vector('i1', count)} {gate}, {kind} {yes}, {kind} {no}")


def _shift(function: FunctionText, node: UOp, a: str, b: str) -> str:
    dtype, count = node.dtype, lanes(node)
    kind, amount = register_type(dtype, count), node.src[1]
    if not (amount.op is Op.CONST and 0 <= amount.value < dtype.bits):
        b = function.let(f"and {kind} {b}, {constant_text(dtype.bits - 1, dtype, count)}")
    right = "ashr" if dtype.kind == "signed" else "lshr"
    return function.let(f"{'shl' if node.op is Op.SHL else right} {kind} {a}, {b}")


def _divide(function: FunctionText, node: UOp, a: str, b: str) -> str:
    """TRUNCDIV and TRUNCMOD: 0 where the divisor is 0, and INT_MIN / -1 wraps.

    The divisor is replaced by 1 where the machine would trap; nothing is added where bounds
    exclude it.
    """
    dtype, count, divisor = node.dtype, lanes(node), node.src[1]
    kind = register_type(dtype, count)
    signed = dtype.kind == "signed"
    instruction = ("s" if signed else "u") + ("div" if node.op is Op.TRUNCDIV else "rem")
    low, high = bounds(divisor)
    zero = constant_text(0, dtype, count)
    is_zero = ""
    if low <= 0 <= high:
        is_zero = bad = function.let(f"icmp eq {kind} {b}, {zero}")
        b = choose(function, kind, count, bad, constant_text(1, dtype, count), b)
    if signed and low <= -1 <= high and bounds(node.src[0])[0] <= dtype.minimum:
        lowest = constant_text(int(dtype.minimum), dtype, count)
        is_lowest = function.let(f"icmp eq {kind} {a}, {lowest}")
        minus_one = function.let(f"icmp eq {kind} {b}, {constant_text(-1, dtype, count)}")
        bad = function.let(f"and {vector('i1', count)} {is_lowest}, {minus_one}")
        # INT_MIN / 1 is what INT_MIN / -1 wraps to, and every remainder by 1 is 0.
        b = choose(function, kind, count, bad, constant_text(1, dtype, count), b)
    result = function.let(f"{instruction} {kind} {a}, {b}")
    if is_zero and node.op is Op.TRUNCDIV:
        return choose(function, kind, count, is_zero, zero, result)
    return result


def _unary(function: FunctionText, node: UOp, a: str) -> str:
    dtype, count = node.dtype, lanes(node)
    kind = register_type(dtype, count)
    if node.op is Op.NEG:
        if dtype.is_float:
            return function.let(f"fneg {kind} {a}")
        return function.let(f"sub {kind} {constant_text(0, dtype, count)}, {a}")
    if node.op is Op.RECIPROCAL:
        return function.let(f"fdiv {kind} {constant_text(1.0, dtype, count)}, {a}")
    if not dtype.is_float:
        return a  # TRUNC of an integer
    name = "trunc" if node.op is Op.TRUNC else "sqrt"
    return function.intrinsic(f"llvm.{name}.{suffix(dtype, count)}", kind, (kind, a))


def elementwise(
    function: FunctionText, node: UOp, operand: Callable[[UOp, int], str]
) -> str:
    """Write an elementwise node and return the name of its value.

    Args:
        function: Where to write.
        node: One of the ops of `PRINTED`.
        operand: Text of a source's value in a number of lanes.
    """
    op, count, dtype = node.op, lanes(node), node.dtype
    values = [operand(s, count) for s in node.src]
    if op is Op.CAST:
        return cast(function, node.src[0].dtype, dtype, count, values[0])
    if op is Op.WHERE:
        return choose(function, register_type(dtype, count), count, *values)
    if op is Op.MULACC:
        kind = register_type(dtype, count)
        arguments = [(kind, value) for value in values]
        return function.intrinsic(f"llvm.fma.{suffix(dtype, count)}", kind, *arguments)
    if op in _PREDICATES:
        return compare(function, op, node.src[0].dtype, count, values[0], values[1])
    if op in (Op.SHL, Op.SHR):
        return _shift(function, node, values[0], values[1])
    if op in (Op.TRUNCDIV, Op.TRUNCMOD):
        return _divide(function, node, values[0], values[1])
    if op in _SIMPLE or op is Op.MAX:
        return binary(function, op, dtype, count, values[0], values[1])
    return _unary(function, node, values[0])


def horizontal(function: FunctionText, op: Op, dtype: DType, count: int, value: str) -> str:
    """Reduce the lanes of a vector to a scalar by halving: lane k meets lane k + n/2.

    Lanes beyond the largest power of two are combined last, in order.
    """
    kind = register_type(dtype, count)
    tail_start = 1 << (count.bit_length() - 1)
    tail = [function.let(f"extractelement {kind} {value}, i32 {k}")
            for k in range(tail_start, count)]
    width = count
    while width > 1:
        half = tail_start // 2 if width == count else width // 2
        kind = register_type(dtype, width)
        parts = []
        for start in (0, half):
            mask = ", ".join(f"i32 {start + k}" for k in range(half))
            parts.append(function.let(
                f"shufflevector {kind} {value}, {kind} poison, <{half} x i32> <{mask}>"))
        value = binary(function, op, dtype, half, parts[0], parts[1])
        width = half
    kind = register_type(dtype, width)
    result = function.let(f"extractelement {kind} {value}, i32 0")
    for lane in tail:
        result = binary(function, op, dtype, 0, result, lane)
    return result


# -- conversions --------------------------------------------------------------------------------


def cast(function: FunctionText, old: DType, new: DType, count: int, value: str) -> str:
    """Numeric conversion between dtypes."""
    if old is new:
        return value
    source, target = register_type(old, count), register_type(new, count)
    if new.kind == "bool":
        zero = constant_text(0, old, count)
        return function.let(f"{'fcmp une' if old.is_float else 'icmp ne'} {source} {value}, {zero}")
    if old.is_float:
        return _float_to(function, old, new, count, value)
    if new.is_float:
        if new is dtypes.float16:
            # float32 holds every integer below 2^24 and the others are infinite in float16.
            wide = cast(function, old, dtypes.float32, count, value)
            return cast(function, dtypes.float32, new, count, wide)
        instruction = "sitofp" if old.kind == "signed" else "uitofp"
        return function.let(f"{instruction} {source} {value} to {target}")
    if new.bits == old.bits:
        return value
    widening = "sext" if old.kind == "signed" else "zext"
    instruction = "trunc" if new.bits < old.bits else widening
    return function.let(f"{instruction} {source} {value} to {target}")


def _float_to(function: FunctionText, old: DType, new: DType, count: int, value: str) -> str:
    source, target = register_type(old, count), register_type(new, count)
    if not new.is_float:
        return _float_to_integer(function, old, new, count, value)
    if old is dtypes.float64 and new is dtypes.float16:
        odd = _round_to_odd(function, count, value)
        return function.let(f"fptrunc {register_type(dtypes.float32, count)} {odd} to {target}")
    if old is dtypes.float16 and new is dtypes.float64:
        value = cast(function, old, dtypes.float32, count, value)
        source = register_type(dtypes.float32, count)
    instruction = "fptrunc" if new.bits < old.bits else "fpext"
    return function.let(f"{instruction} {source} {value} to {target}")


def _round_to_odd(function: FunctionText, count: int, value: str) -> str:
    """float64 → float32 so that a second rounding is the only one that counts.

    What is inexact becomes the odd one of its two neighbours (Boldo and Melquiond, "Emulation of
    a FMA and correctly rounded sums", 2008): from there rounding to float16 is correct, where
    machines have no such instruction and would call a library.
    """
    double, single = (register_type(d, count) for d in (dtypes.float64, dtypes.float32))
    integer, gate = register_type(dtypes.int32, count), vector("i1", count)
    near = function.let(f"fptrunc {double} {value} to {single}")
    back = function.let(f"fpext {single} {near} to {double}")
    name = f"llvm.fabs.{suffix(dtypes.float64, count)}"
    far, exact = (function.intrinsic(name, double, (double, v)) for v in (back, value))
    above = function.let(f"fcmp ogt {double} {far}, {exact}")
    inexact = function.let(f"fcmp one {double} {back}, {value}")
    bits = function.let(f"bitcast {single} {near} to {integer}")
    step = function.let(f"sext {gate} {above} to {integer}")
    down = function.let(f"add {integer} {bits}, {step}")
    sticky = function.let(f"zext {gate} {inexact} to {integer}")
    odd = function.let(f"or {integer} {down}, {sticky}")
    return function.let(f"bitcast {integer} {odd} to {single}")


def _float_to_integer(
    function: FunctionText, old: DType, new: DType, count: int, value: str
) -> str:
    """Toward zero, NaN to 0, saturating; 8 and 16 bits saturate to int32 and keep the low bits."""
    if old is dtypes.float16:
        value, old = cast(function, old, dtypes.float32, count, value), dtypes.float32
    if new.bits < 32:
        whole = _float_to_integer(function, old, dtypes.int32, count, value)
        return cast(function, dtypes.int32, new, count, whole)
    source, target = register_type(old, count), register_type(new, count)
    instruction = "fptosi" if new.kind == "signed" else "fptoui"
    # Out of range the conversion is poison; frozen it is some number, which is never chosen.
    raw = function.let(f"{instruction} {source} {value} to {target}")
    result = function.let(f"freeze {target} {raw}")
    lowest = float(new.minimum)
    beyond = 2.0 ** (new.bits - 1 if new.kind == "signed" else new.bits)
    low = constant_text(int(new.minimum), new, count)
    high = constant_text(int(new.maximum), new, count)
    tests = [
        (f"fcmp oge {source} {value}, {constant_text(beyond, old, count)}", high),
        # "Below or NaN" and then NaN apart: for unsigned both give 0.
        (f"fcmp ult {source} {value}, {constant_text(lowest, old, count)}", low),
    ]
    if new.kind == "signed":
        tests.append((f"fcmp uno {source} {value}, {value}", constant_text(0, new, count)))
    for test, limit in tests:
        result = choose(function, target, count, function.let(test), limit, result)
    return result
