"""The greedy schedule of the IOS paper (Section 6.1): run all that is ready, then repeat."""

from __future__ import annotations

from dataclasses import dataclass

from workers.graph.graph import Graph
from workers.schedulers.base import LatencyOracle, SearchObserver, SearchResult, ignore_progress
from workers.schedules.schedule import Stage, StageSchedule


@dataclass(frozen=True, slots=True)
class GreedyScheduler:
    """Each stage takes every Unit whose predecessors are in earlier stages, a group for each.
    Asks the oracle nothing."""

    @property
    def name(self) -> str:
        return "greedy"

    def schedule(
        self, graph: Graph, oracle: LatencyOracle, observe: SearchObserver = ignore_progress
    ) -> SearchResult:
        level: list[int] = []
        stages: list[list[str]] = []
        for unit, predecessors in zip(graph.units, graph.predecessors, strict=True):
            level.append(max((level[before] + 1 for before in predecessors), default=0))
            if level[-1] == len(stages):
                stages.append([])
            stages[level[-1]].append(unit.name)
        return SearchResult(
            StageSchedule(
                self.name,
                tuple(Stage(groups=tuple((name,) for name in stage)) for stage in stages),
            ),
            predicted_ms=None,
        )
