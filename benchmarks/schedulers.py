"""How long it takes to put operators on streams, beside what Opara's paper says of the same.

    .venv/bin/python benchmarks/schedulers.py [--output benchmarks/results/schedulers.json]

No model is run, and kernels are profiled, on a simulated A100, before time is taken. Times are CPU
time of this process, medians of rounds that take every algorithm in turn. Each model is taken
twice: as it is imported, every ATen operator a Unit, which is nearest to the torch.fx graphs of the
paper; and in the fused Units that a job schedules unless it says otherwise. A new algorithm is a
row of ``ALGORITHMS``.
"""

from __future__ import annotations

import argparse
import json
import operator
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import networkx as nx
import torch.fx
from machine import machine
from plans import Unasked

from workers import zoo
from workers.devices.sim.device import SimDevice
from workers.graph.graph import Graph, Operator, TensorSpec, Unit, ValueRef
from workers.graph.importers.pt2 import import_program
from workers.graph.passes import optimise
from workers.graph.width import width
from workers.hardware.gpu import GpuFacts
from workers.hardware.kernel import Kernel
from workers.hardware.roofline import Roofline
from workers.measure.oracle import MeasuringOracle
from workers.measure.profile_index import MemoryIndex
from workers.schedulers.nimble import NimbleScheduler, assign_streams
from workers.schedulers.opara import OparaScheduler
from workers.schedulers.opara.allocation import allocate
from workers.schedules.lower import lower
from workers.schedules.schedule import Schedule

MODELS = ("googlenet", "inception_v3", "bert_base", "t5_small")
ROUNDS = 31
LONG = (1_000, 10_000, 100_000)

# Opara, Table I: computation time in ms; Section 5.2: streams.
PUBLISHED_MS = {
    "opara": {"bert_base": 0.58, "googlenet": 0.27, "inception_v3": 0.50, "t5_small": 2.8},
    "nimble": {"bert_base": 20.8, "googlenet": 5.80, "inception_v3": 14.40, "t5_small": 161.4},
}
PUBLISHED_STREAMS = {
    "opara": {"googlenet": 28, "t5_small": 6},
    "nimble": {"googlenet": 4, "t5_small": 3},
}


@dataclass(frozen=True, slots=True)
class Algorithm:
    """``prepare`` does what is not timed and returns what is. ``schedule``, of rows that have one,
    is counted: its streams and waits. ``published`` names the row of the paper's Table I."""

    prepare: Callable[[Graph], Callable[[], object]]
    schedule: Callable[[Graph], Schedule] | None = None
    published: str | None = None


def nimble_streams(graph: Graph) -> Callable[[], object]:
    successors = graph.successors
    return lambda: assign_streams(successors)


def nimble_schedule(graph: Graph) -> Schedule:
    return NimbleScheduler().schedule(graph, Unasked()).schedule


def nimble_with_networkx(graph: Graph) -> Callable[[], object]:
    """The paper's Algorithm 1 alone, by a library: no second matching, and no streams numbered."""
    edges = [(unit, after) for unit, afters in enumerate(graph.successors) for after in afters]

    def matched() -> object:
        reduced = nx.transitive_reduction(nx.DiGraph(edges))
        sides = nx.Graph((("before", a), ("after", b)) for a, b in reduced.edges)
        lefts = [node for node in sides if node[0] == "before"]
        return nx.bipartite.hopcroft_karp_matching(sides, lefts)

    return matched


def opara_streams(graph: Graph) -> Callable[[], object]:
    successors = graph.successors
    return lambda: allocate(successors)


def opara_as_printed(graph: Graph) -> Callable[[], object]:
    """Algorithm 1 line by line on a torch.fx graph, which is what the paper's own has."""
    drawn = torch.fx.Graph()
    nodes: list[torch.fx.Node] = []
    for before in graph.predecessors:
        read = tuple(nodes[unit] for unit in before)
        nodes.append(drawn.call_function(operator.add, read))

    def allocated() -> object:
        streams: set[int] = set()
        stream_of: dict[torch.fx.Node, int] = {}
        for node in drawn.nodes:
            for before in node.all_input_nodes:
                if next(iter(before.users)) is node:
                    stream_of[node] = stream_of[before]
                    break
            if node not in stream_of:
                stream_of[node] = len(streams)
                streams.add(stream_of[node])
        return stream_of

    return allocated


@dataclass(frozen=True)
class Profiled:
    """An oracle that has profiled already."""

    gpu: GpuFacts | None
    ceilings: Roofline
    kernels: Mapping[str, tuple[Kernel, ...]]

    def roofline(self) -> Roofline:
        return self.ceilings

    def unit_profiles(self) -> Mapping[str, tuple[Kernel, ...]]:
        return self.kernels


PROFILED: dict[tuple[str, int], Profiled] = {}
"""By name and Units of the graph; profiling is not what is timed, and done once."""


def profiled(graph: Graph) -> Profiled:
    key = graph.name, len(graph.units)
    if key not in PROFILED:
        asked = MeasuringOracle(graph, {}, SimDevice("a100"), MemoryIndex())
        PROFILED[key] = Profiled(asked.gpu, asked.roofline(), asked.unit_profiles())
    return PROFILED[key]


def opara_schedule(graph: Graph, strict: bool) -> Schedule:
    return OparaScheduler(strict).schedule(graph, profiled(graph)).schedule


def opara_whole(graph: Graph, strict: bool) -> Callable[[], object]:
    profiled(graph)
    return lambda: opara_schedule(graph, strict)


ALGORITHMS = {
    "nimble": Algorithm(nimble_streams, nimble_schedule, "nimble"),
    "nimble, from graph to schedule": Algorithm(lambda graph: lambda: nimble_schedule(graph)),
    "nimble's first matching by NetworkX": Algorithm(nimble_with_networkx),
    "opara, Algorithm 1": Algorithm(opara_streams, published="opara"),
    "opara, Algorithm 1 as printed": Algorithm(opara_as_printed),
    "opara, strict, from graph to schedule": Algorithm(
        partial(opara_whole, strict=True), partial(opara_schedule, strict=True)
    ),
    "opara, from graph to schedule": Algorithm(
        partial(opara_whole, strict=False), partial(opara_schedule, strict=False)
    ),
}


def graphs(name: str) -> Iterator[tuple[str, Graph]]:
    """The model as it is imported and as a job schedules it."""
    print(f"importing {name}", file=sys.stderr)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        imported = import_program(zoo.program(name, 1), 1)
    yield "imported", imported[0]
    yield "fused", optimise(*imported)[0]


def timed_ms(graph: Graph, algorithm: Algorithm) -> float:
    """With a graph that has computed nothing of itself yet, as a job's has not."""
    run = algorithm.prepare(replace(graph))
    started = time.process_time_ns()
    run()
    return (time.process_time_ns() - started) / 1e6


def counted(graph: Graph, algorithm: Algorithm) -> dict[str, int]:
    if algorithm.schedule is None:
        return {}
    plan = lower(algorithm.schedule(graph), graph, 1)
    return {
        "streams": len(plan.streams),
        "waits": sum(len(launch.waits) for launch in plan.launches),
    }


def measured(graph: Graph) -> dict[str, Any]:
    times: dict[str, list[float]] = {name: [] for name in ALGORITHMS}
    for _ in range(ROUNDS):
        for name, algorithm in ALGORITHMS.items():
            times[name].append(timed_ms(graph, algorithm))
    return {
        "units": len(graph.units),
        "dependencies": sum(map(len, graph.successors)),
        "width": width(graph.successors),
        "algorithms": {
            name: {
                "median_ms": round(statistics.median(taken), 4),
                "quartiles_ms": [round(q, 4) for q in statistics.quantiles(taken)[::2]],
                **counted(graph, ALGORITHMS[name]),
            }
            for name, taken in times.items()
        },
    }


def table(models: Mapping[str, Any], units: str) -> str:
    """In Markdown: medians in ms beside the paper's, with streams and waits where counted."""
    names = list(models)
    found = [models[name][units] for name in names]
    lines = [
        f"| {units} | {' | '.join(names)} |",
        f"|---|{'---|' * len(names)}",
        f"| units, dependencies | {' | '.join(_size(graph) for graph in found)} |",
    ]
    for row, algorithm in ALGORITHMS.items():
        cells = [graph["algorithms"][row] for graph in found]
        lines.append(f"| {row} | {' | '.join(_cell(cell) for cell in cells)} |")
        if algorithm.published is not None:
            cells = [_published(algorithm.published, name) for name in names]
            lines.append(f"| {algorithm.published}, published | {' | '.join(cells)} |")
    return "\n".join(lines)


def _size(graph: Mapping[str, Any]) -> str:
    return f"{graph['units']}, {graph['dependencies']}"


def _cell(cell: Mapping[str, Any]) -> str:
    time_ms = f"{cell['median_ms']:.2f} ms"
    if "streams" not in cell:
        return time_ms
    return f"{time_ms}, {cell['streams']} streams, {cell['waits']} waits"


def _published(row: str, name: str) -> str:
    streams = PUBLISHED_STREAMS[row].get(name)
    time_ms = f"{PUBLISHED_MS[row][name]:.2f} ms"
    return time_ms if streams is None else f"{time_ms}, {streams} streams"


def long_graph(units: int) -> Graph:
    """A chain of blocks: four branches of three Units each and one that joins them. The least that
    a Graph needs; nobody runs it."""
    spec = TensorSpec((8, 8), "float32")
    made: list[Unit] = []

    def add(*read: str) -> str:
        name = f"u{len(made)}"
        call = Operator(name, "aten.cat.default", (tuple(map(ValueRef, read)),), (), (name,))
        made.append(Unit(name, "concat", (call,), read, (), (name,), 0, spec.nbytes))
        return name

    last = "x"
    while len(made) < units:
        last = add(*(add(add(add(last))) for _ in range(4)))
    values = dict.fromkeys(["x", *(unit.name for unit in made)], spec)
    return Graph("long", ("x",), (last,), (), values, tuple(made))


def scaling() -> dict[str, Any]:
    """CPU time of Opara whole on long graphs: for each Unit it should not grow."""
    found: dict[str, Any] = {}
    for units in LONG:
        graph = long_graph(units)
        kernels = {u.name: (Kernel(u.name, "k", 1.0, (9, 1, 1), (64, 1, 1)),) for u in graph.units}
        gpu = SimDevice("a100").facts.gpu
        oracle = Profiled(gpu, Roofline(1e13, 1e12), kernels)
        for strict in (True, False):
            taken = []
            for _ in range(3):
                fresh = replace(graph)
                started = time.process_time()
                OparaScheduler(strict).schedule(fresh, oracle)
                taken.append(time.process_time() - started)
            us = statistics.median(taken) * 1e6 / len(graph.units)
            label = f"opara{', strict' if strict else ''}, {len(graph.units)} units"
            found[label] = {"us_for_each_unit": round(us, 2)}
            print(f"{label}: {us:.1f} us for each unit")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    taken_on = machine()
    models = {name: {kind: measured(graph) for kind, graph in graphs(name)} for name in MODELS}
    for units in ("imported", "fused"):
        print(table(models, units), end="\n\n")
    long = scaling()
    if options.output:
        report = {
            "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": taken_on,
            "rounds": ROUNDS,
            "published_ms": PUBLISHED_MS,
            "published_streams": PUBLISHED_STREAMS,
            "models": models,
            "scaling": long,
        }
        options.output.write_text(json.dumps(report, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
