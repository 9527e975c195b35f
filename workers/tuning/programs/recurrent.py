"""One step of a long short-term memory (Hochreiter and Schmidhuber 1997, with the forget gate of
Gers et al. 2000)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from workers.tuning.program import Family, Sizes, TensorSpec
from workers.tuning.programs.sizes import check_at_least
from workers.tuning.programs.workloads import WORKLOADS

if TYPE_CHECKING:
    import tvm

    from workers.tuning.program import Array

_SIGMOID, _TANH = 4, 1
"""Operations of each, as ``workers.graph.cost`` counts them."""


def _inputs(sizes: Sizes) -> tuple[TensorSpec, ...]:
    """``b`` is the sum of both biases where a network has two. The gates are input, forget, cell
    and output, in this order, each of ``hidden`` rows."""
    batch, width, hidden = sizes["batch"], sizes["inputs"], sizes["hidden"]
    return (
        TensorSpec("x", (batch, width), "float32"),
        TensorSpec("h", (batch, hidden), "float32"),
        TensorSpec("c", (batch, hidden), "float32"),
        TensorSpec("w_x", (4 * hidden, width), "float32"),
        TensorSpec("w_h", (4 * hidden, hidden), "float32"),
        TensorSpec("b", (4 * hidden,), "float32"),
    )


def _outputs(sizes: Sizes) -> tuple[TensorSpec, ...]:
    shape = (sizes["batch"], sizes["hidden"])
    return (TensorSpec("h_next", shape, "float32"), TensorSpec("c_next", shape, "float32"))


def _flops(sizes: Sizes) -> int:
    """Both products of a gate with its bias are one of length inputs + hidden; then three sigmoids,
    two tanh, three multiplications and an addition for each cell."""
    cells = sizes["batch"] * sizes["hidden"]
    gates = 4 * 2 * (sizes["inputs"] + sizes["hidden"])
    return cells * (gates + 3 * _SIGMOID + 2 * _TANH + 4)


def _reference(sizes: Sizes, inputs: Sequence[Array]) -> tuple[Array, ...]:
    """In float64."""
    x, h, c, w_x, w_h, b = (given.astype(np.float64) for given in inputs)
    gates = x @ w_x.T + h @ w_h.T + b
    let_in, keep, candidate, let_out = np.split(gates, 4, axis=1)
    c_next = _sigmoid(keep) * c + _sigmoid(let_in) * np.tanh(candidate)
    h_next = _sigmoid(let_out) * np.tanh(c_next)
    return h_next.astype(np.float32), c_next.astype(np.float32)


def _sigmoid(x: Array) -> Array:
    """By tanh, which does not overflow."""
    half: Array = np.tanh(x / 2) / 2
    return half + 0.5


def _check(sizes: Sizes) -> None:
    check_at_least(1, sizes, sizes)


def _prim_func(sizes: Sizes) -> tvm.tirx.PrimFunc:
    from workers.tuning.programs.expressions.recurrent import lstm_cell  # noqa: PLC0415

    return lstm_cell(_inputs(sizes), sizes)


FAMILIES = (
    Family(
        "lstm_cell",
        "one step of a long short-term memory",
        _inputs,
        _outputs,
        _reference,
        _prim_func,
        _flops,
        _check,
        WORKLOADS["lstm_cell"],
    ),
)
