"""ONNX models of Units.

Each operator is described as ONNX nodes by a function of one of the tables (``layers``,
``pointwise``, ``arrangement``); what it has no counterpart for is an ExportError, never an
approximation.
"""

from __future__ import annotations

from dataclasses import dataclass

from workers.graph.exporters.onnx.arrangement import ARRANGEMENT
from workers.graph.exporters.onnx.call import Call, Value
from workers.graph.exporters.onnx.layers import LAYERS
from workers.graph.exporters.onnx.patterns import Patterns, patterns
from workers.graph.exporters.onnx.pointwise import POINTWISE
from workers.graph.exporters.onnx.writer import ExportError, ModelWriter
from workers.graph.graph import Graph, Operator, Unit
from workers.graph.signature import parameters

__all__ = ["ExportError", "OnnxUnit", "export_unit"]

_DESCRIPTIONS = {**LAYERS, **POINTWISE, **ARRANGEMENT}


@dataclass(frozen=True, slots=True)
class OnnxUnit:
    """``model`` is a serialised ModelProto whose inputs are ``inputs`` in order (named input_0, …),
    whose outputs are the Unit's outputs in order (output_0, …), and whose initializers weight_0, …
    are ``weights`` in order: external data that lies nowhere, to be given when a session is made.

    Inputs and weights stand in the order in which the operators first read them. Units of equal
    structure have equal models.
    """

    model: bytes
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    weights: tuple[str, ...]


def export_unit(graph: Graph, unit: Unit) -> OnnxUnit:
    """The Unit as an ONNX model. Raises ExportError."""
    inputs, weights = parameters(graph, unit)
    writer = ModelWriter()
    values: dict[str, Value] = {}
    for number, name in enumerate(inputs):
        values[name] = Value(
            writer.input(f"input_{number}", graph.values[name]), graph.values[name]
        )
    for number, name in enumerate(weights):
        values[name] = Value(
            writer.weight(f"weight_{number}", graph.values[name]), graph.values[name]
        )
    found = patterns(unit)
    for operator in unit.operators:
        _describe(operator, graph, values, writer, found)
    for number, name in enumerate(unit.outputs):
        if name not in values:
            raise ExportError(f"output {name!r} of unit {unit.name!r} has no counterpart in ONNX")
        writer.output(f"output_{number}", values[name].name, graph.values[name])
    return OnnxUnit(writer.model(), inputs, unit.outputs, weights)


def _describe(
    operator: Operator,
    graph: Graph,
    values: dict[str, Value],
    writer: ModelWriter,
    found: Patterns,
) -> None:
    call = Call(operator, graph.specs(operator.outputs), values, writer, found)
    if operator.target not in _DESCRIPTIONS:
        raise call.error("it is not among those that can be exported")
    results = _DESCRIPTIONS[operator.target](call)
    call.check_all_read()
    # An operator may return less: what only training needs.
    for name, result in zip(
        operator.outputs, [results] if isinstance(results, str) else results, strict=False
    ):
        values[name] = Value(result, graph.values[name])
