"""Optimizers: from gradients to new parameters, all in one schedule.

Learning rate, step corrections and moments are storage on the device, arguments of the compiled
programs: changing the learning rate compiles nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from core.foundation.errors import CoreError, DTypeError, ShapeError
from core.frontend import Tensor
from core.ir import DType, Op, dtypes

#: Slices of the storage that moments start in begin at multiples of so many elements, so that
#: every device can address them as arguments of their own.
_ALIGNMENT: Final = 64


class Optimizer:
    """What all optimizers share; `_update` is theirs.

    Args:
        parameters: The tensors of a model, as `nn.state.get_parameters` gives them; computed at
            once. Those with requires_grad=False and integers are not trained, but what changed of
            them (running statistics) is computed in `step` too.
        lr: Learning rate.

    Attributes:
        parameters: The tensors that are trained.
        buffers: The other ones.

    Raises:
        DTypeError: None of the tensors is a float that may be trained.
    """

    def __init__(self, parameters: Sequence[Tensor], lr: float) -> None:
        given = list({id(t): t for t in parameters}.values())
        self.parameters = [t for t in given if t.dtype.is_float and t.requires_grad is not False]
        self.buffers = [t for t in given if not any(t is p for p in self.parameters)]
        if not self.parameters:
            raise DTypeError("an optimizer needs parameters: floats whose requires_grad is not "
                             "False", cure="give it nn.state.get_parameters(model)")
        # With float64 parameters their updates are exact to float64.
        wide = any(t.dtype is dtypes.float64 for t in self.parameters)
        self._scalar_dtype = dtypes.float64 if wide else dtypes.float32
        self._lr = self._scalar(lr)
        given[0].realize(*given[1:])

    @property
    def lr(self) -> Tensor:
        """The learning rate, of rank 0; `optimizer.lr = 0.01` changes it."""
        return self._lr

    @lr.setter
    def lr(self, value: float | Tensor) -> None:
        self._lr.assign(value if isinstance(value, Tensor) else self._scalar(value))

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    def step(self) -> None:
        """Move every parameter that has a gradient; computes everything that changed at once."""
        changed = self.schedule_step()
        changed[0].realize(*changed[1:])

    def schedule_step(self) -> list[Tensor]:
        """`step` without computing: the tensors that stand for new values now.

        `loss.realize(*optimizer.schedule_step())` computes them and the loss in one schedule.

        Raises:
            CoreError: No parameter has a gradient.
        """
        trained = [(k, p, p.grad) for k, p in enumerate(self.parameters) if p.grad is not None]
        if not trained:
            raise CoreError("no parameter of the optimizer has a gradient",
                            cure="call backward() on the loss before step()")
        if self._lr.uop.op is Op.CONST:  # lr.assign(0.01): a number is to be an argument again
            self._lr.assign(self._scalar(self._lr.uop.value))
        changed = self._begin_step()
        for k, parameter, gradient in trained:
            working = parameter.dtype if parameter.dtype.bits > 16 else dtypes.float32
            new, states = self._update(k, parameter.detach().cast(working), gradient.cast(working))
            parameter.assign(new.cast(parameter.dtype))
            changed += [parameter, *states]
        return [*changed, self._lr, *self.buffers]

    def _begin_step(self) -> list[Tensor]:
        """Move what belongs to no single parameter."""
        return []

    def _update(self, k: int, value: Tensor, gradient: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The new value of parameter number `k`, and the tensors of its state, moved on."""
        raise NotImplementedError

    def _scalar(self, value: float) -> Tensor:
        """A number in storage of its own."""
        return Tensor(float(value), dtype=self._scalar_dtype, requires_grad=False,
                      device=_place(self.parameters[0]))

    def _zeros(self) -> list[Tensor]:
        """One zero for each element of each parameter, in few pieces of storage.

        One program fills each piece; the first step already runs the programs of all later ones.
        """
        sizes: dict[tuple[DType, str | None], int] = {}
        places = []
        for parameter in self.parameters:
            dtype = parameter.dtype if parameter.dtype.bits > 16 else dtypes.float32
            key = (dtype, _place(parameter))
            places.append((key, sizes.get(key, 0)))
            sizes[key] = sizes.get(key, 0) + -(-parameter.numel() // _ALIGNMENT) * _ALIGNMENT
        pieces = {
            (dtype, place): Tensor.zeros(size, dtype=dtype, device=place).contiguous().realize()
            for (dtype, place), size in sizes.items()
        }
        zeros = []
        for parameter, (key, start) in zip(self.parameters, places, strict=True):
            part = pieces[key][start:start + parameter.numel()].reshape(parameter.shape).clone()
            part.requires_grad = False
            zeros.append(part)
        return zeros


class SGD(Optimizer):
    """Stochastic gradient descent.

    Args:
        parameters: As of `Optimizer`.
        lr: Learning rate.
        momentum: Share of the velocity that is kept from step to step.
        weight_decay: Share of the parameter that is added to its gradient.
        nesterov: Look ahead along the velocity (Sutskever et al., 2013).

    Raises:
        ValueError: Nesterov's form without momentum.
    """

    def __init__(
        self, parameters: Sequence[Tensor], lr: float = 1e-3, momentum: float = 0.0,
        weight_decay: float = 0.0, nesterov: bool = False,
    ) -> None:
        if nesterov and not momentum:
            raise ValueError("Nesterov's form needs momentum")
        super().__init__(parameters, lr)
        self.momentum, self.weight_decay, self.nesterov = momentum, weight_decay, nesterov
        self.velocities = self._zeros() if momentum else []

    def _update(self, k: int, value: Tensor, gradient: Tensor) -> tuple[Tensor, list[Tensor]]:
        if self.weight_decay:
            gradient = gradient + value * self.weight_decay
        lr = self._lr.cast(value.dtype)
        if not self.momentum:
            return value - gradient * lr, []
        velocity = self.velocities[k]
        velocity.assign(velocity * self.momentum + gradient)
        ahead = gradient + velocity * self.momentum if self.nesterov else velocity
        return value - ahead * lr, [velocity]


class Adam(Optimizer):
    """Adaptive moments (Kingma and Ba, 2015).

    Args:
        parameters: As of `Optimizer`.
        lr: Learning rate.
        betas: Share that is kept from step to step of the mean gradient and of its mean square.
        eps: Added to the root of the mean square.
        weight_decay: Share of the parameter that is added to its gradient.

    Raises:
        ValueError: A beta is not in [0, 1).
    """

    def __init__(
        self, parameters: Sequence[Tensor], lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0.0,
    ) -> None:
        if not all(0 <= beta < 1 for beta in betas):
            raise ValueError(f"betas {betas} are not in [0, 1)")
        super().__init__(parameters, lr)
        self.betas, self.eps, self.weight_decay = betas, eps, weight_decay
        self.means, self.squares = self._zeros(), self._zeros()
        # 1 - beta**steps, kept as what a mean of ones would be: exact where beta**steps is near 1.
        self.corrections = [self._scalar(0.0), self._scalar(0.0)]

    def _begin_step(self) -> list[Tensor]:
        for correction, beta in zip(self.corrections, self.betas, strict=True):
            correction.assign(correction * beta + (1 - beta))
        return list(self.corrections)

    def _update(self, k: int, value: Tensor, gradient: Tensor) -> tuple[Tensor, list[Tensor]]:
        gradient = self._with_decay(value, gradient)
        mean, square = self._moments(k, gradient)
        first, second = (c.cast(value.dtype) for c in self.corrections)
        lr = self._lr.cast(value.dtype)
        change = mean * (lr / first) / ((square / second).sqrt() + self.eps)
        return self._decayed(value, lr) - change, [mean, square]

    def _moments(self, k: int, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """Mean gradient and mean square of parameter number `k`, moved on."""
        mean, square = self.means[k], self.squares[k]
        for moment, beta, seen in zip((mean, square), self.betas, (gradient, gradient.square()),
                                      strict=True):
            moment.assign(moment * beta + seen * (1 - beta))
        return mean, square

    def _with_decay(self, value: Tensor, gradient: Tensor) -> Tensor:
        return gradient + value * self.weight_decay if self.weight_decay else gradient

    def _decayed(self, value: Tensor, lr: Tensor) -> Tensor:
        return value


class AdamW(Adam):
    """`Adam` whose decay does not pass through the moments (Loshchilov and Hutter, 2019).

    Args:
        parameters: As of `Optimizer`.
        lr: Learning rate.
        betas: As of `Adam`.
        eps: As of `Adam`.
        weight_decay: Share of the parameter that, times the learning rate, is taken off per step.
    """

    def __init__(
        self, parameters: Sequence[Tensor], lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0.01,
    ) -> None:
        super().__init__(parameters, lr, betas, eps, weight_decay)

    def _with_decay(self, value: Tensor, gradient: Tensor) -> Tensor:
        return gradient

    def _decayed(self, value: Tensor, lr: Tensor) -> Tensor:
        return value * (1 - lr * self.weight_decay) if self.weight_decay else value


class LAMB(Adam):
    """`AdamW`'s step, scaled to the norm of its parameter (You et al., 2020).

    Args:
        parameters: As of `Optimizer`.
        lr: Learning rate: what a step changes of a parameter, as a share of its norm.
        betas: As of `Adam`.
        eps: As of `Adam`.
        weight_decay: Share of the parameter that is added to the step before it is scaled.
    """

    def __init__(
        self, parameters: Sequence[Tensor], lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-6, weight_decay: float = 0.0,
    ) -> None:
        super().__init__(parameters, lr, betas, eps, weight_decay)

    def _update(self, k: int, value: Tensor, gradient: Tensor) -> tuple[Tensor, list[Tensor]]:
        mean, square = self._moments(k, gradient)
        first, second = (c.cast(value.dtype) for c in self.corrections)
        change = (mean / first) / ((square / second).sqrt() + self.eps) + value * self.weight_decay
        # A parameter or a step that is zero has no norm to be scaled by: the plain step then.
        size, length = (t.square().sum().sqrt() for t in (value, change))
        scaled = (size > 0) & (length > 0)
        ratio = scaled.where(size / scaled.where(length, 1.0), 1.0)
        return value - change * (ratio * self._lr.cast(value.dtype)), [mean, square]


class Muon(Optimizer):
    """Momentum made orthogonal, for the matrices inside of a network (Jordan et al., 2024).

    Of more than two axes the first are the rows, all others the columns. Biases, gains,
    embeddings and the last layer are not for it: give those to `AdamW`.

    Args:
        parameters: As of `Optimizer`.
        lr: Learning rate.
        momentum: Share of the mean gradient that is kept from step to step.
        weight_decay: Share of the parameter that, times the learning rate, is taken off per step.
        nesterov: Look ahead along the momentum.
        ns_steps: Steps of the iteration that makes a matrix orthogonal.

    Raises:
        ShapeError: A parameter that is to be trained is no matrix.
    """

    def __init__(
        self, parameters: Sequence[Tensor], lr: float = 1e-3, momentum: float = 0.95,
        weight_decay: float = 0.1, nesterov: bool = True, ns_steps: int = 5,
    ) -> None:
        super().__init__(parameters, lr)
        for parameter in self.parameters:
            if parameter.ndim < 2:
                raise ShapeError(f"Muon trains matrices, not a parameter of shape "
                                 f"{parameter.shape}", cure="give it to AdamW")
        self.momentum, self.weight_decay = momentum, weight_decay
        self.nesterov, self.ns_steps = nesterov, ns_steps
        self.means = self._zeros()

    def _update(self, k: int, value: Tensor, gradient: Tensor) -> tuple[Tensor, list[Tensor]]:
        mean = self.means[k]
        mean.assign(mean * self.momentum + gradient * (1 - self.momentum))
        ahead = mean
        if self.nesterov:
            ahead = mean * self.momentum + gradient * (1 - self.momentum)
        rows = value.shape[0]
        matrix = ahead.reshape(rows, -1)
        direction = _orthogonal(matrix, self.ns_steps).reshape(value.shape)
        scale = max(1.0, rows / max(1, matrix.shape[1])) ** 0.5
        lr = self._lr.cast(value.dtype)
        return value * (1 - lr * self.weight_decay) - direction * (lr * scale), [mean]


def _orthogonal(matrix: Tensor, steps: int) -> Tensor:
    """About U V' of a matrix U S V': its singular values move to 0.7 ... 1.2.

    The quintic Newton-Schulz iteration of https://kellerjordan.github.io/posts/muon.
    """
    a, b, c = 3.4445, -4.7750, 2.0315
    is_tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.transpose() if is_tall else matrix
    x = x / (x.square().sum().sqrt() + 1e-7)
    for _ in range(steps):
        gram = x @ x.transpose()
        x = x * a + (gram * b + gram @ gram * c) @ x
    return x.transpose() if is_tall else x


def _place(tensor: Tensor) -> str | None:
    return tensor.device if isinstance(tensor.device, str) else None
