"""Linear layers by oneDNN with packed weights, and the activation after them in the same call."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from workers.graph.graph import Graph, Operator, Unit, ValueRef
from workers.graph.interpreter import FusedCall

LEAST_FLOPS = 25_000_000
"""Below, there is nothing to gain: 32 rows by 512 × 512 (17 MFLOP) took as long either way."""

_ACTIVATIONS = {"aten.relu.default": "relu", "aten.gelu.default": "gelu"}


def fused_linears(graph: Graph, unit: Unit, weights: Mapping[str, Tensor]) -> list[FusedCall]:
    """The calls that stand for the Unit's larger linear layers in float32."""
    if not torch._C._has_mkldnn:
        return []
    return [
        _fused(graph, unit, operator, weights)
        for operator in unit.operators
        if operator.target == "aten.linear.default" and _fits(graph, operator, weights)
    ]


def _fits(graph: Graph, operator: Operator, weights: Mapping[str, Tensor]) -> bool:
    """Whether it is large, and weight and bias are bound, right and float32."""
    value, *bound = operator.inputs
    specs = graph.specs((value, *bound, *operator.outputs))
    if operator.keywords or any(spec.dtype != "float32" for spec in specs):
        return False
    if any(
        name not in weights
        or tuple(weights[name].shape) != graph.values[name].shape
        or weights[name].dtype != torch.float32
        for name in bound
    ):
        return False
    outputs, inputs = graph.values[bound[0]].shape
    return 2 * specs[0].numel * outputs >= LEAST_FLOPS and inputs > 0


def _fused(
    graph: Graph, unit: Unit, operator: Operator, weights: Mapping[str, Tensor]
) -> FusedCall:
    value, weight, *bias = operator.inputs
    activation = _activation(graph, unit, operator)
    last = activation or operator
    attribute = _ACTIVATIONS[activation.target] if activation else "none"
    rows = graph.values[value].numel // graph.values[weight].shape[1]
    packed = torch.ops.mkldnn._reorder_linear_weight(weights[weight].detach().contiguous(), rows)
    return FusedCall(
        name=f"mkldnn._linear_pointwise({attribute})",
        operators=tuple(dict.fromkeys((operator.name, last.name))),
        function=torch.ops.mkldnn._linear_pointwise.default,
        arguments=(
            ValueRef(value),
            packed,
            weights[bias[0]].detach() if bias else None,
            attribute,
            [],
            _approximation(activation) if attribute == "gelu" else "",
        ),
        output=last.outputs[0],
    )


def _activation(graph: Graph, unit: Unit, linear: Operator) -> Operator | None:
    """The operator that alone reads the result, if it can be fused to it."""
    (result,) = linear.outputs
    if result in unit.outputs or result in graph.outputs:
        return None
    readers = [operator for operator in unit.operators if result in operator.inputs]
    if len(readers) != 1 or readers[0].target not in _ACTIVATIONS:
        return None
    return readers[0] if len(readers[0].arguments) == 1 else None


def _approximation(gelu: Operator | None) -> str:
    return str(dict(gelu.keywords).get("approximate", "none")) if gelu else "none"
