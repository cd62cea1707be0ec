"""Cells of recurrent networks: one step; a loop over them is the user's."""

from __future__ import annotations

from core.frontend import Tensor
from core.nn.layers import uniform_parameter


class _Cell:
    """Weights of `gates` gates of an input and of a hidden state, in PyTorch's order and names.

    Attributes:
        weight_ih: (gates * hidden_size, input_size), uniform within 1 / sqrt(hidden_size) at
            first, like all.
        weight_hh: (gates * hidden_size, hidden_size).
        bias_ih: (gates * hidden_size,), or None.
        bias_hh: As `bias_ih`.
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool, gates: int) -> None:
        self.hidden_size, rows = hidden_size, gates * hidden_size
        self.weight_ih = uniform_parameter((rows, input_size), hidden_size)
        self.weight_hh = uniform_parameter((rows, hidden_size), hidden_size)
        self.bias_ih = uniform_parameter((rows,), hidden_size) if bias else None
        self.bias_hh = uniform_parameter((rows,), hidden_size) if bias else None

    def _gates(self, x: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """What the input and the hidden state give to all gates: (batch, gates * hidden)."""
        return (x.linear(self.weight_ih.transpose(), self.bias_ih),
                hidden.linear(self.weight_hh.transpose(), self.bias_hh))

    def _zeros(self, x: Tensor) -> Tensor:
        return Tensor.zeros(x.shape[0], self.hidden_size, dtype=x.dtype, device=x.device,
                            requires_grad=False)


class LSTMCell(_Cell):
    """Long short-term memory (Hochreiter and Schmidhuber, 1997), with forget gates.

    Args:
        input_size: Features of the input.
        hidden_size: Features of the state.
        bias: Whether there are biases.
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True) -> None:
        super().__init__(input_size, hidden_size, bias, 4)

    def __call__(
        self, x: Tensor, state: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """One step.

        Args:
            x: (batch, input_size).
            state: Hidden state and cell of the step before, each (batch, hidden_size); zeros at
                the start.

        Returns:
            The new hidden state and cell.
        """
        hidden, cell = state if state is not None else (self._zeros(x), self._zeros(x))
        from_input, from_hidden = self._gates(x, hidden)
        entry, forget, new, out = (from_input + from_hidden).chunk(4, dim=1)
        cell = forget.sigmoid() * cell + entry.sigmoid() * new.tanh()
        return out.sigmoid() * cell.tanh(), cell


class GRUCell(_Cell):
    """Gated recurrent unit (Cho et al., 2014), with the reset gate behind the product.

    Args:
        input_size: Features of the input.
        hidden_size: Features of the state.
        bias: Whether there are biases.
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True) -> None:
        super().__init__(input_size, hidden_size, bias, 3)

    def __call__(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        """One step: (batch, input_size) and the state before, (batch, hidden_size), to the next."""
        before = self._zeros(x) if hidden is None else hidden
        from_input, from_hidden = self._gates(x, before)
        reset, update, new = from_input.chunk(3, dim=1)
        old_reset, old_update, old = from_hidden.chunk(3, dim=1)
        kept = (update + old_update).sigmoid()
        fresh = (new + (reset + old_reset).sigmoid() * old).tanh()
        return fresh + kept * (before - fresh)
