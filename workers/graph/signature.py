"""Structural signatures: what is scheduled and measured once because it is the same work."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from workers.graph.graph import Argument, Graph, Operator, Unit, ValueRef, references

DIGITS = 32

_MOST_TEXTS = 20_000
"""Texts of Units that are kept, of about a kilobyte each."""

_GAP = "\0"  # stands for a value in a text; ``repr`` of a string never has it


def signature(graph: Graph, positions: Sequence[int]) -> str:
    """A hash of the Units at ``positions``, in that order, as 32 hexadecimal digits.

    Equal signatures mean the same operators with the same arguments on the same shapes and element
    types, the same dependencies among the Units, the same sharing of weights and of values from
    outside, and the same values read outside, Unit by Unit. Names, the values of weights, and
    where in the graph the Units stand do not count.
    """
    return Signatures(graph).of(positions)


def parameters(graph: Graph, unit: Unit) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The Unit's inputs and its weights, each in the order in which its operators first read them:
    the same order for Units of equal signatures."""
    read = dict.fromkeys(name for operator in unit.operators for name in _read(operator))
    made = {name for operator in unit.operators for name in operator.outputs}
    weights = set(graph.weights)
    return (
        tuple(name for name in read if name not in made and name not in weights),
        tuple(name for name in read if name in weights),
    )


def _read(operator: Operator) -> Iterator[str]:
    for argument in operator.arguments:
        yield from references(argument)
    for _, argument in sorted(operator.keywords, key=itemgetter(0)):
        yield from references(argument)


class Signatures:
    """Takes the signatures of many parts of one graph: what the text of an operator has in all of
    them is found once."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._weights = frozenset(graph.weights)
        self._outputs = frozenset(graph.outputs)
        self._operators: dict[int, tuple[list[str], list[str]]] = {}
        self._specs: dict[str, str] = {}
        self._known_units: dict[int, _Unit] = {}
        self._known_texts: dict[tuple[object, ...], tuple[str, dict[str, str]]] = {}

    def of(self, positions: Sequence[int]) -> str:
        """As ``signature``."""
        return hashlib.sha256(self._text(positions).encode()).hexdigest()[:DIGITS]

    def _text(self, positions: Sequence[int]) -> str:
        """The Units with every value renamed by role and order of first appearance.

        Before: ``conv2d(stem, conv_weight) → conv``. After: ``conv2d(x0, w0) → v0``, where the
        first appearance of ``x0`` and ``w0`` states their shape and type.
        """
        names: dict[str, str] = {}
        chosen = set(positions)
        units = []
        for position in positions:
            unit = self._unit(position)
            operators, fresh = self._operators_of(unit, names)
            names.update(fresh)
            made = ", ".join(
                [
                    f"({names[name]!r}, {returned or not readers <= chosen})"
                    for name, returned, readers in unit.outputs
                ]
            )
            units.append(f"[[{operators}], [{made}]]")
        return f"[{', '.join(units)}]"

    def _unit(self, position: int) -> _Unit:
        found = self._known_units.get(position)
        if found is None:
            graph, unit = self._graph, self._graph.units[position]
            own = {name for operator in unit.operators for name in operator.outputs}
            read = [name for operator in unit.operators for name in self._parts(operator)[1]]
            found = self._known_units[position] = _Unit(
                position,
                tuple(dict.fromkeys(name for name in read if name not in own)),
                tuple(
                    (
                        name,
                        name in self._outputs,
                        frozenset(
                            after
                            for after in graph.successors[position]
                            if name in graph.units[after].inputs
                        ),
                    )
                    for name in unit.outputs
                ),
            )
        return found

    def _operators_of(self, unit: _Unit, names: Mapping[str, str]) -> tuple[str, dict[str, str]]:
        """The text of the Unit's operators after others that gave values their ``names``, and the
        names that it gives: the same wherever as many were given, and the same to what it reads."""
        key = (unit.position, len(names), *[names.get(name) for name in unit.reads])
        known = self._known_texts.get(key)
        if known is None:
            now = dict(names)
            operators = self._graph.units[unit.position].operators
            text = ", ".join([self._operator(operator, now) for operator in operators])
            if len(self._known_texts) >= _MOST_TEXTS:
                self._known_texts.clear()
            fresh = {name: now[name] for name in list(now)[len(names) :]}
            known = self._known_texts[key] = text, fresh
        return known

    def _parts(self, operator: Operator) -> tuple[list[str], list[str]]:
        known = self._operators.get(id(operator))  # which the graph keeps: no other gets its id
        if known is None:
            known = self._operators[id(operator)] = _pieces(operator)
        return known

    def _operator(self, operator: Operator, names: dict[str, str]) -> str:
        """Its target, arguments and keywords, and shape and type of each value that it is the first
        to name."""
        pieces, read = self._parts(operator)
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


class _Unit(NamedTuple):
    """What the Unit at ``position`` reads and does not compute; and of each value that it makes for
    others the name, whether the graph returns it, and the Units that read it."""

    position: int
    reads: tuple[str, ...]
    outputs: tuple[tuple[str, bool, frozenset[int]], ...]


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
