"""Operators that compute the same every time, computed once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import torch
from torch import Tensor

from workers.graph.graph import Graph, Operator
from workers.graph.interpreter import run_graph
from workers.graph.passes.randomness import is_random
from workers.graph.units import operator_units

LARGEST_GROWTH = 4 << 20
"""Bytes by which one folded result may exceed the weights that it replaces.

Four MiB hold the boolean mask of 2,048 tokens. What is larger is cheaper to compute on the device
than to store, ship in an artifact and read from memory."""

LARGEST_TOTAL_GROWTH = 64 << 20
"""The same for all folded results of a graph together."""


def fold_constants(graph: Graph, weights: Mapping[str, Tensor]) -> tuple[Graph, dict[str, Tensor]]:
    """Turn operators that read weights and numbers only into weights.

    Before: ``arange(8) → a``, ``mul(a, 2) → b``, ``t(W) → v``, ``matmul(x, v) → m``,
    ``add(m, b) → y``. After: weights ``b`` and ``v``, ``matmul(x, v) → m``, ``add(m, b) → y``.

    An operator stays if it draws random numbers, if the graph returns its result, or if its result
    would be much larger than what it reads (LARGEST_GROWTH), as that of ``expand`` and ``full`` may
    be. What is computed from it then stays too.
    """
    chosen = _constant_operators(graph)
    if not chosen:
        return graph, dict(weights)
    gone = {operator.name for operator in chosen}
    kept = [operator for operator in graph.operators if operator.name not in gone]
    read = {name for operator in kept for name in operator.inputs}
    made = [name for operator in chosen for name in operator.outputs if name in read]
    tensors = {**weights, **_computed(graph, chosen, made, weights)}
    result = operator_units(
        name=graph.name,
        inputs=graph.inputs,
        outputs=graph.outputs,
        weights=tuple(tensors),
        values=graph.values,
        operators=kept,
    )
    return result, {name: tensors[name] for name in result.weights}


def _constant_operators(graph: Graph) -> list[Operator]:
    """The operators to fold, in order, by shapes alone."""
    readers = Counter(name for operator in graph.operators for name in operator.inputs)
    readers.update(graph.outputs)
    known = set(graph.weights)
    chosen = []
    total = 0
    for operator in graph.operators:
        if not known.issuperset(operator.inputs) or is_random(operator):
            continue
        if any(name in graph.outputs for name in operator.outputs):
            continue
        # An operand that something else reads too has to be kept beside the result.
        replaced = sum(s.nbytes for s in graph.specs(n for n in operator.inputs if readers[n] == 1))
        grown = sum(s.nbytes for s in graph.specs(operator.outputs)) - replaced
        if grown > LARGEST_GROWTH or total + max(grown, 0) > LARGEST_TOTAL_GROWTH:
            continue
        total += max(grown, 0)
        chosen.append(operator)
        known.update(operator.outputs)
    return chosen


def _computed(
    graph: Graph, operators: list[Operator], names: list[str], weights: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """The named results of ``operators``, each in memory of its own."""
    constant = operator_units(
        name=f"constants of {graph.name}",
        inputs=(),
        outputs=names,
        weights=graph.weights,
        values=graph.values,
        operators=operators,
    )
    # A view would keep all of its base alive, and cannot be stored.
    return {
        name: tensor.clone(memory_format=torch.contiguous_format)
        for name, tensor in run_graph(constant, weights, {}).items()
    }
