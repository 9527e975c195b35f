"""Opara as a scheduler: Stream Allocator, Model Profiler and Operator Launcher (Section 3). Its
Graph Capturer is the device's: a Plan runs as one CUDA Graph there."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workers.graph.graph import Graph
from workers.hardware.kernel import Kernel
from workers.schedulers.base import (
    LatencyOracle,
    SchedulerError,
    SearchObserver,
    SearchResult,
    ignore_progress,
)
from workers.schedulers.opara.allocation import allocate
from workers.schedulers.opara.classes import compute_bound, listed
from workers.schedulers.opara.demand import Waves, of_a_block
from workers.schedulers.opara.launch_order import Demand, launch_order
from workers.schedulers.opara.reuse import reuse, waits
from workers.schedules.aliases import dependencies
from workers.schedules.schedule import Placement, StreamSchedule

MOST_STREAMS = 32
"""PyTorch hands out so many of one priority; the next is one of them again."""

_Kernels = Mapping[str, tuple[Kernel, ...]]
_Edges = Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class OparaScheduler:
    """Algorithm 1's streams in Algorithm 2's launch order, after one profiled inference.

    ``strict`` follows the paper to the letter: classes by a table of operators, demands of one
    block, as many streams as Algorithm 1 launches. Else a Unit's class is by its arithmetic
    intensity against the device's ridge point, and its demand the whole waves that its kernels'
    grids fill on the GPU (on a CPU, the bytes that it moves); of equal demands, the one that most
    work waits for is launched first. Streams are used again where that orders nothing anew, and
    otherwise only where there are ``max_streams`` already.
    """

    strict: bool = False
    max_streams: int = MOST_STREAMS

    def __post_init__(self) -> None:
        if not isinstance(self.strict, bool):
            raise SchedulerError(f"strict is {self.strict!r}; it is true or false")
        if type(self.max_streams) is not int or not 1 <= self.max_streams <= 1024:
            raise SchedulerError(
                f"max_streams is {self.max_streams!r}; it is a whole number from 1 to 1024"
            )

    @property
    def name(self) -> str:
        return "opara"

    def schedule(
        self, graph: Graph, oracle: LatencyOracle, observe: SearchObserver = ignore_progress
    ) -> SearchResult:
        """Raises SchedulerError if the model cannot be profiled on the device, and in strict mode
        if its kernels have no thread blocks."""
        kernels = oracle.unit_profiles()
        before = dependencies(graph)
        after = graph.successors if before is graph.predecessors else _turned(before)
        wanted = allocate(after)
        if self.strict:
            classes = [listed(unit) for unit in graph.units]
            order = launch_order(before, after, classes, _blocks(graph, kernels))
            return _result(graph, order, wanted, (_strict_note(graph, before, wanted, classes),))
        ridge = oracle.roofline().ridge
        classes = [
            compute_bound(unit, kernels[unit.name], graph.values, ridge) for unit in graph.units
        ]
        work = _work(graph, kernels)
        demands = _demands(graph, kernels, oracle, _paths(after, work))
        order = launch_order(before, after, classes, demands)
        streams = reuse(wanted, order, before, work, self.max_streams)
        note = (
            f"{_count(streams)} streams of {_count(wanted)} wanted,"
            f" {waits(streams, order, before)} synchronisations;"
            f" {sum(classes)} of {len(classes)} units are compute-bound,"
            f" with more than {ridge:.3g} operations per byte"
        )
        return _result(graph, order, streams, (note,))


def _result(
    graph: Graph, order: Sequence[int], streams: Sequence[int], notes: tuple[str, ...]
) -> SearchResult:
    placements = tuple(Placement(graph.units[unit].name, streams[unit]) for unit in order)
    return SearchResult(StreamSchedule("opara", placements), predicted_ms=None, notes=notes)


def _strict_note(
    graph: Graph, before: _Edges, streams: Sequence[int], classes: Sequence[bool]
) -> str:
    between = sum(streams[p] != streams[unit] for unit, all_p in enumerate(before) for p in all_p)
    return (
        f"{_count(streams)} streams, as many as wanted, {between} dependencies between them,"
        " synchronised but for those that others imply;"
        f" {sum(classes)} of {len(classes)} units are compute-intensive by the table"
    )


def _count(streams: Sequence[int]) -> int:
    return max(streams, default=-1) + 1


def _blocks(graph: Graph, kernels: _Kernels) -> list[tuple[int, int, int]]:
    found = [of_a_block(kernels[unit.name]) for unit in graph.units]
    if not any(any(demand) for demand in found):
        raise SchedulerError(
            f"the kernels of graph {graph.name!r} have no thread blocks on this device, which"
            " strict Opara launches by; schedule without strict"
        )
    return found


def _demands(
    graph: Graph, kernels: _Kernels, oracle: LatencyOracle, path: Sequence[int]
) -> Sequence[Demand]:
    """Whole waves on a GPU, bytes on a CPU, and of equal ones first what has the longest ``path``
    of work from it on. Less than a wave counts nothing: it leaves room for others."""
    if oracle.gpu is None:
        return [(unit.bytes_moved, -ahead) for unit, ahead in zip(graph.units, path, strict=True)]
    waves = Waves(oracle.gpu)
    return [
        (math.floor(waves.of(kernels[unit.name])), -ahead)
        for unit, ahead in zip(graph.units, path, strict=True)
    ]


def _work(graph: Graph, kernels: _Kernels) -> list[int]:
    """How long each Unit takes, in ns, and never nothing."""
    return [
        1 + round(math.fsum(k.duration_ms for k in kernels[unit.name]) * 1e6)
        for unit in graph.units
    ]


def _paths(successors: _Edges, work: Sequence[int]) -> list[int]:
    """For each Unit the longest chain of work that begins with it."""
    found = list(work)
    for unit in range(len(found) - 1, -1, -1):
        found[unit] += max((found[after] for after in successors[unit]), default=0)
    return found


def _turned(predecessors: _Edges) -> list[list[int]]:
    successors: list[list[int]] = [[] for _ in predecessors]
    for unit, before in enumerate(predecessors):
        for earlier in before:
            successors[earlier].append(unit)
    return successors
