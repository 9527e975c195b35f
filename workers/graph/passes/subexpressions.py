"""Operators that compute again what an earlier one computed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from workers.graph.graph import Graph, Operator
from workers.graph.operators import KINDS
from workers.graph.passes.randomness import is_random
from workers.graph.passes.rename import Renaming, substituted
from workers.graph.units import operator_units, regroup


def merge_common_subexpressions(graph: Graph) -> Graph:
    """Compute once what operators with equal target, arguments and keywords compute.

    Before: ``pool(x) → p``, ``pool(x) → q``, ``add(p, q) → y``. After: ``pool(x) → p``,
    ``add(p, p) → y``. The names of the graph's outputs stay: of two that are returned, both stay.

    An activation that one convolution alone reads is left alone. Networks of separable
    convolutions begin each branch with one, on the same value (IOS's ReLU-SepConv, Section 6.1);
    it belongs to its convolution's Unit, and merging them would put a Unit before all branches.
    """
    starts_a_layer = _layer_starts(graph)
    places = {o.name: 0 for o in graph.operators if o.name not in starts_a_layer}
    kept = _merged(graph, places)
    return graph if len(kept) == len(graph.operators) else _of(kept, graph)


def merge_within_units(graph: Graph) -> Graph:
    """Compute once what operators of one Unit compute alike; the Units stay.

    Before: Unit ``conv(x) → c``, ``relu(c) → r``, ``relu(c) → s``. After: Unit ``conv(x) → c``,
    ``relu(c) → r``, and who read ``s`` reads ``r``. Activations that were left to the layers that
    they begin may have joined the layer before instead, all into one Unit.
    """
    unit_of = {o.name: place for place, unit in enumerate(graph.units) for o in unit.operators}
    kept = _merged(graph, unit_of)
    if len(kept) == len(unit_of):
        return graph
    partition: dict[int, list[Operator]] = {}
    for operator in kept:
        partition.setdefault(unit_of[operator.name], []).append(operator)
    return regroup(_of(kept, graph), list(partition.values()))


def _of(operators: Sequence[Operator], graph: Graph) -> Graph:
    """The graph with these operators, one a Unit."""
    return operator_units(
        name=graph.name,
        inputs=graph.inputs,
        outputs=graph.outputs,
        weights=graph.weights,
        values=graph.values,
        operators=operators,
    )


def _merged(graph: Graph, places: Mapping[str, int]) -> list[Operator]:
    """The operators without those that equal an earlier one in the same place; an operator that
    has no place stays."""
    renamed = Renaming(graph)
    first: dict[tuple[object, ...], Operator] = {}
    same: dict[str, str] = {}  # the value that was computed first, by a value equal to it
    kept = []
    for operator in graph.operators:
        earlier = operator
        if operator.name in places and not is_random(operator):
            key = (places[operator.name], *_key(operator, same))
            earlier = first.setdefault(key, operator)
        if earlier is not operator:
            same.update(zip(operator.outputs, earlier.outputs, strict=True))
        if earlier is operator or not _merges(operator, earlier, renamed, graph):
            kept.append(operator)
    return [renamed.apply(operator) for operator in kept]


def _key(operator: Operator, same: Mapping[str, str]) -> tuple[object, ...]:
    """Equal for equal calls. As text, because 1, 1.0 and True are equal in Python, and 0.0 is
    equal to -0.0, but not to an operator."""

    def first(name: str) -> str:
        return same.get(name, name)

    arguments = [repr(substituted(argument, first)) for argument in operator.arguments]
    keywords = [(name, repr(substituted(value, first))) for name, value in operator.keywords]
    return operator.target, len(operator.outputs), *arguments, *sorted(keywords)


def _merges(operator: Operator, earlier: Operator, renamed: Renaming, graph: Graph) -> bool:
    """Let the results of ``earlier`` stand for all results of ``operator``, or for none."""
    pairs = list(zip(operator.outputs, earlier.outputs, strict=True))
    if any(r in graph.outputs and renamed.name(e) in graph.outputs for r, e in pairs):
        return False
    return all(renamed.merges(result, other) for result, other in pairs)


def _layer_starts(graph: Graph) -> set[str]:
    """The names of the activations that one convolution alone reads."""
    readers = Counter(name for operator in graph.operators for name in operator.inputs)
    readers.update(graph.outputs)
    read_by_convolutions = {
        name
        for operator in graph.operators
        if KINDS[operator.target] == "conv"
        for name in operator.inputs
        if readers[name] == 1
    }
    return {
        operator.name
        for operator in graph.operators
        if KINDS[operator.target] == "activation" and operator.outputs[0] in read_by_convolutions
    }
