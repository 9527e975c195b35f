"""Structural signatures: what is scheduled and measured once because it is the same work."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from operator import itemgetter

from workers.graph.graph import Argument, Graph, Operator, ValueRef

DIGITS = 32


def signature(graph: Graph, positions: Sequence[int]) -> str:
    """A hash of the Units at ``positions``, in that order, as 32 hexadecimal digits.

    Equal signatures mean the same operators with the same arguments on the same shapes and element
    types, the same dependencies among the Units, the same sharing of weights and of values from
    outside, and the same values read outside, Unit by Unit. Names, the values of weights, and
    where in the graph the Units stand do not count.
    """
    form = _Form(graph, positions)
    return hashlib.sha256(repr(form.units()).encode()).hexdigest()[:DIGITS]


class _Form:
    """The Units with every value renamed by role and order of first appearance.

    Before: ``conv2d(stem, conv_weight) → conv``. After: ``conv2d(x0, w0) → v0``, where the first
    appearance of ``x0`` and ``w0`` states their shape and type.
    """

    def __init__(self, graph: Graph, positions: Sequence[int]) -> None:
        self._graph, self._positions = graph, positions
        self._weights = frozenset(graph.weights)
        self._names: dict[str, str] = {}
        self._outside = self._read_outside()

    def units(self) -> list[object]:
        return [
            [
                [self._operator(operator) for operator in self._graph.units[position].operators],
                [
                    (self._names[name], name in self._outside)
                    for name in self._graph.units[position].outputs
                ],
            ]
            for position in self._positions
        ]

    def _read_outside(self) -> set[str]:
        """The outputs of these Units that the graph returns or another Unit reads."""
        chosen = set(self._positions)
        computed = {name for position in chosen for name in self._graph.units[position].outputs}
        readers = {after for position in chosen for after in self._graph.successors[position]}
        read = {name for reader in readers - chosen for name in self._graph.units[reader].inputs}
        return computed & read.union(self._graph.outputs)

    def _operator(self, operator: Operator) -> object:
        seen = len(self._names)
        arguments = self._renamed(operator.arguments)
        keywords = [
            (name, self._renamed(argument))
            for name, argument in sorted(operator.keywords, key=itemgetter(0))
        ]
        read = list(self._names)[seen:]
        for name in operator.outputs:
            self._name(name, "v")
        made = (*read, *operator.outputs)
        specs = [(spec.shape, spec.dtype) for spec in self._graph.specs(made)]
        return operator.target, arguments, keywords, specs

    def _renamed(self, argument: Argument) -> Argument:
        if isinstance(argument, ValueRef):
            role = "w" if argument.name in self._weights else "x"
            return ValueRef(self._name(argument.name, role))
        if isinstance(argument, tuple):
            return tuple(self._renamed(item) for item in argument)
        return argument

    def _name(self, value: str, role: str) -> str:
        return self._names.setdefault(value, f"{role}{len(self._names)}")
