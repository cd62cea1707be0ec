"""Random tensors: Threefry on a counter, so that the same seed gives the same bits everywhere.

The state of a device is one uint64 pair in storage: (key, counter). A draw of n elements uses
counters counter ... counter + n - 1 and moves the counter on by n. Inside a trace the state is
read and assigned like any other tensor, so that replays differ.
"""

from __future__ import annotations

import math
import operator
import struct
import threading
from typing import Any, ClassVar, Self

from core.foundation.errors import DTypeError, ShapeError
from core.foundation.fork import survive_fork
from core.foundation.settings import settings
from core.frontend import realization
from core.frontend.base import TensorBase
from core.frontend.broadcasting import as_shape
from core.frontend.conversion import as_dtype, default_float, default_int
from core.frontend.iota import iota
from core.frontend.operations.convolution import ConvolutionOperations
from core.ir import DType, Op, UOp, dtypes, product

_WORD = 1 << 64
_FRACTION_BITS = {
    dtypes.float64: 53, dtypes.float32: 24, dtypes.float16: 11, dtypes.bfloat16: 8,
    dtypes.fp8_e4m3: 4, dtypes.fp8_e5m2: 3,
}


class _State:
    """The random state of one device.

    Args:
        tensor: (key, counter).
        counter: The counter, where the host knows it.
        written: The storage that `counter` describes; another one means that a replay moved on.
    """

    __slots__ = ("counter", "key", "tensor", "written")

    def __init__(self, tensor: TensorBase, key: int, counter: int) -> None:
        self.tensor, self.key, self.counter, self.written = tensor, key, counter, tensor.uop


class RandomOperations(ConvolutionOperations):
    """Random tensors. Shapes are given as numbers or as one tuple."""

    __slots__ = ()
    _random_states: ClassVar[dict[str, _State]] = {}
    _seed: ClassVar[int | None] = None
    _random_lock: ClassVar[Any] = survive_fork(threading.RLock())

    @classmethod
    def manual_seed(cls, seed: int = 0) -> None:
        """Start the random numbers of every device again from a seed."""
        with cls._random_lock:
            RandomOperations._seed = operator.index(seed)
            cls._random_states.clear()

    @classmethod
    def _draw(cls, count: Any, device: str | None) -> UOp:
        """`count` random uint64 numbers."""
        place = realization.default_device() if device is None else \
            realization.device_name(device)
        with cls._random_lock:
            state = cls._random_states.get(place)
            if state is None:
                seed = settings.SEED if cls._seed is None else cls._seed
                state = cls._random_states[place] = _new_state(cls, seed % _WORD, 0, place)
                if realization.running.trace is not None:
                    realization.running.trace.adopt(state.tensor)
            if realization.running.trace is None:
                value = _host_draw(cls, state, count, place)
            else:
                value = state.tensor.uop
                moved = UOp.stack(value.index(0), value.index(1) + count)
                state.tensor._write(moved)  # type: ignore[attr-defined]
        counters = iota(count, dtypes.uint64) + value.index(1)
        return UOp(Op.THREEFRY, (counters, value.index(0)))

    @classmethod
    def rand(
        cls, *shape: Any, dtype: Any = None, device: str | None = None,
        requires_grad: bool | None = None,
    ) -> Self:
        """Uniform in [0, 1): multiples of 2^-24 in float32, equal on every device."""
        sizes, wanted = as_shape(shape), _float_dtype(dtype)
        bits = cls._draw(product(sizes), device)
        value = _uniform(bits, wanted).reshape(sizes)
        return cls._created(value, None, requires_grad)

    @classmethod
    def randn(
        cls, *shape: Any, dtype: Any = None, device: str | None = None,
        requires_grad: bool | None = None,
    ) -> Self:
        """Normal with mean 0 and variance 1 (Box and Muller)."""
        sizes, wanted = as_shape(shape), _float_dtype(dtype)
        bits = cls._draw(product(sizes), device)
        wide = dtypes.float64 if wanted is dtypes.float64 else dtypes.float32
        # Both halves of the 64 bits: a radius from (0, 1], an angle from [0, 1).
        first = ((bits >> 32) + 1).cast(wide) * 2.0**-32
        second = (bits & 0xFFFFFFFF).cast(wide) * (2.0**-32 * 2 * math.pi)
        radius = (first.alu(Op.LOG) * -2.0).alu(Op.SQRT)
        value = (radius * second.alu(Op.COS)).cast(wanted).reshape(sizes)
        return cls._created(value, None, requires_grad)

    @classmethod
    def randint(
        cls, *shape: Any, low: int = 0, high: int = 10, dtype: Any = None,
        device: str | None = None,
    ) -> Self:
        """Integers in [low, high).

        Raises:
            ShapeError: There is no such integer.
            DTypeError: The dtype is a float, or too narrow.
        """
        wanted = default_int() if dtype is None else as_dtype(dtype)
        if wanted.is_float or wanted is dtypes.bool:
            raise DTypeError(f"randint of {wanted.name}: it gives integers")
        if not low < high or high - low > 1 << 32:
            raise ShapeError(f"randint: [{low}, {high}) holds no integer, or more than 2**32")
        if low < wanted.minimum or high - 1 > wanted.maximum:
            raise DTypeError(f"randint: [{low}, {high}) does not fit {wanted.name}")
        sizes = as_shape(shape)
        bits = cls._draw(product(sizes), device)
        scaled = ((bits >> 32) * (high - low)) >> 32
        value = (scaled.cast(dtypes.int64) + low).cast(wanted)
        return cls._created(value.reshape(sizes), None, None)

    @classmethod
    def uniform(
        cls, *shape: Any, low: float = 0.0, high: float = 1.0, dtype: Any = None,
        device: str | None = None, requires_grad: bool | None = None,
    ) -> Self:
        """Uniform in [low, high)."""
        wanted = as_dtype(dtype) if dtype is not None else default_float()
        value = cls.rand(*shape, dtype=_float_dtype(wanted if wanted.is_float else None),
                         device=device)
        spread = value.mul(high - low).add(low).cast(wanted)
        return cls._created(spread.uop, None, requires_grad)

    @classmethod
    def normal(
        cls, *shape: Any, mean: float = 0.0, std: float = 1.0, dtype: Any = None,
        device: str | None = None, requires_grad: bool | None = None,
    ) -> Self:
        """Normal with a mean and a standard deviation."""
        value = cls.randn(*shape, dtype=dtype, device=device).mul(std).add(mean)
        return cls._created(value.uop, None, requires_grad)

    @classmethod
    def scaled_uniform(cls, *shape: Any, **options: Any) -> Self:
        """Uniform in [-1, 1) over the square root of the number of elements."""
        sizes = as_shape(shape)
        bound = product(sizes) ** -0.5 if product(sizes) else 1.0
        return cls.uniform(sizes, low=-bound, high=bound, **options)

    @classmethod
    def glorot_uniform(cls, *shape: Any, **options: Any) -> Self:
        """Uniform, bounded by sqrt(6 / (inputs + outputs)) (Glorot and Bengio, 2010)."""
        sizes = as_shape(shape)
        bound = (6 / max(sizes[0] + product(sizes[1:]), 1)) ** 0.5
        return cls.uniform(sizes, low=-bound, high=bound, **options)

    @classmethod
    def kaiming_uniform(cls, *shape: Any, a: float = 0.01, **options: Any) -> Self:
        """Uniform, bounded by sqrt(6 / ((1 + a²) inputs)) (He et al., 2015)."""
        sizes = as_shape(shape)
        bound = math.sqrt(3.0) * math.sqrt(2.0 / (1 + a**2)) / math.sqrt(max(product(sizes[1:]), 1))
        return cls.uniform(sizes, low=-bound, high=bound, **options)

    @classmethod
    def kaiming_normal(cls, *shape: Any, a: float = 0.01, **options: Any) -> Self:
        """Normal with variance 2 / ((1 + a²) inputs) (He et al., 2015)."""
        sizes = as_shape(shape)
        std = math.sqrt(2.0 / (1 + a**2)) / math.sqrt(max(product(sizes[1:]), 1))
        return cls.normal(sizes, std=std, **options)

    def rand_like(self, dtype: Any = None, **options: Any) -> Self:
        """`rand` in this shape, dtype and device."""
        options.setdefault("device", self._place())
        return type(self).rand(self.shape, dtype=dtype or self.dtype, **options)

    def randn_like(self, dtype: Any = None, **options: Any) -> Self:
        """`randn` in this shape, dtype and device."""
        options.setdefault("device", self._place())
        return type(self).randn(self.shape, dtype=dtype or self.dtype, **options)

    @classmethod
    def _random_state(cls, device: str) -> TensorBase | None:
        """The tensor (key, counter) of a device, or None before its first draw."""
        state = cls._random_states.get(device)
        return None if state is None else state.tensor


def _float_dtype(dtype: Any) -> DType:
    wanted = default_float() if dtype is None else as_dtype(dtype)
    if not wanted.is_float:
        raise DTypeError(f"uniform and normal numbers are floats, not {wanted.name}",
                         cure="use randint for integers")
    return wanted


def _uniform(bits: UOp, dtype: DType) -> UOp:
    """The highest bits, as many as the mantissa holds, as a fraction: exact in every dtype."""
    count = _FRACTION_BITS[dtype]
    top = (bits >> (64 - count)).cast(dtypes.int64 if count > 31 else dtypes.int32)
    wide = dtypes.float64 if dtype is dtypes.float64 else dtypes.float32
    return (top.cast(wide) * 2.0**-count).cast(dtype)


def _new_state(cls: type[TensorBase], key: int, counter: int, device: str) -> _State:
    uop = realization.storage_from_host(struct.pack("=QQ", key, counter), dtypes.uint64, (2,),
                                        device)
    tensor = cls(uop)
    tensor.requires_grad = False
    return _State(tensor, key, counter)


def _host_draw(cls: type[TensorBase], state: _State, count: Any, device: str) -> UOp:
    """The state before a draw outside of a trace; the host writes the state after it.

    Fresh storage each time: the program is the same from draw to draw, and compiles once.
    """
    value = state.tensor.uop
    if value is not state.written:
        (value,) = realization.realize([value])
        state.key, state.counter = struct.unpack("=QQ", realization.read(value))
    counter = (state.counter + int(count)) % _WORD
    data = struct.pack("=QQ", state.key, counter)
    state.tensor.uop = realization.storage_from_host(data, dtypes.uint64, (2,), device)
    state.counter, state.written = counter, state.tensor.uop
    return value
