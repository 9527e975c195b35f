"""Structural signatures: what is scheduled and measured once because it is the same work."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from operator import itemgetter

from workers.graph.graph import Argument, Graph, Operator, ValueRef

DIGITS = 32

_GAP = "\0"  # stands for a value in a text; ``repr`` of a string never has it


def signature(graph: Graph, positions: Sequence[int]) -> str:
    """A hash of the Units at ``positions``, in that order, as 32 hexadecimal digits.

    Equal signatures mean the same operators with the same arguments on the same shapes and element
    types, the same dependencies among the Units, the same sharing of weights and of values from
    outside, and the same values read outside, Unit by Unit. Names, the values of weights, and
    where in the graph the Units stand do not count.
    """
    return Signatures(graph).of(positions)


class Signatures:
    """Takes the signatures of many parts of one graph: what the text of an operator has in all of
    them is found once."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._weights = frozenset(graph.weights)
        self._outputs = frozenset(graph.outputs)
        self._operators: dict[int, tuple[list[str], list[str]]] = {}
        self._specs: dict[str, str] = {}

    def of(self, positions: Sequence[int]) -> str:
        """As ``signature``."""
        return hashlib.sha256(self._text(positions).encode()).hexdigest()[:DIGITS]

    def _text(self, positions: Sequence[int]) -> str:
        """The Units with every value renamed by role and order of first appearance.

        Before: ``conv2d(stem, conv_weight) → conv``. After: ``conv2d(x0, w0) → v0``, where the
        first appearance of ``x0`` and ``w0`` states their shape and type.
        """
        names: dict[str, str] = {}
        outside = self._read_outside(positions)
        units = []
        for position in positions:
            unit = self._graph.units[position]
            operators = ", ".join([self._operator(o, names) for o in unit.operators])
            made = ", ".join([f"({names[name]!r}, {name in outside})" for name in unit.outputs])
            units.append(f"[[{operators}], [{made}]]")
        return f"[{', '.join(units)}]"

    def _read_outside(self, positions: Sequence[int]) -> set[str]:
        """The outputs of these Units that the graph returns or another Unit reads."""
        graph, chosen = self._graph, set(positions)
        computed = {name for position in chosen for name in graph.units[position].outputs}
        readers = {after for position in chosen for after in graph.successors[position]}
        read = {name for reader in readers - chosen for name in graph.units[reader].inputs}
        return computed & (read | self._outputs)

    def _operator(self, operator: Operator, names: dict[str, str]) -> str:
        """Its target, arguments and keywords, and shape and type of each value that it is the first
        to name."""
        known = self._operators.get(
            id(operator)
        )  # the graph keeps it, so that no other gets its id
        if known is None:
            known = self._operators[id(operator)] = _pieces(operator)
        pieces, read = known
        text, fresh = [pieces[0]], []
        for name, piece in zip(read, pieces[1:], strict=True):
            renamed = names.get(name)
            if renamed is None:
                role = "w" if name in self._weights else "x"
                renamed = names[name] = f"{role}{len(names)}"
                fresh.append(self._spec(name))
            text.append(f"ValueRef(name={renamed!r})")
            text.append(piece)
        for name in operator.outputs:
            if name not in names:
                names[name] = f"v{len(names)}"
            fresh.append(self._spec(name))
        return f"{''.join(text)}, [{', '.join(fresh)}])"

    def _spec(self, name: str) -> str:
        found = self._specs.get(name)
        if found is None:
            spec = self._graph.values[name]
            found = self._specs[name] = repr((spec.shape, spec.dtype))
        return found


class _Gap:
    def __repr__(self) -> str:
        return _GAP


def _pieces(operator: Operator) -> tuple[list[str], list[str]]:
    """The text of an operator between the values that it reads, and these."""
    read: list[str] = []

    def without_values(argument: Argument) -> object:
        if isinstance(argument, ValueRef):
            read.append(argument.name)
            return _Gap()
        if isinstance(argument, tuple):
            return tuple(without_values(item) for item in argument)
        return argument

    arguments = without_values(operator.arguments)
    keywords = [
        (name, without_values(argument))
        for name, argument in sorted(operator.keywords, key=itemgetter(0))
    ]
    return repr((operator.target, arguments, keywords))[:-1].split(_GAP), read
