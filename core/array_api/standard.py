"""The names of the standard, version 2024.12, by section: what there is to declare.

`python -m core.tools.count_array_api` counts those that `core.array_api` declares. Of complex
numbers there is nothing here: the dtypes, `conj`, `imag`, `real`, and of the extension fft
what has complex operands or results.
"""

from __future__ import annotations

from types import ModuleType
from typing import Final

NAMES: Final = {
    "constants": "e inf nan newaxis pi",
    "data types": "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64",
    "creation": "arange asarray empty empty_like eye from_dlpack full full_like linspace meshgrid "
                "ones ones_like tril triu zeros zeros_like",
    "data type functions": "astype can_cast finfo iinfo isdtype result_type",
    "elementwise": "abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_left_shift "
                   "bitwise_invert bitwise_or bitwise_right_shift bitwise_xor ceil clip copysign "
                   "cos cosh divide equal exp expm1 floor floor_divide greater greater_equal hypot "
                   "isfinite isinf isnan less less_equal log log1p log2 log10 logaddexp "
                   "logical_and logical_not logical_or logical_xor maximum minimum multiply "
                   "negative nextafter not_equal positive pow reciprocal remainder round sign "
                   "signbit sin sinh square sqrt subtract tan tanh trunc",
    "indexing": "take take_along_axis",
    "inspection": "__array_namespace_info__ __array_api_version__",
    "linear algebra": "matmul matrix_transpose tensordot vecdot",
    "manipulation": "broadcast_arrays broadcast_to concat expand_dims flip moveaxis permute_dims "
                    "repeat reshape roll squeeze stack tile unstack",
    "searching": "argmax argmin count_nonzero nonzero searchsorted where",
    "sets": "unique_all unique_counts unique_inverse unique_values",
    "sorting": "argsort sort",
    "statistical": "cumulative_prod cumulative_sum max mean min prod std sum var",
    "utility": "all any diff",
}
LINALG: Final = (
    "cholesky cross det diagonal eigh eigvalsh inv matmul matrix_norm matrix_power matrix_rank "
    "matrix_transpose outer pinv qr slogdet solve svd svdvals tensordot trace vecdot vector_norm")
FFT: Final = "fftfreq rfftfreq fftshift ifftshift"
ARRAY: Final = (
    "T mT device dtype ndim shape size __abs__ __add__ __and__ __array_namespace__ __bool__ "
    "__complex__ __dlpack__ __dlpack_device__ __eq__ __float__ __floordiv__ __ge__ __getitem__ "
    "__gt__ __iadd__ __iand__ __ifloordiv__ __ilshift__ __imatmul__ __imod__ __imul__ __index__ "
    "__int__ __invert__ __ior__ __ipow__ __irshift__ __isub__ __itruediv__ __ixor__ __le__ "
    "__lshift__ __lt__ __matmul__ __mod__ __mul__ __ne__ __neg__ __or__ __pos__ __pow__ __radd__ "
    "__rand__ __rfloordiv__ __rlshift__ __rmatmul__ __rmod__ __rmul__ __ror__ __rpow__ "
    "__rrshift__ __rshift__ __rsub__ __rtruediv__ __rxor__ __setitem__ __sub__ __truediv__ "
    "__xor__ to_device")


def declared(namespace: ModuleType, array: type) -> dict[str, dict[str, bool]]:
    """Which names are there, by section.

    Args:
        namespace: `core.array_api`.
        array: `Tensor`.
    """
    found = {section: _has(names, namespace) for section, names in NAMES.items()}
    found["array object"] = _has(ARRAY, array)
    for extension, names in (("linalg", LINALG), ("fft", FFT)):
        found[f"extension {extension}"] = _has(names, getattr(namespace, extension, None))
    return found


def _has(names: str, place: object) -> dict[str, bool]:
    return {name: hasattr(place, name) for name in names.split()}
