"""Operators that compute nothing new or that nobody reads."""

from __future__ import annotations

from dataclasses import replace

from workers.graph.graph import Argument, Graph, Operator, ValueRef
from workers.graph.operators import IDENTITY, KINDS
from workers.graph.units import operator_units

# Identities when the result has the operand's shape and type.
_UNCHANGED = {
    "aten.reshape.default", "aten.flatten.using_ints", "aten.squeeze.default",
    "aten.squeeze.dim", "aten.squeeze.dims", "aten.expand.default", "aten.broadcast_to.default",
    "aten.slice.Tensor", "aten.narrow.default", "aten._to_copy.default",
}  # fmt: skip


def drop_identities(graph: Graph) -> Graph:
    """Remove operators whose result is their operand, and operators that nobody reads.

    Before: ``conv(x) → c``, ``dropout(c) → d``, ``relu(d) → r``, ``tanh(c) → unread``. After:
    ``conv(x) → c``, ``relu(c) → r``. The names of the graph's outputs stay: an identity that makes
    an output hands its name to the operator before it, and stays itself where that cannot be,
    because it copies an input of the graph or another output.

    A copy may have been there to lay its result out for a later operator. That operator takes any
    strides: a Graph holds ``reshape`` where a program may hold ``view``.
    """
    renamed = _Renaming(graph)
    kept = [operator for operator in graph.operators if not renamed.absorbs(operator)]
    operators = [renamed.apply(operator) for operator in kept]
    return operator_units(
        name=graph.name,
        inputs=graph.inputs,
        outputs=graph.outputs,
        weights=graph.weights,
        values=graph.values,
        operators=_live(operators, graph.outputs),
    )


def _live(operators: list[Operator], outputs: tuple[str, ...]) -> list[Operator]:
    """The operators that some output needs."""
    needed = set(outputs)
    live = []
    for operator in reversed(operators):
        if needed.intersection(operator.outputs):
            needed.update(operator.inputs)
            live.append(operator)
    return live[::-1]


class _Renaming:
    """Which name each value goes by once identities are gone."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._given = {*graph.inputs, *graph.weights}
        self._new: dict[str, str] = {}

    def absorbs(self, operator: Operator) -> bool:
        """Whether the operator can go; if so, its result and its operand become one value."""
        if not self._is_identity(operator):
            return False
        operand, result = self._name(operator.inputs[0]), operator.outputs[0]
        if result not in self._graph.outputs:
            self._new[result] = operand
        elif operand not in self._given and operand not in self._graph.outputs:
            self._new[operand] = result
        else:
            return False
        return True

    def apply(self, operator: Operator) -> Operator:
        return replace(
            operator,
            arguments=tuple(self._argument(argument) for argument in operator.arguments),
            keywords=tuple((key, self._argument(value)) for key, value in operator.keywords),
            outputs=tuple(self._name(name) for name in operator.outputs),
        )

    def _is_identity(self, operator: Operator) -> bool:
        if operator.target == "aten.dropout.default" and operator.arguments[2:] != (False,):
            return False
        if KINDS[operator.target] != IDENTITY and operator.target not in _UNCHANGED:
            return False
        specs = self._graph.specs((*operator.inputs, *operator.outputs))
        return len(specs) == 2 and specs[0] == specs[1]

    def _name(self, value: str) -> str:
        while value in self._new:
            value = self._new[value]
        return value

    def _argument(self, argument: Argument) -> Argument:
        if isinstance(argument, ValueRef):
            return ValueRef(self._name(argument.name))
        if isinstance(argument, tuple):
            return tuple(self._argument(item) for item in argument)
        return argument
