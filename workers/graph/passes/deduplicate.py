"""Weights that hold the same numbers."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping

import torch
from torch import Tensor

from workers.graph.graph import Graph
from workers.graph.passes.rename import Renaming
from workers.graph.units import operator_units


def deduplicate_weights(
    graph: Graph, weights: Mapping[str, Tensor]
) -> tuple[Graph, dict[str, Tensor]]:
    """Keep one of the weights that are equal bit for bit, in shape and type.

    Before: ``linear(x, W₁) → a``, ``linear(x, W₂) → b`` with W₁ = W₂. After: ``linear(x, W₁) → a``,
    ``linear(x, W₁) → b``. Tied embeddings that an exporter wrote twice become one, and equal
    operators on equal weights become common subexpressions. A weight that the graph returns stays.
    """
    alike = Counter(graph.specs(graph.weights))
    renamed = Renaming(graph)
    first: dict[object, str] = {}
    for name in graph.weights:
        spec = graph.values[name]
        if alike[spec] == 1 or name in graph.outputs:
            continue  # most weights have a shape of their own: no need to read them
        earlier = first.setdefault((spec, _digest(weights[name])), name)
        if earlier != name:
            renamed.merges(name, earlier)
    if not renamed:
        return graph, dict(weights)
    result = operator_units(
        name=graph.name,
        inputs=graph.inputs,
        outputs=graph.outputs,
        weights=graph.weights,
        values=graph.values,
        operators=[renamed.apply(operator) for operator in graph.operators],
    )
    return result, {name: weights[name] for name in result.weights}


def _digest(tensor: Tensor) -> bytes:
    """Of the bytes; -0 differs from +0, and a NaN equals itself."""
    flat = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
    return hashlib.blake2b(flat.numpy().data, digest_size=32).digest()
