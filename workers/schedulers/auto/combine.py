"""IOS's stages in Opara's launch order."""

from __future__ import annotations

from dataclasses import replace

from workers.graph.graph import Graph
from workers.schedulers.auto.launches import Launches, launches_of, numbered
from workers.schedules.schedule import StageSchedule


def inside_stages(stages: StageSchedule, order: tuple[str, ...]) -> StageSchedule:
    """The same stages, whose groups are launched in the order in which ``order`` launches the first
    Unit of each. Barriers stay as they are."""
    position = {unit: number for number, unit in enumerate(order)}
    reordered = []
    for stage in stages.stages:
        by_launch = sorted(
            range(len(stage.groups)),
            key=lambda group: min(position[unit] for unit in stage.groups[group]),
        )
        reordered.append(
            replace(
                stage,
                groups=tuple(stage.groups[group] for group in by_launch),
                threads=tuple(stage.threads[group] for group in by_launch) if stage.threads else (),
            )
        )
    return replace(stages, stages=tuple(reordered))


def across_stages(
    stages: StageSchedule, order: tuple[str, ...], graph: Graph, parallelism: int
) -> Launches:
    """The stages' streams without barriers, launched in ``order``, which is topological. A Unit may
    then be launched before one of an earlier stage."""
    launches = launches_of(stages, graph, parallelism)
    stream = dict(zip(launches.order, launches.streams, strict=True))
    positions = [graph.index[unit] for unit in order]
    return numbered(positions, [stream[unit] for unit in positions], launches.threads)
