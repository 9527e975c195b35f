"""A step of a long short-term memory as tensor expressions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tvm import te

from workers.tuning.program import Sizes, TensorSpec
from workers.tuning.programs.expressions.common import placeholders, reduce_axis

if TYPE_CHECKING:
    import tvm


def lstm_cell(inputs: Sequence[TensorSpec], sizes: Sizes) -> tvm.tirx.PrimFunc:
    """Both products for all gates at once, then the cell."""
    tensors = placeholders(inputs)
    x, h, c, w_x, w_h, b = tensors
    batch, hidden = sizes["batch"], sizes["hidden"]
    i, j = reduce_axis(sizes["inputs"], "i"), reduce_axis(hidden, "j")
    of_input = te.compute(
        (batch, 4 * hidden), lambda n, g: te.sum(x(n, i) * w_x(g, i), i), "of_input"
    )
    of_state = te.compute(
        (batch, 4 * hidden), lambda n, g: te.sum(h(n, j) * w_h(g, j), j), "of_state"
    )
    gates = te.compute(
        (batch, 4 * hidden), lambda n, g: of_input(n, g) + of_state(n, g) + b(g), "gates"
    )
    c_next = te.compute(
        (batch, hidden),
        lambda n, u: (
            te.sigmoid(gates(n, hidden + u)) * c(n, u)
            + te.sigmoid(gates(n, u)) * te.tanh(gates(n, 2 * hidden + u))
        ),
        "c_next",
    )
    h_next = te.compute(
        (batch, hidden),
        lambda n, u: te.sigmoid(gates(n, 3 * hidden + u)) * te.tanh(c_next(n, u)),
        "h_next",
    )
    return te.create_prim_func([*tensors, h_next, c_next])
