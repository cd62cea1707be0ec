"""`Tensor`: a name for a value of the graph, computed when it is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Self

from core.foundation.errors import CoreError, DTypeError, ShapeError
from core.foundation.lazy_import import load
from core.frontend import dlpack, realization
from core.frontend.base import TensorBase, assigned_tensors, moved, named_tensors, place_text
from core.frontend.broadcasting import broadcast, show
from core.frontend.gradient import compute_gradient, depends_on
from core.frontend.host_data import NOT_IN_NUMPY, read_only_numpy, to_nested, to_numpy
from core.frontend.operations.in_place import InPlaceOperators
from core.ir import DType, Op, UOp


class Tensor(InPlaceOperators):
    """A multi-dimensional array whose value is computed when it is read.

    Operations build a graph and return at once; `numpy()`, `tolist()`, `item()`, printing and
    `realize()` compute. Assignment makes the name stand for a new value: whatever was computed
    from the tensor before keeps the old one.

        x = Tensor([[1.0, 2.0], [3.0, 4.0]])
        y = (x @ x.T).sum()
        y.backward()
        print(x.grad)
    """

    __slots__ = ()

    # -- computing --------------------------------------------------------------------------

    def realize(self, *others: TensorBase) -> Self:
        """Compute this tensor, and others with it; the graph behind them is let go.

        Raises:
            CoreError: It cannot be computed; the message names the line that made the tensor.
        """
        tensors: tuple[TensorBase, ...] = (self, *others)
        for tensor, storage in zip(tensors, self._storages(tensors), strict=True):
            tensor.uop = storage
            named_tensors[id(tensor)] = tensor
        return self

    def _storages(self, tensors: Sequence[TensorBase]) -> list[UOp]:
        """Storage of some tensors; what was assigned to before is computed with them."""
        pending = _pending()
        try:
            found = realization.realize([t.uop for t in (*tensors, *pending)])
        except CoreError as error:
            if not pending:
                _name_line(error, self)
                raise
            assigned_tensors.clear()
            return self._storages(tensors)
        for tensor, storage in zip(pending, found[len(tensors):], strict=True):
            tensor.uop = storage
            assigned_tensors.pop(id(tensor), None)
        return found[:len(tensors)]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as its values."""
        stored = self if self.dtype not in NOT_IN_NUMPY else self.float()
        return _restored, (bytes(stored.data()), stored.dtype, self.dtype, self.shape,
                           self.requires_grad)

    def __copy__(self) -> Self:
        return self.clone()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        copied = self.clone()
        copied.requires_grad = self.requires_grad
        named_tensors[id(copied)] = copied
        return copied

    def contiguous(self) -> Self:
        """This value in storage of its own, row-major."""
        value = self.uop
        return self._of(value if realization.is_storage(value) else value.contiguous())

    def contiguous_backward(self) -> Self:
        """This value, whose gradient will be made contiguous."""
        return self._of(UOp(Op.CONTIGUOUS_BACKWARD, (self.uop,)))

    def clone(self) -> Self:
        """A tensor of its own with this value."""
        return self._of(self.uop)

    def to(self, device: str | None) -> Self:
        """This value on another device; the default device if None.

        Raises:
            DeviceError: There is no such device.
        """
        return self._of(moved(self.uop, device or realization.default_device()))

    def to_(self, device: str | None) -> Self:
        """Move this tensor itself to another device."""
        self.uop = moved(self.uop, device or realization.default_device())
        return self

    # -- reading ----------------------------------------------------------------------------

    def data(self) -> memoryview:
        """The elements as bytes, row-major; a copy.

        Reading keeps the graph, so that `backward` may follow; a tensor that was created or
        assigned to lets it go, unless it leads to a tensor with requires_grad=True.
        """
        if realization.running.trace is not None:
            return realization.read(self.uop)
        (storage,) = self._storages((self,))
        if id(self) in named_tensors and not _leads_to_parameter(self.uop):
            self.uop = storage
        return realization.read(storage)

    def numpy(self) -> Any:
        """The elements as a numpy array of its own.

        Raises:
            TypeError: numpy lacks the dtype (bfloat16, fp8): convert first, with .float().
        """
        if self.dtype in NOT_IN_NUMPY:
            raise DTypeError(f"numpy has no {self.dtype.name}",
                             cure="convert first: tensor.float().numpy()")
        return to_numpy(self.data(), self.dtype, self.shape)

    def tolist(self) -> Any:
        """The elements as Python numbers in nested lists; one number for a scalar."""
        readable = self.float() if self.dtype in NOT_IN_NUMPY else self
        return to_nested(readable.data(), readable.dtype, self.shape)

    def item(self) -> Any:
        """The only element as a Python number.

        Raises:
            ShapeError: There are several, or none.
        """
        if self.numel() != 1:
            raise ShapeError(f"item() of a tensor of shape {show(self.shape)}: it needs exactly "
                             "one element", cure="use tolist() or numpy()")
        return self.reshape(()).tolist()

    def __bool__(self) -> bool:
        if self.numel() != 1:
            raise ShapeError(f"the truth of a tensor of shape {show(self.shape)} is ambiguous",
                             cure="use .any() or .all()")
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __index__(self) -> int:
        if self.dtype.is_float or self.ndim:
            raise DTypeError(f"a {self.dtype.name} tensor of shape {show(self.shape)} is no index")
        return int(self.item())

    def __len__(self) -> int:
        if not self.ndim:
            raise DTypeError("a scalar tensor has no length")
        return int(self.shape[0])

    def __iter__(self) -> Iterator[Self]:
        if not self.ndim:
            raise DTypeError("a scalar tensor has no elements to go through")
        return (self[k] for k in range(self.shape[0]))

    def __contains__(self, value: Any) -> bool:
        return bool((self == value).any())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """For numpy.asarray: a copy; with copy=False the tensor's own memory, read-only.

        Raises:
            ValueError: copy=False, and the memory is not the host's or of another dtype.
        """
        if copy is not False:
            array = self.numpy()
            return array if dtype is None else array.astype(dtype, copy=False)
        view = realization.host_view(self._stored())
        if self.dtype in NOT_IN_NUMPY or view is None or dtype not in {None, self.dtype.name}:
            raise ValueError("the tensor cannot be a numpy array without a copy")
        return read_only_numpy(self)

    def __buffer__(self, flags: int) -> memoryview:
        """The buffer protocol, since Python 3.12: the elements of a copy."""
        return memoryview(self.numpy())

    def __dlpack__(
        self, *, stream: Any = None, max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None, copy: bool | None = None,
    ) -> Any:
        """A capsule of the tensor's memory, for other libraries' `from_dlpack`.

        Where the host sees the memory it is shared: do not write to it, the tensor's value and
        every other tensor that shares it would change. Elsewhere it is a copy.

        Args:
            stream: None: the host has none.
            max_version: Newest version of DLPack that the consumer knows.
            dl_device: Where the memory is wanted; the host is all that there is.
            copy: True: memory of the consumer's own; False: none, or an error.

        Raises:
            BufferError: It cannot be done so.
        """
        if stream is not None or dl_device not in {None, dlpack.HOST}:
            raise BufferError("a tensor is exported to the host's memory, which has no streams")
        return dlpack.capsule_of(self._stored(), max_version, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        """The host: kDLCPU, 0."""
        return dlpack.HOST

    @classmethod
    def from_dlpack(cls, source: Any, device: str | None = None, copy: bool | None = None) -> Self:
        """A tensor of an array of any library that speaks DLPack, in the array's own memory.

        What is written to the array later is seen by the tensor; what is assigned to the tensor
        is not written to the array.

        Args:
            source: The array.
            device: Where the tensor is wanted; the default device if None.
            copy: True: always copied. None: copied where it has to be: an array that is not
                row-major, or a device that does not reach the memory. False: the array itself.

        Raises:
            TypeError: The array does not speak DLPack.
            BufferError: It cannot be exported, or a copy is needed and `copy` is False.
            DTypeError: No tensor can hold its dtype.
            DeviceError: There is no such device.
        """
        place = (realization.default_device() if device is None
                 else realization.device_name(device))
        return cls(dlpack.value_of(source, place, copy))

    # -- the Python Array API standard ----------------------------------------------------------

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """`core.array_api`: the functions of the Python Array API standard.

        Raises:
            ValueError: Another version of the standard than those that it follows.
        """
        if api_version not in {None, "2021.12", "2022.12", "2023.12", "2024.12"}:
            raise ValueError(f"core.array_api follows version 2024.12 of the standard, not "
                             f"{api_version}")
        return load("core.array_api")

    @property
    def mT(self) -> Self:  # noqa: N802 - the standard's name
        """The last two axes exchanged.

        Raises:
            ShapeError: There are fewer than two.
        """
        if self.ndim < 2:
            raise ShapeError(f"mT of shape {show(self.shape)}: it needs two axes")
        return self.transpose(-2, -1)

    def to_device(self, device: str, /, *, stream: Any = None) -> Self:
        """`to`, as the standard names it.

        Raises:
            DeviceError: There is no such device.
            ValueError: A stream is given: there are none.
        """
        if stream is not None:
            raise ValueError("devices of core have no streams")
        return self.to(device)

    def __complex__(self) -> complex:
        return complex(self.item())

    def _stored(self) -> UOp:
        """Storage of this tensor in row-major order; computed now."""
        (storage,) = self._storages((self,))
        if realization.has_holes(storage):
            (storage,) = realization.realize([storage.contiguous()])
        return storage

    __array_ufunc__ = None  # numpy_array + tensor asks the tensor

    def __repr__(self) -> str:
        """Values with dtype and device as numpy shows them; never raises."""
        try:
            if realization.running.trace is None and realization.computes(self.device):
                return self._shown_values()
        except Exception:  # noqa: BLE001 - repr is what a debugger calls: it must answer
            pass
        return f"Tensor({self._description()}, not computed)"

    def _shown_values(self) -> str:
        readable = self.float() if self.dtype.is_float and self.dtype.bits <= 16 else self
        text = _array_text(readable.numpy())
        return f"Tensor({text}, dtype={self.dtype.name}, device={self.device})"

    def _description(self) -> str:
        try:
            device = self.device
        except Exception:  # noqa: BLE001 - as above
            device = "unknown"
        return f"shape={show(self.shape)}, dtype={self.dtype.name}, device={device}"

    # -- gradients --------------------------------------------------------------------------

    def detach(self) -> Self:
        """This value; no gradient passes."""
        return self._of(UOp(Op.DETACH, (self.uop,)))

    def gradient(
        self, *targets: Self, gradient: Any = None, materialize_grads: bool = False
    ) -> list[Self]:
        """Gradients of this tensor with respect to others, as tensors.

        Args:
            targets: With respect to what.
            gradient: Gradient of this tensor itself, of its shape; 1 for a scalar.
            materialize_grads: Zeros for a target that this tensor does not depend on.

        Raises:
            ShapeError: This tensor is no scalar, and no gradient is given.
            DTypeError: This tensor or a target is not a float.
            ValueError: This tensor does not depend on a target.
        """
        for target in targets:
            if not isinstance(target, TensorBase):
                raise DTypeError("a gradient is with respect to tensors, not "
                                 f"{type(target).__name__}")
            _needs_float(target, "the gradient with respect to")
        found = compute_gradient(self.uop, self._own_gradient(gradient), [t.uop for t in targets])
        result = []
        for k, target in enumerate(targets):
            g = found.get(target.uop)
            if g is None and not materialize_grads:
                raise ValueError(f"the tensor does not depend on target {k} of shape "
                                 f"{show(target.shape)}; materialize_grads=True gives zeros")
            zeros = target.uop.const_like(0)
            result.append(self._of(broadcast(zeros if g is None else g, target.shape)))
        return result

    def backward(self, gradient: Any = None) -> Self:
        """Add the gradient of this tensor to `.grad` of every leaf that it depends on.

        Leaves are tensors that hold data or were created, not computed; those with
        requires_grad=False are left out.

        Raises:
            ShapeError: This tensor is no scalar, and no gradient is given.
            DTypeError: This tensor is not a float.
        """
        leaves = [t for t in list(named_tensors.values())
                  if t.uop.dtype.is_float and t.requires_grad is not False]
        found = compute_gradient(self.uop, self._own_gradient(gradient), [t.uop for t in leaves])
        for leaf in leaves:
            g = found.get(leaf.uop)
            if g is not None and leaf is not self:
                new = self._of(broadcast(g, leaf.shape))
                leaf.grad = new if leaf.grad is None else leaf.grad.add(new)  # type: ignore[attr-defined]
        return self

    def _own_gradient(self, gradient: Any) -> UOp:
        _needs_float(self, "the gradient of")
        if gradient is not None:
            given = self._tensor(gradient)
            if given.shape != self.shape:
                raise ShapeError(f"gradient= has shape {show(given.shape)}, the tensor itself "
                                 f"{show(self.shape)}")
            return given.uop.cast(self.dtype)
        if self.numel() != 1:
            raise ShapeError(f"the gradient of a tensor of shape {show(self.shape)} needs "
                             "gradient=", cure="reduce it first: tensor.sum()")
        return broadcast(self.uop.const_like(1), self.shape)


def _restored(
    data: bytes, stored: DType, dtype: DType, shape: tuple[int, ...], requires_grad: bool | None
) -> Tensor:
    """A tensor of the values that `__reduce__` wrote."""
    uop = realization.storage_from_host(data, stored, shape, realization.default_device())
    return Tensor(uop.cast(dtype), requires_grad=requires_grad)


def _pending() -> list[TensorBase]:
    """Tensors assigned to whose history no gradient needs; none in a trace."""
    if not assigned_tensors or realization.running.trace is not None:
        return []
    return [t for t in list(assigned_tensors.values()) if not _leads_to_parameter(t.uop)]


def _leads_to_parameter(uop: UOp) -> bool:
    if realization.is_storage(uop):
        return False
    parameters = {t.uop for t in list(named_tensors.values()) if t.requires_grad}
    parameters.discard(uop)
    return bool(parameters) and depends_on(uop, parameters)


def _needs_float(tensor: TensorBase, what: str) -> None:
    if not tensor.dtype.is_float:
        raise DTypeError(f"{what} {_article(tensor.dtype.name)} tensor: only floats can be "
                         "differentiated", cure="cast it to a float dtype before computing with it")


def _article(word: str) -> str:
    return f"an {word}" if word[0] in "aeiou" and not word.startswith("uint") else f"a {word}"


def _name_line(error: CoreError, tensor: TensorBase) -> None:
    """Say in an error where the tensor that could not be computed was made."""
    place = place_text(tensor._made)
    if place and place not in error.message:
        error.message += f" (the tensor was made at {place})"


def _array_text(array: Any) -> str:
    text = repr(array)
    inner = text[text.index("(") + 1:text.rindex(")")]
    for mark in (", dtype=", ",\n      dtype=", ", shape="):
        cut = inner.rfind(mark)
        if cut >= 0:
            inner = inner[:cut]
    return inner.replace("\n", "\n ")


