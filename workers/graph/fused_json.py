"""The JSON form of the calls that stand for operators, as in an artifact's ``schedule.json``."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from workers.graph.fused import (
    CALLS,
    PACKINGS,
    FusedCall,
    Packed,
    UnitKernels,
    only_reader,
)
from workers.graph.graph import Argument, Graph, GraphError, Unit, references
from workers.graph.serialize import argument_from_json, argument_to_json


def kernels_to_json(device: str, kernels: Mapping[str, UnitKernels]) -> dict[str, Any]:
    """``device`` is the type that they are for (``cpu``, ``cuda``); Units without are left out."""
    return {
        "device": device,
        "units": {
            name: {
                "channels_last": list(unit.channels_last),
                "calls": [_call_to_json(call) for call in unit.calls],
            }
            for name, unit in kernels.items()
            if unit
        },
    }


def kernels_from_json(data: Any, graph: Graph) -> dict[str, UnitKernels]:
    """The inverse of ``kernels_to_json`` for the Units of ``graph``. Raises GraphError if it is not
    of that form, calls what is not allowed, or does not fit the Units: then nothing of it may run.

    Not proved is that a call computes what its operators do: for that, outputs are compared. Nor
    are ONNX models looked into, which ``run.py`` alone uses: here they would be made anew.
    """
    try:
        if data["device"] not in ("cpu", "cuda"):
            raise GraphError(f"kernels are for cpu or cuda, not for {data['device']!r}")
        found = {
            name: UnitKernels(
                tuple(_call(call) for call in entry["calls"]),
                tuple(entry["channels_last"]),
            )
            for name, entry in data["units"].items()
        }
        for name, kernels in found.items():
            for reason in _faults(graph, graph.unit(name), kernels):
                raise GraphError(f"the kernels of unit {name!r} {reason}")
        for name, entry in data.get("onnx", {}).items():
            _check_onnx(graph.unit(name), entry)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise GraphError(f"malformed kernels: {type(error).__name__} {error}") from error
    return found


def _check_onnx(unit: Unit, entry: Mapping[str, Any]) -> None:
    b64decode(entry["model"], validate=True)
    known = {"inputs": unit.inputs, "weights": unit.weights, "outputs": unit.outputs}
    for kind, names in known.items():
        if unknown := [name for name in entry[kind] if name not in names]:
            raise GraphError(
                f"the ONNX model of unit {unit.name!r} has {unknown[0]!r} among its {kind}, which"
                " the unit has not"
            )


def _faults(graph: Graph, unit: Unit, kernels: UnitKernels) -> Iterator[str]:
    """What does not fit the Unit."""
    weights = {name for name in unit.weights if name in graph.weights}
    for weight in kernels.channels_last:
        if weight not in weights or len(graph.values[weight].shape) != 4:
            yield f"lay out {weight!r}, which is none of its convolutions' weights"
    replaced = [name for call in kernels.calls for name in call.operators]
    if len(set(replaced)) < len(replaced):
        yield "stand for an operator twice"
    position = {operator.name: number for number, operator in enumerate(unit.operators)}
    for call in kernels.calls:
        if not call.operators or any(name not in position for name in call.operators):
            yield f"stand for operators that it does not have: {', '.join(call.operators)}"
            continue
        stood = [unit.operators[position[name]] for name in call.operators]
        if stood[-1].outputs != (call.output,):
            yield f"give {call.output!r}, which {stood[-1].name!r} does not compute"
        for before, after in pairwise(stood):
            if any(only_reader(graph, unit, value) is not after for value in before.outputs):
                yield f"leave out a result of {before.name!r} that others read"
        hidden = {v for o in unit.operators if o.name in replaced for v in o.outputs}
        hidden -= {other.output for other in kernels.calls}
        known = {*unit.inputs, *weights} | {
            value for o in unit.operators[: position[stood[-1].name]] for value in o.outputs
        }
        for value in call.inputs:
            if value not in known or value in hidden:
                yield f"read {value!r}, which is not there"
        for weight in call.weights:
            if weight not in weights:
                yield f"pack {weight!r}, which is none of its weights"


def _call_to_json(call: FusedCall) -> dict[str, Any]:
    return {
        "operators": list(call.operators),
        "target": call.target,
        "arguments": [
            {
                "packed": argument.recipe,
                "weight": argument.weight,
                "arguments": [argument_to_json(item) for item in argument.arguments],
            }
            if isinstance(argument, Packed)
            else argument_to_json(argument)
            for argument in call.arguments
        ],
        "keywords": {name: argument_to_json(value) for name, value in call.keywords},
        "output": call.output,
    }


def _call(data: Any) -> FusedCall:
    if data["target"] not in CALLS:
        raise GraphError(f"kernels call {data['target']!r}, which is not allowed")
    return FusedCall(
        operators=tuple(data["operators"]),
        target=data["target"],
        arguments=tuple(_fused_argument(argument) for argument in data["arguments"]),
        output=data["output"],
        keywords=tuple((n, argument_from_json(v)) for n, v in data["keywords"].items()),
    )


def _fused_argument(data: Any) -> Argument | Packed:
    if not isinstance(data, dict) or "packed" not in data:
        return argument_from_json(data)
    if data["packed"] not in PACKINGS:
        raise GraphError(f"kernels pack weights by {data['packed']!r}, which is not allowed")
    arguments = tuple(argument_from_json(item) for item in data["arguments"])
    if any(name for item in arguments for name in references(item)):
        raise GraphError("kernels pack a weight by what is computed")
    return Packed(data["weight"], data["packed"], arguments)
