"""Products with a constant matrix, written as the linear layers that they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from workers.graph.graph import Graph, Operator, ValueRef
from workers.graph.units import operator_units

_PRODUCTS = ("aten.mm.default", "aten.matmul.default")


def linear_from_product(
    graph: Graph, weights: Mapping[str, Tensor]
) -> tuple[Graph, dict[str, Tensor]]:
    """Turn a product with a weight into a linear layer.

    Before: ``matmul(x, W) → m`` with x (…, k) and W (k, n). After: ``linear(x, Wᵀ) → m``. ONNX
    files hold fully connected layers as a product and a sum; ``fold_batch_norm`` puts what is added
    into the layer's bias. A weight that something else reads too stays, as it would be stored
    twice.
    """
    readers = Counter(name for operator in graph.operators for name in operator.inputs)
    readers.update(graph.outputs)
    values, tensors = dict(graph.values), dict(weights)
    operators = []
    for operator in graph.operators:
        weight = _constant_matrix(operator, graph)
        if weight is not None and readers[weight] == 1:
            tensors[weight] = weights[weight].t().clone(memory_format=torch.contiguous_format)
            values[weight] = replace(values[weight], shape=values[weight].shape[::-1])
            operator = replace(operator, target="aten.linear.default")  # noqa: PLW2901
        operators.append(operator)
    if operators == list(graph.operators):
        return graph, tensors
    result = operator_units(
        name=graph.name,
        inputs=graph.inputs,
        outputs=graph.outputs,
        weights=graph.weights,
        values=values,
        operators=operators,
    )
    return result, tensors


def _constant_matrix(operator: Operator, graph: Graph) -> str | None:
    """The weight that the operator multiplies by from the right; None if it does not."""
    if operator.target not in _PRODUCTS or operator.keywords or len(operator.arguments) != 2:
        return None
    left, right = operator.arguments
    if not isinstance(left, ValueRef) or not isinstance(right, ValueRef) or left == right:
        return None
    if right.name not in graph.weights:
        return None
    ranks = [len(spec.shape) for spec in graph.specs((left.name, right.name))]
    return right.name if ranks[0] >= 2 and ranks[1] == 2 else None
