"""Which operators compute each element of their result from the elements at its place."""

from __future__ import annotations

from workers.graph.graph import Operator
from workers.graph.operators import KINDS

BATCH_NORM = "aten._native_batch_norm_legit_no_training.default"
_OTHERWISE = {"aten.glu.default"}  # reads two halves of its operand


def is_pointwise(operator: Operator) -> bool:
    """Whether a kernel could compute the operator on an element as soon as it has computed it.

    Element-wise operators, activations and batch normalisation with stored statistics; operands
    may be broadcast.
    """
    if operator.target == BATCH_NORM:
        return True
    kind = KINDS[operator.target]
    return kind in ("elementwise", "activation") and operator.target not in _OTHERWISE
