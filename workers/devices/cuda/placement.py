"""Letting operators that make tensors of numbers make them on the GPU."""

from __future__ import annotations

from dataclasses import replace

from workers.graph.graph import Graph, Operator, Unit

_MAKERS = {
    "aten.full.default", "aten.zeros.default", "aten.ones.default", "aten.scalar_tensor.default",
    "aten.arange.default", "aten.arange.start", "aten.arange.start_step",
}  # fmt: skip


def placed(graph: Graph, device: str) -> Graph:
    """The graph whose operators without tensors as arguments say where their results lie.

    Before: ``arange(16)``, which a Graph leaves to the device. After: ``arange(16,
    device='cuda:0')``. All others follow their operands.
    """
    if not any(operator.target in _MAKERS for operator in graph.operators):
        return graph
    return replace(graph, units=tuple(_placed_unit(unit, device) for unit in graph.units))


def _placed_unit(unit: Unit, device: str) -> Unit:
    operators = tuple(_placed_operator(operator, device) for operator in unit.operators)
    return unit if operators == unit.operators else replace(unit, operators=operators)


def _placed_operator(operator: Operator, device: str) -> Operator:
    if operator.target not in _MAKERS:
        return operator
    others = tuple(item for item in operator.keywords if item[0] != "device")
    return replace(operator, keywords=(*others, ("device", device)))
