"""The sequential schedule: one Unit after another, each with the whole device."""

from __future__ import annotations

from dataclasses import dataclass

from workers.graph.graph import Graph
from workers.schedulers.base import LatencyOracle, SearchObserver, SearchResult, ignore_progress
from workers.schedules.schedule import Stage, StageSchedule


@dataclass(frozen=True, slots=True)
class SequentialScheduler:
    """Every Unit is a stage of its own, in the graph's order. Asks the oracle nothing."""

    @property
    def name(self) -> str:
        return "sequential"

    def schedule(
        self, graph: Graph, oracle: LatencyOracle, observe: SearchObserver = ignore_progress
    ) -> SearchResult:
        stages = tuple(Stage(groups=((unit.name,),)) for unit in graph.units)
        return SearchResult(StageSchedule(self.name, stages), predicted_ms=None)
