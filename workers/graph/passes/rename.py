"""Letting one value of a graph stand for another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from workers.graph.graph import Argument, Graph, Operator, ValueRef


class Renaming:
    """Which name each value goes by once the operator that computed it again is gone.

    The names of the graph's inputs, weights and outputs stay.
    """

    def __init__(self, graph: Graph) -> None:
        self._given = frozenset((*graph.inputs, *graph.weights))
        self._returned = frozenset(graph.outputs)
        self._new: dict[str, str] = {}

    def merges(self, result: str, operand: str) -> bool:
        """Let ``result`` and the earlier ``operand`` be one value, if their names allow it.

        They do unless the graph returns ``result`` and already has a use for ``operand``'s name:
        as an input, a weight or another output.
        """
        operand = self.name(operand)
        if result not in self._returned:
            self._new[result] = operand
        elif operand not in self._given and operand not in self._returned:
            self._new[operand] = result
        else:
            return False
        return True

    def __bool__(self) -> bool:
        """Whether any value has a new name."""
        return bool(self._new)

    def name(self, value: str) -> str:
        """What ``value`` is called now."""
        start = value
        while value in self._new:
            value = self._new[value]
        if start != value:
            self._new[start] = value  # so that a long chain of names is walked once
        return value

    def apply(self, operator: Operator) -> Operator:
        """The operator with every value under its new name."""
        if self._new.keys().isdisjoint((*operator.inputs, *operator.outputs)):
            return operator
        return replace(
            operator,
            arguments=tuple(substituted(a, self.name) for a in operator.arguments),
            keywords=tuple((key, substituted(a, self.name)) for key, a in operator.keywords),
            outputs=tuple(self.name(name) for name in operator.outputs),
        )


def substituted(argument: Argument, name_of: Callable[[str], str]) -> Argument:
    """The argument with every value that it refers to under the name that ``name_of`` gives it."""
    if isinstance(argument, ValueRef):
        return ValueRef(name_of(argument.name))
    if isinstance(argument, tuple):
        return tuple(substituted(item, name_of) for item in argument)
    return argument
