"""Rows of functions: exponentials, trigonometry, activations; within units in the last place."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from core.testing.operations.row import FLOATS, FUNCTIONS, TWO, Array, Row, to_float

_AROUND: Final = (-2.0, 2.0)
_POSITIVE: Final = (0.5, 3.0)
_INSIDE: Final = (-0.9, 0.9)
_ABOVE: Final = (1.2, 3.0)
_EVERYWHERE: Final = np.vectorize(math.erf, otypes=[float])
_COMPLEMENT: Final = np.vectorize(math.erfc, otypes=[float])


def _function(
    method: str, oracle: Callable[[Array], Array], gradient: tuple[float, float] = _AROUND,
    ulps: float = 4, **options: Any,
) -> Row:
    return Row(method=method, call=lambda x: getattr(x, method)(), oracle=oracle, ulps=ulps,
               gradient=gradient, takes=FUNCTIONS, gives=to_float, **options)


def _activation(
    method: str, oracle: Callable[[Array], Array], ulps: float = 6, **options: Any
) -> Row:
    return Row(method=method, call=lambda x: getattr(x, method)(), oracle=oracle, ulps=ulps,
               gradient=_AROUND, takes=FLOATS, **options)


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _softplus(x: Array) -> Any:
    return np.logaddexp(0, x)


def _elu(x: Array) -> Any:
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


def _lerp(a: Array, b: Array, weight: Array) -> Any:
    return a + (b - a) * weight


def _gelu(x: Array) -> Any:
    wide = np.asarray(x, np.float64)
    return wide * 0.5 * _COMPLEMENT(-wide * math.sqrt(0.5))


def _gelu_by_tanh(x: Array) -> Any:
    return x * 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


ROWS: Final = (
    _function("exp", np.exp), _function("exp2", np.exp2), _function("expm1", np.expm1),
    _function("log", np.log, _POSITIVE), _function("log2", np.log2, _POSITIVE),
    _function("log10", np.log10, _POSITIVE), _function("log1p", np.log1p, _POSITIVE),
    _function("rsqrt", lambda x: 1 / np.sqrt(x), _POSITIVE),
    _function("sin", np.sin), _function("cos", np.cos), _function("tan", np.tan, _INSIDE),
    _function("asin", np.arcsin, _INSIDE), _function("acos", np.arccos, _INSIDE),
    _function("atan", np.arctan), _function("sinh", np.sinh), _function("cosh", np.cosh),
    _function("tanh", np.tanh), _function("asinh", np.arcsinh),
    _function("acosh", np.arccosh, _ABOVE), _function("atanh", np.arctanh, _INSIDE),
    _function("erf", _EVERYWHERE), _function("erfc", _COMPLEMENT),
    _function("sigmoid", _sigmoid), _function("logsigmoid", lambda x: -_softplus(-x)),
    _function("softplus", _softplus),
    _activation("silu", lambda x: x * _sigmoid(x)), _activation("swish", lambda x: x * _sigmoid(x)),
    _activation("gelu", _gelu, special=False),
    Row(method="gelu", variant="tanh", call=lambda x: x.gelu("tanh"), oracle=_gelu_by_tanh,
        ulps=60, special=False, gradient=_AROUND, takes=FLOATS),
    _activation("quick_gelu", lambda x: x * _sigmoid(1.702 * x), ulps=40, special=False),
    _activation("mish", lambda x: x * np.tanh(_softplus(x)), ulps=12, special=False),
    _activation("softsign", lambda x: x / (1 + np.abs(x))),
    _activation("elu", _elu), _activation("celu", _elu),
    _activation("selu", lambda x: 1.0507009873554805 * np.where(
        x > 0, x, 1.6732632423543772 * np.expm1(np.minimum(x, 0)))),
    _activation("hardsigmoid", lambda x: np.clip(x / 6 + 0.5, 0, 1), ulps=40),
    _activation("hardswish", lambda x: x * np.clip(x + 3, 0, 6) / 6, ulps=200, special=False),
    _activation("leaky_relu", lambda x: np.where(x > 0, x, 0.01 * x)),
    Row(method="pow", call=lambda a, b: a.abs() ** b, oracle=lambda a, b: np.abs(a) ** b, ulps=4,
        shapes=TWO, takes=FLOATS, gradient=_POSITIVE),
    Row(method="pow", variant="3", call=lambda a: a**3, oracle=lambda a: a**3, ulps=4,
        takes=FLOATS, gradient=_AROUND),
    Row(method="pow", variant="0.5", call=lambda a: a**0.5, oracle=lambda a: np.power(a, 0.5),
        ulps=4, takes=FLOATS, gradient=_POSITIVE, special=False),
    Row(method="logaddexp", call=lambda a, b: a.logaddexp(b), oracle=np.logaddexp, ulps=16,
        shapes=TWO, takes=FLOATS, gradient=_AROUND, sums=16, special=False),
    Row(method="lerp", call=lambda a, b, w: a.lerp(b, w), oracle=_lerp, sums=8, takes=FLOATS,
        shapes=(((3, 5), (3, 5), (3, 5)), ((4, 1), (3,), ()), ((0, 2), (2,), (1,))),
        gradient=_AROUND, special=False),
)
