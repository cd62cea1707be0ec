"""What LLVM's code for Hexagon lacks or gets wrong, put into a program's text.

Comparisons. `select(a < b, a, b)` becomes the instruction sfmin (dfmin), which gives the number
where one of the two is NaN, though the select has to give `b`. Written as calls of the instruction
that compares, comparisons are left alone.

Functions. Division of integers and of float64, and square roots, are calls of a runtime library,
named as in the Qualcomm Hexagon ABI. They are defined here and stand in the same text: a kernel
needs nothing from elsewhere. Integers and roots are computed digit by digit, float64 quotients as
integers with a sticky bit; the last step rounds to nearest, ties to even, as IEEE 754 asks.
"""

from __future__ import annotations

import re
from typing import Final

_COMPARISON: Final = re.compile(
    r"^  (%\w+) = fcmp (olt|ogt|ole|oge) (float|double) ([^,\n]+), ([^,\n]+)$", re.MULTILINE)
_DECLARATION: Final = "declare i32 @llvm.hexagon.F2.{0}({1}, {1})\n"


def _comparison(found: re.Match[str]) -> str:
    name, predicate, kind, a, b = found.groups()
    if predicate[1] == "l":
        a, b = b, a
    instruction = f"{'s' if kind == 'float' else 'd'}fcmpg{predicate[2]}"
    return (f"  {name}.bits = call i32 @llvm.hexagon.F2.{instruction}({kind} {a}, {kind} {b})\n"
            f"  {name} = icmp ne i32 {name}.bits, 0")


def complete(text: str) -> str:
    """The text with what LLVM needs to make right and complete code of it."""
    text = _COMPARISON.sub(_comparison, text)
    parts = [text]
    for letter, kind in (("s", "float"), ("d", "double")):
        parts += [_DECLARATION.format(f"{letter}fcmpg{last}", kind) for last in "te"
                  if f"{letter}fcmpg{last}(" in text]
    wanted: dict[str, None] = {}
    for pattern, functions in _NEEDED:
        if pattern.search(text):
            wanted.update(dict.fromkeys(functions))
    return "".join([*parts, *wanted])


# {T}: i32 or i64, {N} its letters, {B} its bits. The divisor is never 0: the renderer sees to it.
_UNSIGNED: Final = """
define internal {{T}, {T}} @divide{B}({T} %n, {T} %d) noinline nounwind {
entry:
  %small = icmp ult {T} %n, %d
  br i1 %small, label %none, label %start
none:
  %n0 = insertvalue {{T}, {T}} poison, {T} 0, 0
  %n1 = insertvalue {{T}, {T}} %n0, {T} %n, 1
  ret {{T}, {T}} %n1
start:
  %nz = call {T} @llvm.ctlz.{T}({T} %n, i1 false)
  %dz = call {T} @llvm.ctlz.{T}({T} %d, i1 false)
  %first = sub {T} %dz, %nz
  br label %digit
digit:
  %s = phi {T} [ %first, %start ], [ %s1, %digit ]
  %r = phi {T} [ %n, %start ], [ %r1, %digit ]
  %q = phi {T} [ 0, %start ], [ %q1, %digit ]
  %t = shl {T} %d, %s
  %c = icmp uge {T} %r, %t
  %rt = sub {T} %r, %t
  %r1 = select i1 %c, {T} %rt, {T} %r
  %one = zext i1 %c to {T}
  %q2 = shl {T} %q, 1
  %q1 = or {T} %q2, %one
  %s1 = add {T} %s, -1
  %last = icmp eq {T} %s, 0
  br i1 %last, label %done, label %digit
done:
  %a0 = insertvalue {{T}, {T}} poison, {T} %q1, 0
  %a1 = insertvalue {{T}, {T}} %a0, {T} %r1, 1
  ret {{T}, {T}} %a1
}
declare {T} @llvm.ctlz.{T}({T}, i1)
define {T} @__hexagon_udiv{N}3({T} %n, {T} %d) nounwind {
  %both = call {{T}, {T}} @divide{B}({T} %n, {T} %d)
  %q = extractvalue {{T}, {T}} %both, 0
  ret {T} %q
}
define {T} @__hexagon_umod{N}3({T} %n, {T} %d) nounwind {
  %both = call {{T}, {T}} @divide{B}({T} %n, {T} %d)
  %r = extractvalue {{T}, {T}} %both, 1
  ret {T} %r
}
define internal {T} @magnitude{B}({T} %x) alwaysinline nounwind {
  %s = ashr {T} %x, {L}
  %y = xor {T} %x, %s
  %z = sub {T} %y, %s
  ret {T} %z
}
define {T} @__hexagon_div{N}3({T} %n, {T} %d) nounwind {
  %nm = call {T} @magnitude{B}({T} %n)
  %dm = call {T} @magnitude{B}({T} %d)
  %q = call {T} @__hexagon_udiv{N}3({T} %nm, {T} %dm)
  %signs = xor {T} %n, %d
  %s = ashr {T} %signs, {L}
  %y = xor {T} %q, %s
  %z = sub {T} %y, %s
  ret {T} %z
}
define {T} @__hexagon_mod{N}3({T} %n, {T} %d) nounwind {
  %nm = call {T} @magnitude{B}({T} %n)
  %dm = call {T} @magnitude{B}({T} %d)
  %r = call {T} @__hexagon_umod{N}3({T} %nm, {T} %dm)
  %s = ashr {T} %n, {L}
  %y = xor {T} %r, %s
  %z = sub {T} %y, %s
  ret {T} %z
}
"""


def _integer(bits: int, letters: str) -> str:
    text = _UNSIGNED
    for old, new in (("T", f"i{bits}"), ("N", letters), ("B", str(bits)), ("L", str(bits - 1))):
        text = text.replace(f"{{{old}}}", new)
    return text


# The mantissa of a finite number that is not 0, as an integer with bit 52 set, and its exponent as
# the field that it would have if fields went below 1.
_NORMALIZED: Final = """
define internal {i64, i64} @normalized(i64 %bits) noinline nounwind {
  %shifted = lshr i64 %bits, 52
  %field = and i64 %shifted, 2047
  %low = and i64 %bits, 4503599627370495
  %zeros = call i64 @llvm.ctlz.i64(i64 %low, i1 false)
  %by = sub i64 %zeros, 11
  %moved = shl i64 %low, %by
  %below = sub i64 1, %by
  %with = or i64 %low, 4503599627370496
  %is_small = icmp eq i64 %field, 0
  %m = select i1 %is_small, i64 %moved, i64 %with
  %e = select i1 %is_small, i64 %below, i64 %field
  %a0 = insertvalue {i64, i64} poison, i64 %m, 0
  %a1 = insertvalue {i64, i64} %a0, i64 %e, 1
  ret {i64, i64} %a1
}
"""

_QUOTIENT: Final = """
define double @__hexagon_divdf3(double %x, double %y) nounwind {
entry:
  %xb = bitcast double %x to i64
  %yb = bitcast double %y to i64
  %signs = xor i64 %xb, %yb
  %sign = and i64 %signs, -9223372036854775808
  %xa = and i64 %xb, 9223372036854775807
  %ya = and i64 %yb, 9223372036854775807
  %x_nan = icmp ugt i64 %xa, 9218868437227405312
  %y_nan = icmp ugt i64 %ya, 9218868437227405312
  %x_inf = icmp eq i64 %xa, 9218868437227405312
  %y_inf = icmp eq i64 %ya, 9218868437227405312
  %x_zero = icmp eq i64 %xa, 0
  %y_zero = icmp eq i64 %ya, 0
  %nans = or i1 %x_nan, %y_nan
  %infs = and i1 %x_inf, %y_inf
  %zeros = and i1 %x_zero, %y_zero
  %both = or i1 %infs, %zeros
  %is_nan = or i1 %nans, %both
  br i1 %is_nan, label %nan, label %no_nan
nan:
  ret double 0x7FF8000000000000
no_nan:
  %is_inf = or i1 %x_inf, %y_zero
  br i1 %is_inf, label %infinite, label %no_inf
infinite:
  %inf_bits = or i64 %sign, 9218868437227405312
  br label %give
no_inf:
  %is_zero = or i1 %x_zero, %y_inf
  br i1 %is_zero, label %give, label %divide
divide:
  %xn = call {i64, i64} @normalized(i64 %xa)
  %yn = call {i64, i64} @normalized(i64 %ya)
  %xm = extractvalue {i64, i64} %xn, 0
  %ym = extractvalue {i64, i64} %yn, 0
  %xe = extractvalue {i64, i64} %xn, 1
  %ye = extractvalue {i64, i64} %yn, 1
  %less = icmp ult i64 %xm, %ym
  %shift = zext i1 %less to i64
  %start = shl i64 %xm, %shift
  %e0 = sub i64 %xe, %ye
  %e1 = sub i64 %e0, %shift
  %e = add i64 %e1, 1023
  br label %digit
digit:
  %k = phi i32 [ 0, %divide ], [ %k1, %digit ]
  %r = phi i64 [ %start, %divide ], [ %r1, %digit ]
  %q = phi i64 [ 0, %divide ], [ %q1, %digit ]
  %c = icmp uge i64 %r, %ym
  %rs = sub i64 %r, %ym
  %rest = select i1 %c, i64 %rs, i64 %r
  %one = zext i1 %c to i64
  %q2 = shl i64 %q, 1
  %q1 = or i64 %q2, %one
  %r1 = shl i64 %rest, 1
  %k1 = add i32 %k, 1
  %more = icmp ult i32 %k1, 55
  br i1 %more, label %digit, label %round
round:
  %inexact = icmp ne i64 %r1, 0
  %sticky = zext i1 %inexact to i64
  %q3 = shl i64 %q1, 1
  %q4 = or i64 %q3, %sticky
  %tiny = icmp slt i64 %e, 1
  %distance = sub i64 1, %e
  %far = icmp sgt i64 %distance, 60
  %near = select i1 %far, i64 60, i64 %distance
  %by = select i1 %tiny, i64 %near, i64 0
  %kept = lshr i64 %q4, %by
  %back = shl i64 %kept, %by
  %dropped = icmp ne i64 %back, %q4
  %drop = zext i1 %dropped to i64
  %q5 = or i64 %kept, %drop
  %m = lshr i64 %q5, 3
  %low = and i64 %q5, 7
  %odd = and i64 %m, 1
  %tie = add i64 %low, %odd
  %up = icmp ugt i64 %tie, 4
  %carry = zext i1 %up to i64
  %rounded = add i64 %m, %carry
  %e2 = sub i64 %e, 1
  %field = select i1 %tiny, i64 0, i64 %e2
  %placed = shl i64 %field, 52
  %finite = add i64 %placed, %rounded
  %over = icmp sgt i64 %e, 2046
  %result = select i1 %over, i64 9218868437227405312, i64 %finite
  %signed = or i64 %result, %sign
  br label %give
give:
  %bits = phi i64 [ %inf_bits, %infinite ], [ %sign, %no_inf ], [ %signed, %round ]
  %value = bitcast i64 %bits to double
  ret double %value
}
"""

# A root has 54 digits: 53 and the one that decides about rounding. There are no ties: the square of
# an odd number of 54 digits has more digits than a float64.
_ROOT: Final = """
define double @sqrt(double %x) nounwind {
entry:
  %bits = bitcast double %x to i64
  %twice = shl i64 %bits, 1
  %is_zero = icmp eq i64 %twice, 0
  %is_inf = icmp eq i64 %bits, 9218868437227405312
  %itself = or i1 %is_zero, %is_inf
  br i1 %itself, label %same, label %other
same:
  ret double %x
other:
  %is_bad = icmp ugt i64 %bits, 9218868437227405312
  br i1 %is_bad, label %nan, label %start
nan:
  ret double 0x7FF8000000000000
start:
  %n = call {i64, i64} @normalized(i64 %bits)
  %m0 = extractvalue {i64, i64} %n, 0
  %field = extractvalue {i64, i64} %n, 1
  %e0 = sub i64 %field, 1023
  %odd = and i64 %e0, 1
  %m1 = shl i64 %m0, %odd
  %e1 = sub i64 %e0, %odd
  br label %digit
digit:
  %k = phi i32 [ 0, %start ], [ %k1, %digit ]
  %m = phi i64 [ %m1, %start ], [ %m2, %digit ]
  %r = phi i64 [ 0, %start ], [ %r1, %digit ]
  %q = phi i64 [ 0, %start ], [ %q1, %digit ]
  %top = lshr i64 %m, 52
  %pair = and i64 %top, 3
  %m2 = shl i64 %m, 2
  %r2 = shl i64 %r, 2
  %r3 = or i64 %r2, %pair
  %q2 = shl i64 %q, 2
  %t = or i64 %q2, 1
  %c = icmp uge i64 %r3, %t
  %rt = sub i64 %r3, %t
  %r1 = select i1 %c, i64 %rt, i64 %r3
  %one = zext i1 %c to i64
  %q3 = shl i64 %q, 1
  %q1 = or i64 %q3, %one
  %k1 = add i32 %k, 1
  %more = icmp ult i32 %k1, 54
  br i1 %more, label %digit, label %round
round:
  %q4 = add i64 %q1, 1
  %rounded = lshr i64 %q4, 1
  %half = ashr i64 %e1, 1
  %e2 = add i64 %half, 1022
  %placed = shl i64 %e2, 52
  %result = add i64 %placed, %rounded
  %value = bitcast i64 %result to double
  ret double %value
}
"""
# Rounding the root in float64 once more to float32 is harmless: 53 digits are more than 2 * 24 + 1
# (Figueroa, "When is double rounding innocuous?", 1995).
_SINGLE_ROOT: Final = """
define float @__hexagon_sqrtf(float %x) nounwind {
  %wide = fpext float %x to double
  %root = call double @sqrt(double %wide)
  %value = fptrunc double %root to float
  ret float %value
}
"""

_NARROW, _WIDE = _integer(32, "si"), _integer(64, "di")
_COUNT_ZEROS: Final = "declare i64 @llvm.ctlz.i64(i64, i1)\n"
_WIDE_ONLY: Final = _WIDE.replace(_COUNT_ZEROS, "")
_NEEDED: Final = (
    (re.compile(r" = [su](div|rem) i(8|16|32) "), (_NARROW,)),
    (re.compile(r" = [su](div|rem) i64 "), (_COUNT_ZEROS, _WIDE_ONLY)),
    (re.compile(r" = fdiv double "), (_COUNT_ZEROS, _NORMALIZED, _QUOTIENT)),
    (re.compile(r"@llvm\.sqrt\.f(32|64)\("), (_COUNT_ZEROS, _NORMALIZED, _ROOT)),
    (re.compile(r"@llvm\.sqrt\.f32\("), (_SINGLE_ROOT,)),
)
