"""The Plans of many stages of one graph, each alone."""

from __future__ import annotations

from workers.graph.graph import Graph
from workers.schedules.aliases import dependencies
from workers.schedules.lower import lower
from workers.schedules.plan import Launch, Plan, Stream
from workers.schedules.schedule import Stage, StageSchedule


class Alone:
    """Lowers stages for a device of ``parallelism``, as ``lower`` does, in less time."""

    def __init__(self, graph: Graph, parallelism: int) -> None:
        self._graph, self._parallelism = graph, parallelism
        self._needed = dependencies(graph)

    def plan(self, stage: Stage) -> Plan:
        """The Plan that ``lower`` makes of the stage alone: a stream for each group, and nothing
        that waits. Stages of which that is not true are left to ``lower``, and so are those that
        cannot be run: it says why not.
        """
        launches = self._launches(stage)
        if launches is None:
            return lower(StageSchedule("stage", (stage,)), self._graph, self._parallelism)
        count = len(stage.groups)
        return Plan((Stream(max(1, self._parallelism // count)),) * count, launches)

    def _launches(self, stage: Stage) -> tuple[Launch, ...] | None:
        """None if the stage gives threads, or something is wrong with it."""
        if stage.strategy != "concurrent" or stage.threads or not stage.groups:
            return None
        if self._parallelism < 1 or not all(stage.groups):
            return None
        index, own, launches = self._graph.index, dict[int, int](), list[Launch]()
        for stream, group in enumerate(stage.groups):
            for name in group:
                unit = index.get(name)
                if unit is None or unit in own:
                    return None
                own[unit] = stream
                launches.append(Launch(name, stream))
        launched = set[int]()
        for unit, stream in own.items():
            for before in self._needed[unit]:
                if before in own and (own[before] != stream or before not in launched):
                    return None
            launched.add(unit)
        return tuple(launches)
