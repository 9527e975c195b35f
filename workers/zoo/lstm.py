"""LSTMs, unrolled: every step of every layer is operators of its own.

That is what Rammer schedules: a grid of layers by steps in which cells on a diagonal can run side
by side. What waits for what is then explicit in the exported graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

State = tuple[Tensor, Tensor]
"""Output and memory of a cell, each (N, hidden)."""


class Cell(nn.Module):
    """One step of an LSTM without peepholes (Graves 2013, Equations 7-11 without their diagonal
    terms), the four gates' weights side by side in two matrices."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.reads = nn.Linear(inputs, 4 * hidden)
        self.recalls = nn.Linear(hidden, 4 * hidden, bias=False)

    def forward(self, x: Tensor, state: State | None) -> State:
        """(N, inputs) → the next state. No state means zeros."""
        gates = self.reads(x) if state is None else self.reads(x) + self.recalls(state[0])
        opening = torch.sigmoid(gates[:, : 3 * self.hidden])
        enter, keep, leave = torch.split(opening, self.hidden, dim=1)
        memory = enter * torch.tanh(gates[:, 3 * self.hidden :])
        if state is not None:
            memory = memory + keep * state[1]
        return leave * torch.tanh(memory), memory


class Layer(nn.Module):
    """A cell run along a sequence."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.cell = Cell(inputs, hidden)

    def forward(self, steps: Iterable[Tensor]) -> tuple[list[Tensor], State | None]:
        """Every step's output, and the last state; None after no step."""
        outputs: list[Tensor] = []
        state: State | None = None
        for x in steps:
            state = self.cell(x, state)
            outputs.append(state[0])
        return outputs, state


class Stack(nn.Module):
    """Layers of the same width, each reading the outputs of the one below."""

    def __init__(self, inputs: int, hidden: int, layers: int) -> None:
        super().__init__()
        widths = [inputs, *[hidden] * (layers - 1)]
        self.layers = nn.ModuleList(Layer(width, hidden) for width in widths)

    def forward(self, steps: Sequence[Tensor]) -> tuple[list[Tensor], State | None]:
        """The top layer's outputs and its last state."""
        outputs, state = list(steps), None
        for layer in self.layers:
            outputs, state = layer(outputs)
        return outputs, state
