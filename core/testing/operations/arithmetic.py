"""Rows of arithmetic, comparison, bits and conversion: all exact."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from core.frontend import Tensor
from core.ir import DType, dtypes
from core.testing.operations.row import (
    ANY,
    FLOATS,
    FUNCTIONS,
    INTEGERS,
    NUMBERS,
    ONE,
    TWO,
    Array,
    Row,
    rounded,
    to_float,
)

_SMOOTH: Final = (-2.0, 2.0)
_POSITIVE: Final = (0.5, 2.0)
_WHOLE: Final = (dtypes.bool, *INTEGERS)
_CASTS: Final = (*FLOATS, *INTEGERS, dtypes.bool)


def _pair(method: str, oracle: Callable[..., Any], **options: Any) -> Row:
    options.setdefault("shapes", TWO)
    return Row(method=method, oracle=oracle, call=lambda a, b: getattr(a, method)(b), **options)


def _one(method: str, oracle: Callable[..., Any], **options: Any) -> Row:
    return Row(method=method, oracle=oracle, call=lambda a: getattr(a, method)(), **options)


def _operator(sign: str, function: Callable[..., Any], **options: Any) -> Row:
    return Row(method=f"__{sign}__", call=function, oracle=function, shapes=TWO, **options)


def maximum(a: Array, b: Array) -> Array:
    """Larger of two: NaN wins, and +0 is above -0."""
    larger = np.maximum(a, b)
    return np.where((a == b) & np.signbit(a), b, larger) if larger.dtype.kind == "f" else larger


def minimum(a: Array, b: Array) -> Array:
    """Smaller of two: NaN wins, and -0 is below +0."""
    smaller = np.minimum(a, b)
    return np.where((a == b) & np.signbit(b), b, smaller) if smaller.dtype.kind == "f" else smaller


def _divide(a: Array, b: Array) -> Array:
    kind = np.result_type(a, b)
    return np.asarray(a / b) if kind.kind == "f" else a.astype("f4") / b.astype("f4")


def _wide(function: Callable[..., Array]) -> Callable[..., Array]:
    """float16 in float32, rounded once: what numpy does in float16 loses digits on the way."""
    def apply(*arrays: Array) -> Array:
        if arrays[0].dtype != np.float16:
            return function(*arrays)
        return function(*(a.astype(np.float32) for a in arrays)).astype(np.float16)
    return apply


def _truncated(a: Array, b: Array) -> Any:
    """Toward zero; by zero 0."""
    if a.dtype.kind == "f":
        return np.trunc(_rounded_quotient(a, b))
    whole = a // np.where(b == 0, 1, b)
    inexact = (whole * b != a) & ((a < 0) != (b < 0))
    return np.where(b == 0, 0, whole + inexact).astype(a.dtype)


def _rounded_quotient(a: Array, b: Array) -> Any:
    return np.asarray(a / b)


def _remainder(a: Array, b: Array) -> Any:
    return np.where(b == 0, 0, np.fmod(a, b)).astype(a.dtype) if a.dtype.kind != "f" \
        else np.fmod(a, b)


def _isclose(a: Array, b: Array) -> Any:
    return np.isclose(a, b)


def converted(x: Array, target: DType) -> Array:
    """A cast as DESIGN, Numbers, has it, which numpy leaves open."""
    if target is dtypes.bool:
        return np.not_equal(x, 0)
    if x.dtype.kind != "f" or target.is_float:
        return rounded(x, target)
    whole = np.trunc(np.where(np.isnan(x), 0, x).astype(np.longdouble))
    wide = np.int32 if target.bits < 32 else np.dtype(target.name)
    info = np.iinfo(wide)
    high, low = np.longdouble(int(info.max)), np.longdouble(int(info.min))
    return np.clip(whole, low, high).astype(wide).astype(target.name)


def _cast(target: DType) -> Row:
    return Row(method="cast", variant=target.name, call=lambda x: x.cast(target), takes=_CASTS,
               oracle=lambda x: converted(x, target), gives=target,
               shapes=((3, 7), (0, 2)), gradient=_SMOOTH if target.is_float else None)


def _named_cast(method: str, target: DType) -> Row:
    return _one(method, lambda x: converted(x, target), gives=target,
                takes=(dtypes.float32, dtypes.int64, dtypes.bool))


def _bits(name: str) -> Row:
    return Row(method="bitcast", variant=name, call=lambda x: x.bitcast(name),
               oracle=lambda x: x.view(name), gives=getattr(dtypes, name), shapes=((3, 8), (0, 8)),
               special=False, takes=(dtypes.float32, dtypes.float64, dtypes.float16, *INTEGERS))


def _shift(method: str, function: Callable[..., Any]) -> Row:
    return _pair(method, function, takes=INTEGERS, low=0, special=False)


def _where(condition: Array, yes: Array, no: Array) -> Array:
    return np.where(condition > 0, yes, no)


_EQUAL: Final = dict[str, Any](gives=dtypes.bool, takes=ANY)
_ORDER: Final = dict[str, Any](gives=dtypes.bool, takes=ANY)

ROWS: Final = (
    _pair("add", operator.add, takes=ANY, gradient=_SMOOTH),
    _pair("sub", operator.sub, gradient=_SMOOTH),
    _pair("mul", operator.mul, takes=ANY, gradient=_SMOOTH),
    _pair("div", _divide, takes=(*FLOATS, dtypes.int32, dtypes.uint8, dtypes.int16),
          gives=to_float, gradient=_POSITIVE),
    Row(method="div", variant="trunc", call=lambda a, b: a.div(b, rounding_mode="trunc"),
        oracle=_truncated, shapes=TWO, takes=(dtypes.float32, dtypes.float64, *INTEGERS)),
    Row(method="div", variant="floor", call=lambda a, b: a.div(b, rounding_mode="floor"),
        oracle=_wide(np.floor_divide), shapes=TWO, takes=NUMBERS),
    _pair("mod", _wide(np.mod)), _pair("fmod", _remainder),
    _one("neg", operator.neg, gradient=_SMOOTH),
    _operator("add", operator.add), _operator("sub", operator.sub),
    _operator("mul", operator.mul), Row(
        method="__floordiv__", call=operator.floordiv, oracle=_wide(np.floor_divide), shapes=TWO),
    _operator("lt", operator.lt, **_ORDER), _operator("le", operator.le, **_ORDER),
    _operator("gt", operator.gt, **_ORDER), _operator("ge", operator.ge, **_ORDER),
    _pair("eq", operator.eq, **_EQUAL), _pair("ne", operator.ne, **_EQUAL),
    _pair("isclose", _isclose, gives=dtypes.bool, takes=(dtypes.float32, dtypes.float64),
          special=False),
    Row(method="allclose", call=lambda a: Tensor(a.allclose(a), device=str(a.device)),
        oracle=lambda a: np.allclose(a, a), gives=dtypes.bool, takes=FLOATS),
    _pair("maximum", maximum, takes=ANY, gradient=_SMOOTH),
    _pair("minimum", minimum, takes=ANY, gradient=_SMOOTH),
    Row(method="clamp", call=lambda x: x.clamp(-1, 2) if x.dtype.is_signed else x.clamp(1, 4),
        oracle=lambda x: np.clip(x, *((1, 4) if x.dtype.kind == "u" else (-1, 2))).astype(x.dtype),
        gradient=(-4.0, 4.0)),
    Row(method="clip", call=lambda x: x.clip(max=3), gradient=(-4.0, 4.0),
        oracle=lambda x: np.minimum(x, x.dtype.type(3))),
    Row(method="where", call=lambda c, a, b: (c > 0).where(a, b), oracle=_where, takes=NUMBERS,
        shapes=(((3, 5), (3, 5), (3, 5)), ((4, 1), (3,), ()), ((0, 2), (1,), (2,))),
        gradient=_SMOOTH),
    Row(method="masked_fill", call=lambda a, b: a.masked_fill(b > 0, 1), takes=NUMBERS,
        oracle=lambda a, b: np.where(b > 0, a.dtype.type(1), a), gradient=_SMOOTH,
        shapes=(((3, 5), (3, 5)), ((4, 3), (3,)), ((2, 0), (1, 1)))),
    _pair("bitwise_and", operator.and_, takes=_WHOLE),
    _pair("bitwise_or", operator.or_, takes=_WHOLE),
    _pair("bitwise_xor", operator.xor, takes=_WHOLE), _one("bitwise_not", np.invert, takes=_WHOLE),
    _shift("lshift", operator.lshift), _shift("rshift", operator.rshift),
    _one("logical_not", np.logical_not, gives=dtypes.bool, takes=ANY),
    _pair("logical_and", np.logical_and, gives=dtypes.bool, takes=ANY),
    _pair("logical_or", np.logical_or, gives=dtypes.bool, takes=ANY),
    _pair("logical_xor", np.logical_xor, gives=dtypes.bool, takes=ANY),
    _pair("copysign", np.copysign, takes=FLOATS, gradient=_SMOOTH),
    *map(_cast, _CASTS),
    *map(_bits, ("int8", "uint16", "uint32", "int64")),
    _named_cast("half", dtypes.float16), _named_cast("bfloat16", dtypes.bfloat16),
    _named_cast("float", dtypes.float32), _named_cast("double", dtypes.float64),
    _named_cast("short", dtypes.int16), _named_cast("int", dtypes.int32),
    _named_cast("long", dtypes.int64), _named_cast("bool", dtypes.bool),
    # one operand, exact
    _one("abs", np.abs, takes=ANY, gradient=_SMOOTH),
    _one("sign", np.sign, gradient=_SMOOTH),
    _one("square", np.square, gradient=_SMOOTH),
    _one("floor", np.floor, gradient=_SMOOTH), _one("ceil", np.ceil, gradient=_SMOOTH),
    _one("trunc", np.trunc, gradient=_SMOOTH), _one("round", np.round, gradient=_SMOOTH),
    _one("isnan", np.isnan, gives=dtypes.bool), _one("isinf", np.isinf, gives=dtypes.bool),
    _one("isfinite", np.isfinite, gives=dtypes.bool),
    _one("relu", lambda x: maximum(x, np.zeros_like(x)), gradient=_SMOOTH),
    _one("relu6", lambda x: minimum(maximum(x, np.zeros_like(x)), np.full_like(x, 6)),
         gradient=(-8.0, 8.0)),
    _one("sqrt", lambda x: np.sqrt(x.astype("f4") if x.dtype.kind != "f" else x), takes=FUNCTIONS,
         gives=to_float, gradient=_POSITIVE),
    _one("reciprocal", lambda x: _divide(np.ones_like(x), x), takes=FUNCTIONS, gives=to_float,
         gradient=_POSITIVE),
    _one("clone", np.copy, takes=ANY, gradient=_SMOOTH),
    _one("contiguous", np.copy, takes=ANY, gradient=_SMOOTH),
    _one("contiguous_backward", np.copy, takes=ANY, gradient=_SMOOTH),
    _one("detach", np.copy, takes=ANY),
    Row(method="hardtanh", call=lambda x: x.hardtanh(), takes=FLOATS, gradient=(-3.0, 3.0),
        oracle=lambda x: np.clip(x, x.dtype.type(-1), x.dtype.type(1)), shapes=ONE),
)
