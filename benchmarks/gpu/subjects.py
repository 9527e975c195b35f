"""The graphs that are run: small ones with real operators, and the zoo's models."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from workers import zoo
from workers.graph.graph import Argument, Graph, Operator, TensorSpec, Unit, ValueRef
from workers.graph.importers.pt2 import import_program
from workers.graph.passes import optimise
from workers.graph.random_inputs import random_inputs
from workers.schedulers.greedy import GreedyScheduler
from workers.schedulers.sequential import SequentialScheduler
from workers.schedules.lower import lower
from workers.schedules.plan import Plan
from workers.schedules.schedule import Placement, Schedule, StreamSchedule

Dag = tuple[tuple[int, ...], ...]
"""For each Unit, in topological order, the positions of its predecessors."""


def chain(length: int) -> Dag:
    return tuple((position - 1,) if position else () for position in range(length))


def wide(branches: int) -> Dag:
    return ((), *((0,) for _ in range(branches)), tuple(range(1, branches + 1)))


def random_dag(units: int, draw: random.Random) -> Dag:
    return tuple(
        tuple(before for before in range(position) if draw.random() < min(0.4, 3 / units))
        for position in range(units)
    )


def graph_of(dag: Dag, side: int = 64, name: str = "dag") -> tuple[Graph, dict[str, Tensor]]:
    """Unit ``u<i>`` sums what it reads, multiplies it by a weight and takes the tanh."""
    spec = TensorSpec((side, side), "float32")
    values = {"x": spec, "w": spec}
    units = []
    for position, predecessors in enumerate(dag):
        inputs = tuple(f"u{before}" for before in predecessors) or ("x",)
        operators: list[Operator] = []
        total = inputs[0]
        for number, other in enumerate(inputs[1:]):
            total = _call(operators, f"u{position}_s{number}", "aten.add.Tensor", total, other)
        product = _call(operators, f"u{position}_mm", "aten.mm.default", total, "w")
        output = _call(operators, f"u{position}", "aten.tanh.default", product)
        values |= {operator.outputs[0]: spec for operator in operators}
        flops, moved = 2 * side**3, spec.nbytes * (len(inputs) + 2)
        units.append(
            Unit(
                f"u{position}", "linear", tuple(operators), inputs, ("w",), (output,), flops, moved
            )
        )
    read = {name for unit in units for name in unit.inputs}
    outputs = tuple(unit.name for unit in units if unit.name not in read)
    generator = torch.Generator().manual_seed(side)
    weight = torch.randn(side, side, generator=generator) / side**0.5
    return Graph(name, ("x",), outputs, ("w",), values, tuple(units)), {"w": weight}


def _call(operators: list[Operator], name: str, target: str, *arguments: str) -> str:
    references = tuple(ValueRef(argument) for argument in arguments)
    operators.append(Operator(name, target, references, (), (name,)))
    return name


def unit_of(name: str, target: str, arguments: Sequence[Argument], weights: Sequence[str]) -> Unit:
    """A Unit of one operator on the input ``x``."""
    operator = Operator(name, target, tuple(arguments), (), (name,))
    return Unit(name, "data", (operator,), ("x",), tuple(weights), (name,), 0, 0)


class Unasked:
    """The oracle of schedulers that ask nothing."""

    parallelism = 1

    def stage_latencies(self, stages: Sequence[object]) -> list[Any]:
        raise AssertionError(stages)


def sequential(graph: Graph) -> Plan:
    return lower(SequentialScheduler().schedule(graph, Unasked()).schedule, graph, 1)


def greedy(graph: Graph) -> Plan:
    return lower(GreedyScheduler().schedule(graph, Unasked()).schedule, graph, 1)


def spread(graph: Graph, streams: int, seed: int) -> Plan:
    """The Units in a random topological order, each on a random stream."""
    draw = random.Random(seed)
    waiting = [len(before) for before in graph.predecessors]
    ready = [position for position, count in enumerate(waiting) if not count]
    placements: list[tuple[str, int]] = []
    while ready:
        position = ready.pop(draw.randrange(len(ready)))
        placements.append((graph.units[position].name, draw.randrange(streams)))
        for after in graph.successors[position]:
            waiting[after] -= 1
            if not waiting[after]:
                ready.append(after)
    return lower(on_streams(placements), graph, 1)


def chains(graph: Graph) -> Plan:
    """Opara's allocation (Algorithm 1): a Unit joins the stream of the first predecessor whose
    first successor it is, else it gets a stream of its own; launched in the graph's order."""
    placements: list[tuple[str, int]] = []
    stream: dict[int, int] = {}
    for position, unit in enumerate(graph.units):
        own = next(
            (
                stream[before]
                for before in graph.predecessors[position]
                if graph.successors[before][0] == position
            ),
            None,
        )
        stream[position] = len(set(stream.values())) if own is None else own
        placements.append((unit.name, stream[position]))
    return lower(on_streams(placements), graph, 1)


def on_streams(placements: Sequence[tuple[str, int]]) -> Schedule:
    number: dict[int, int] = {}
    return StreamSchedule(
        "benchmark",
        tuple(
            Placement(unit, number.setdefault(stream, len(number))) for unit, stream in placements
        ),
    )


@cache
def model(name: str, batch_size: int) -> tuple[Graph, dict[str, Tensor]]:
    """A model of the zoo as a job would have it, without the sandbox: it is ours."""
    graph, weights = import_program(zoo.program(name, batch_size), batch_size, name)
    return optimise(graph, weights)


def original(name: str, graph: Graph, inputs: dict[str, Tensor]) -> list[Tensor]:
    """What the model itself computes on the CPU, in the order of the graph's outputs."""
    with torch.inference_mode():
        found = zoo.build(name)(*(inputs[given] for given in graph.inputs))
    return list(torch.utils._pytree.tree_leaves(found))


def inputs_of(graph: Graph, seed: int) -> dict[str, Tensor]:
    return random_inputs(graph, seed)
