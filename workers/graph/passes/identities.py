"""Operators that compute nothing new or that nobody reads."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from workers.graph.graph import Graph, Operator
from workers.graph.operators import IDENTITY, KINDS
from workers.graph.passes.arithmetic import keeps_its_operand
from workers.graph.passes.rename import Renaming
from workers.graph.units import operator_units

# Identities when the result has the operand's shape and type.
_UNCHANGED = {
    "aten.reshape.default", "aten.flatten.using_ints", "aten.squeeze.default",
    "aten.squeeze.dim", "aten.squeeze.dims", "aten.expand.default", "aten.broadcast_to.default",
    "aten.slice.Tensor", "aten.narrow.default", "aten._to_copy.default",
}  # fmt: skip


def drop_identities(graph: Graph) -> Graph:
    """Remove operators whose result is their operand, and operators that nobody reads.

    Before: ``conv(x) → c``, ``dropout(c) → d``, ``mul(d, 1) → m``, ``relu(m) → r``,
    ``tanh(c) → unread``. After: ``conv(x) → c``, ``relu(c) → r``.

    The names of the graph's outputs stay: an identity that makes an output hands its name to the
    operator before it, and stays itself where that cannot be, because it copies an input of the
    graph or another output.

    A copy may have been there to lay its result out for a later operator. That operator takes any
    strides: a Graph holds ``reshape`` where a program may hold ``view``.
    """
    renamed = Renaming(graph)
    kept = [
        operator
        for operator in graph.operators
        if not _is_identity(operator, graph)
        or not renamed.merges(operator.outputs[0], operator.inputs[0])
    ]
    operators = live([renamed.apply(operator) for operator in kept], graph.outputs)
    if len(operators) == len(graph.operators):
        return graph
    return operator_units(
        name=graph.name,
        inputs=graph.inputs,
        outputs=graph.outputs,
        weights=graph.weights,
        values=graph.values,
        operators=operators,
    )


def live(operators: Sequence[Operator], outputs: Collection[str]) -> list[Operator]:
    """The operators that some output needs."""
    needed = set(outputs)
    kept = []
    for operator in reversed(operators):
        if needed.intersection(operator.outputs):
            needed.update(operator.inputs)
            kept.append(operator)
    return kept[::-1]


def _is_identity(operator: Operator, graph: Graph) -> bool:
    if operator.target == "aten.dropout.default" and operator.arguments[2:] != (False,):
        return False
    if keeps_its_operand(operator, graph.values):
        return True
    if KINDS[operator.target] != IDENTITY and operator.target not in _UNCHANGED:
        return False
    specs = graph.specs((*operator.inputs, *operator.outputs))
    return len(specs) == 2 and specs[0] == specs[1]
