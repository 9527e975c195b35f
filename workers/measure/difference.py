"""Which Unit is wrong, when a Plan's outputs are: the search for the first one that differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from workers.devices.base import DeviceError, Executable
from workers.graph.graph import Graph, Unit
from workers.graph.interpreter import compile_unit, run_graph
from workers.measure.tolerance import compare_outputs
from workers.schedules.plan import Launch, Plan


@dataclass(frozen=True, slots=True)
class _Suspect:
    """A Unit that does not compute what it should from what it read."""

    unit: Unit
    value: str
    words: str


def explain_difference(
    executable: Executable,
    graph: Graph,
    weights: Mapping[str, Tensor],
    plan: Plan,
    inputs: Mapping[str, Tensor],
    expected: Sequence[Tensor],
) -> str:
    """In words, which Unit makes the outputs differ from ``expected``.

    The Plan is run once more with every value kept. Each Unit, in topological order, is computed by
    the reference interpreter from the values that the device gave to it, so that an error that came
    in with its inputs is not its fault, and the first that differs is really wrong. If none does,
    the error is not within a Unit: the graph itself is wrong, memory was reused too early, or many
    small errors added up.
    """
    try:
        values = executable.values(inputs)
        again = executable.values(inputs)
    except (DeviceError, MemoryError) as error:
        return f"which unit is wrong cannot be told: keeping all values failed: {error}"
    suspect = _first_wrong(graph, weights, inputs, values)
    if suspect is None:
        suspect = _first_wrong(graph, weights, inputs, again)
        if suspect is not None:
            return f"{_named(suspect, graph, plan)}; only in one of two runs, so it is a race"
        return _without_suspect(graph, weights, inputs, expected, values)
    words = _named(suspect, graph, plan)
    if _judge(suspect.unit, graph, weights, inputs, again) is None:
        words += "; only in one of two runs, so it is a race"
    return words


def _first_wrong(
    graph: Graph,
    weights: Mapping[str, Tensor],
    inputs: Mapping[str, Tensor],
    values: Mapping[str, Tensor],
) -> _Suspect | None:
    found = (_judge(unit, graph, weights, inputs, values) for unit in graph.units)
    return next((suspect for suspect in found if suspect is not None), None)


def _judge(
    unit: Unit,
    graph: Graph,
    weights: Mapping[str, Tensor],
    inputs: Mapping[str, Tensor],
    values: Mapping[str, Tensor],
) -> _Suspect | None:
    """The Unit, if its outputs among ``values`` are not what it makes of its inputs there."""
    compiled = compile_unit(graph, unit, weights)
    read = {**weights, **inputs, **values}
    with torch.inference_mode():
        # On the CPU, wherever the device is: the reference is always the same. In clones, as a
        # Unit may write over what it made itself, and an input may be a view of that.
        results = compiled.function(*(read[name].cpu().clone() for name in compiled.inputs))
    for name, result in zip(compiled.outputs, results, strict=True):
        _, words = compare_outputs(values[name], result)
        if words is not None:
            return _Suspect(unit, name, words)
    return None


def _named(suspect: _Suspect, graph: Graph, plan: Plan) -> str:
    unit = suspect.unit
    launches = {launch.unit: launch for launch in plan.launches}
    operators = ", ".join(operator.target for operator in unit.operators)
    return (
        f"the first wrong unit is {unit.name!r} ({operators}) on stream"
        f" {launches[unit.name].stream}: from the same inputs, the reference makes another value"
        f" {suspect.value!r} than the device ({suspect.words}){_read_across(unit, graph, launches)}"
    )


def _read_across(unit: Unit, graph: Graph, launches: Mapping[str, Launch]) -> str:
    """What the Unit reads from other streams: there a race would come from."""
    own = launches[unit.name].stream
    others = [graph.units[position] for position in graph.predecessors[graph.index[unit.name]]]
    across = [
        f"{other.name!r} (stream {launches[other.name].stream})"
        for other in others
        if launches[other.name].stream != own
    ]
    return f"; it reads from {', '.join(across)} on other streams" if across else ""


def _without_suspect(
    graph: Graph,
    weights: Mapping[str, Tensor],
    inputs: Mapping[str, Tensor],
    expected: Sequence[Tensor],
    values: Mapping[str, Tensor],
) -> str:
    """No Unit is wrong alone; what else can be."""
    reference = run_graph(graph, weights, inputs)
    if _differs([reference[name] for name in graph.outputs], expected):
        return (
            "no unit differs from the reference, which computes the same wrong outputs from the"
            " graph: the import or an optimisation of the graph is wrong, not the plan"
        )
    kept = {**weights, **inputs, **values}
    if not _differs([kept[name] for name in graph.outputs], expected):
        return (
            "no unit differs when all values are kept, and the outputs are then right: memory is"
            " reused before its last reader has ended, or it is a race that did not happen again"
        )
    return (
        "every unit is within its tolerance, but their errors add up: the device computes with"
        " less precision than the original"
    )


def _differs(actual: Sequence[Tensor], expected: Sequence[Tensor]) -> bool:
    return any(compare_outputs(a, e)[1] is not None for a, e in zip(actual, expected, strict=True))
