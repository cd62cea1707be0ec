"""The bench on which a device is tried: values in, graphs run, results compared with REFERENCE."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from core.compiler.compile import compile_linear
from core.compiler.pipeline import schedule
from core.frontend import Tensor
from core.ir import DType, Op, UOp, dtypes, toposort
from core.plugin.opening import OpenedDevice
from core.reference.evaluate import evaluate_all
from core.reference.formats import STORED, Array, decode, encode
from core.runtime import (
    Device,
    new_storage,
    open_device,
    read_bytes,
    realize,
    storage_of_value,
)
from core.runtime.storage import buffer_of, root_buffer
from core.schedule.callify import callify
from core.testing.conformance.launches import LaunchCounter, count_launches

#: Smallest normal number of each float.
SMALLEST_NORMAL: Final = {
    dtypes.fp8_e4m3: 2.0**-6, dtypes.fp8_e5m2: 2.0**-14, dtypes.float16: 2.0**-14,
    dtypes.bfloat16: 2.0**-126, dtypes.float32: 2.0**-126, dtypes.float64: 2.0**-1022,
}


class MismatchError(AssertionError):
    """The device computed something else than it should."""


class NoLaunchError(AssertionError):
    """Nothing was launched in the device's own `Program`."""


def distance(found: Array, expected: Array, dtype: DType) -> Array:
    """How many numbers of the dtype lie between two values: 0 where they are the same.

    Any NaN is any NaN; NaN and a number, or zeros of different signs, are as far as can be.
    Infinity comes right after the largest number.
    """
    if not dtype.is_float:
        return np.where(found == expected, 0, 1)
    far = np.iinfo(np.int64).max
    a, b = (_position(x, dtype) for x in (found, expected))
    across = np.abs(a).astype(np.uint64) + np.abs(b).astype(np.uint64)
    opposite = (a < 0) != (b < 0)  # their difference may not fit
    near = np.abs(np.where(opposite, 0, a) - np.where(opposite, 0, b))
    apart = np.where(opposite, np.minimum(across, np.uint64(far)).astype(np.int64), near)
    unlike = np.isnan(found) != np.isnan(expected)
    unlike |= (found == 0) & (expected == 0) & (np.signbit(found) != np.signbit(expected))
    both = np.isnan(found) & np.isnan(expected)
    return np.where(both, 0, np.where(unlike, far, apart))


def _position(values: Array, dtype: DType) -> Array:
    """Place of each number in the order of all numbers of the dtype; both zeros are 0."""
    stored = np.ascontiguousarray(encode(values, dtype)).reshape(values.shape)
    bits = stored.view(f"u{dtype.itemsize}").astype(np.uint64)
    magnitude = (bits & np.uint64((1 << (dtype.bits - 1)) - 1)).astype(np.int64)
    return np.where(bits >> np.uint64(dtype.bits - 1) == 1, -magnitude, magnitude)


def is_denormal(values: Array, dtype: DType) -> Array:
    """Where a value is, or may be for a device without them, below the normal numbers."""
    if not dtype.is_float:
        return np.zeros(values.shape, np.bool_)
    with np.errstate(invalid="ignore"):
        return np.asarray((values != 0) & (np.abs(values) <= SMALLEST_NORMAL[dtype]))


def compare(
    found: Array, expected: Array, dtype: DType, *, ulps: int = 0,
    where: Array | None = None, operands: Sequence[Array] = (), what: str = "",
) -> None:
    """Raise unless two arrays agree.

    Args:
        found: What the device computed.
        expected: What it should be.
        dtype: Of both.
        ulps: How many numbers of the dtype they may be apart.
        where: Which elements count; all if None.
        operands: Arrays of the same shape to show with an element that differs.
        what: Name of the value.

    Raises:
        MismatchError: Says how many differ, and shows the worst one.
    """
    if found.shape != expected.shape:
        raise MismatchError(f"{what} has shape {found.shape}, expected {expected.shape}")
    apart = distance(found, expected, dtype)
    if where is not None:
        apart = np.where(where, apart, 0)
    wrong = apart > ulps
    if not wrong.any():
        return
    at = tuple(int(i) for i in np.unravel_index(int(np.argmax(apart)), apart.shape))
    given = ", ".join(repr(x[at]) for x in operands)
    raise MismatchError(
        f"{what} {dtype.name}: {int(wrong.sum())} of {found.size} differ; worst at {list(at)}"
        + f" of ({given})" * bool(given) + f": {found[at]!r}, expected {expected[at]!r}"
        + f" within {ulps} ulp" * bool(ulps))


def compare_near(found: Array, expected: Array, bound: Any, what: str = "") -> None:
    """Raise unless floats agree within an absolute bound, which may differ by element.

    Raises:
        MismatchError: Says how many differ, and shows the worst one.
    """
    if found.shape != expected.shape:
        raise MismatchError(f"{what} has shape {found.shape}, expected {expected.shape}")
    wide, right = found.astype(np.float64), expected.astype(np.float64)
    with np.errstate(all="ignore"):
        error = np.abs(wide - right)
    same = (wide == right) | (np.isnan(wide) & np.isnan(right))
    error = np.where(same, 0, np.where(np.isnan(error), np.inf, error))
    excess = error - np.broadcast_to(bound, error.shape)
    if not (excess > 0).any():
        return
    at = tuple(int(i) for i in np.unravel_index(int(np.argmax(excess)), excess.shape))
    raise MismatchError(f"{what}: {int((excess > 0).sum())} of {found.size} differ; worst at "
                        f"{list(at)}: {found[at]!r}, expected {expected[at]!r} within "
                        f"{np.broadcast_to(bound, error.shape)[at]:.3g}")


class Bench:
    """One device under test.

    Attributes:
        name: Its canonical name: ``CPU``, ``CUDA:1``, ``CUDA::LLVM``.
        opened: The open device; its loaders count.
        counter: Launches so far.
    """

    def __init__(self, name: str, opened: OpenedDevice, counter: LaunchCounter) -> None:
        self.name, self.opened, self.counter = name, opened, counter

    @contextmanager
    def launching(self) -> Iterator[None]:
        """A block in which the device's own programs have to run.

        Raises:
            NoLaunchError: None did.
        """
        own, foreign = self.counter.own, self.counter.foreign
        yield
        if self.counter.own == own:
            others = self.counter.foreign - foreign
            raise NoLaunchError(
                f"no launch ran in a Program of {self.opened.spec.module}: {others} ran in others; "
                f"loaded were {', '.join(sorted(self.counter.classes)) or 'none'}")

    @contextmanager
    def as_default(self) -> Iterator[None]:
        """A block in which the device is the one that is used where none is named."""
        before = Device._default  # DEFAULT reads as the chosen one where none is set
        Device.DEFAULT = self.name
        try:
            yield
        finally:
            Device.DEFAULT = before

    def programs(self, values: Sequence[UOp]) -> list[UOp]:
        """The compiled PROGRAMs of some values, in order, not run."""
        call = callify(values, self.name, storage_of_value).call
        assert call is not None, "the values are computed already"
        linear = schedule(call.src[0], self.opened.target)
        compiled = compile_linear(linear, lambda name: open_device(name or self.name))
        return [step.src[0] for step in compiled.src]

    def place(self, values: Array, dtype: DType) -> UOp:
        """Storage on the device that holds some values."""
        data = np.ascontiguousarray(encode(values, dtype))
        return new_storage(self.name, dtype, values.shape, data.view(np.uint8).data)

    def storage(self, tensor: Tensor) -> Any:
        """The device's block below a computed tensor."""
        return buffer_of(root_buffer(tensor.uop)).allocated()

    def read(self, value: UOp) -> Array:
        """A value as the reference holds it."""
        return held_array(read_bytes(value), value.dtype, value.shape)

    def run(self, values: Sequence[UOp]) -> list[Array]:
        """Compute values on the device.

        Raises:
            NoLaunchError: Without launching a program of its own.
        """
        with self.launching():
            stored = realize(values)
        return [self.read(value) for value in stored]

    def check(
        self, values: Sequence[UOp], leaves: Mapping[UOp, Array], *, ulps: int = 0
    ) -> None:
        """Compute values on the device and compare them with the oracle.

        Raises:
            MismatchError: They differ.
            NoLaunchError: Nothing was launched.
        """
        for k, (found, right, value) in enumerate(
                zip(self.run(values), evaluate_all(values, leaves), values, strict=True)):
            compare(found, right, value.dtype, ulps=ulps, what=f"value {k}")

    def check_tensors(
        self, tensors: Sequence[Tensor], *, bound: float = 0.0, sequential: bool = False
    ) -> None:
        """Compute tensors on the device and compare them with the oracle.

        Args:
            tensors: Not computed yet, of operands that are.
            bound: Largest error, relative to the largest number of each tensor; 0: bit for bit.
            sequential: One at a time, so that each makes kernels of its own.

        Raises:
            MismatchError: They differ.
            NoLaunchError: Nothing was launched.
        """
        graphs = [tensor.uop for tensor in tensors]
        leaves = {n: self.read(n) for n in toposort(*graphs) if n.op is Op.BUFFER}
        groups = [[g] for g in graphs] if sequential else [graphs]
        found = [array for group in groups for array in self.run(group)]
        for k, (got, right) in enumerate(
                zip(found, evaluate_all(graphs, leaves), strict=True)):
            what = f"value {k} of shape {right.shape}"
            if bound and graphs[k].dtype.is_float:
                largest = np.max(np.abs(right[np.isfinite(right)]), initial=0.0)
                compare_near(got, right, bound * float(largest), what)
            else:
                compare(got, right, graphs[k].dtype, what=what)


def held_array(data: bytes, dtype: DType, shape: Sequence[int]) -> Array:
    """Bytes of storage as an array that holds the values."""
    raw = np.frombuffer(data, STORED[dtype]).reshape(tuple(shape))
    return np.asarray(decode(raw, dtype))


def open_bench(name: str) -> Bench:
    """Open a device and count its launches from now on.

    Raises:
        DeviceError: It does not open.
    """
    opened = open_device(name)
    return Bench(opened.name, opened, count_launches(opened))
