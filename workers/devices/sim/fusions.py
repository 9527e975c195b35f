"""Which operators of a Unit one library call computes together on a GPU: as the provider has it."""

from __future__ import annotations

from workers.devices.providers.gpu_fusions import fused_on_gpu
from workers.graph.graph import Graph, Operator, Unit, ValueRef


def fusions(graph: Graph, unit: Unit) -> dict[str, tuple[Operator, ...]]:
    """By the name of a convolution or product: the operators that its kernel computes as well, in
    order. None is in two."""
    operators = {operator.name: operator for operator in unit.operators}
    return {
        call.operators[0]: tuple(operators[name] for name in call.operators[1:])
        for call in fused_on_gpu(graph, unit).calls
    }


def has_bias(convolution: Operator) -> bool:
    """Whether the convolution is given a bias, which is its third argument."""
    given = dict(convolution.keywords).get("bias")
    if len(convolution.arguments) > 2:
        given = convolution.arguments[2]
    return isinstance(given, ValueRef)
