"""Linear layers by oneDNN with packed weights, and the activation after them in the same call."""

from __future__ import annotations

from workers.devices.providers.reading import Linear, read_linear
from workers.graph.fused import FusedCall, Packed, only_reader
from workers.graph.graph import Graph, Operator, Unit, ValueRef

LEAST_FLOPS = 25_000_000
"""Below, there is nothing to gain: 32 rows by 512 × 512 (17 MFLOP) took as long either way."""

_ACTIVATIONS = {"aten.relu.default": "relu", "aten.gelu.default": "gelu"}


def fused_linears(graph: Graph, unit: Unit) -> tuple[FusedCall, ...]:
    """The calls that stand for the Unit's larger linear layers in float32."""
    calls = []
    for operator in unit.operators:
        linear = read_linear(operator, graph)
        if linear is None or graph.values[linear.value].dtype != "float32":
            continue
        if 2 * graph.values[linear.value].numel * graph.values[linear.weight].shape[0] >= (
            LEAST_FLOPS
        ):
            calls.append(_fused(graph, unit, operator, linear))
    return tuple(calls)


def _fused(graph: Graph, unit: Unit, operator: Operator, linear: Linear) -> FusedCall:
    activation = _activation(graph, unit, operator)
    last = activation or operator
    attribute = _ACTIVATIONS[activation.target] if activation else "none"
    rows = graph.values[linear.value].numel // graph.values[linear.weight].shape[1]
    return FusedCall(
        operators=tuple(dict.fromkeys((operator.name, last.name))),
        target="mkldnn._linear_pointwise.default",
        arguments=(
            ValueRef(linear.value),
            Packed(linear.weight, "mkldnn._reorder_linear_weight.default", (rows,)),
            ValueRef(linear.bias) if linear.bias else None,
            attribute,
            (),
            approximation(activation) if activation and attribute == "gelu" else "",
        ),
        output=last.outputs[0],
    )


def _activation(graph: Graph, unit: Unit, linear: Operator) -> Operator | None:
    """The operator that alone reads the result, if it can be fused to it."""
    reader = only_reader(graph, unit, linear.outputs[0])
    if reader is None or reader.target not in _ACTIVATIONS:
        return None
    return reader if len(reader.arguments) == 1 else None


def approximation(gelu: Operator) -> str:
    """How ``aten.gelu`` computes: ``none`` or ``tanh``."""
    return str(dict(gelu.keywords).get("approximate", "none"))
