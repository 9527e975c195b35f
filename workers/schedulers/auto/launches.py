"""Schedules in one common form: Units in launch order, each on a stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from workers.graph.graph import Graph
from workers.schedules.lower import lower
from workers.schedules.schedule import Placement, Schedule, StageSchedule, StreamSchedule


@dataclass(frozen=True, slots=True)
class Launches:
    """``order`` holds the Units' positions in their graph, ``streams`` the stream of each launch,
    and ``threads`` those of each stream; empty leaves them to the device. ``providers`` name whose
    kernels compute each Unit, by its position; empty leaves all to the job, as None does with one.

    Streams are numbered in the order in which they are first used, so that equal schedules are
    equal here.
    """

    order: tuple[int, ...]
    streams: tuple[int, ...]
    threads: tuple[int, ...] = ()
    providers: tuple[str | None, ...] = ()

    @property
    def stream_count(self) -> int:
        return max(self.streams, default=-1) + 1


def numbered(
    order: Sequence[int],
    streams: Sequence[int],
    threads: Sequence[int] = (),
    providers: tuple[str | None, ...] = (),
) -> Launches:
    """Launches whose streams may have any numbers; ``threads`` are found by those."""
    names: dict[int, int] = {}
    for stream in streams:
        names.setdefault(stream, len(names))
    return Launches(
        order=tuple(order),
        streams=tuple(names[stream] for stream in streams),
        threads=tuple(threads[stream] for stream in names) if threads else (),
        providers=providers,
    )


def with_providers(launches: Launches, providers: Sequence[str | None]) -> Launches:
    """The same launches with these kernels, by the Units' positions."""
    return replace(launches, providers=tuple(providers) if any(providers) else ())


def launches_of(schedule: Schedule, graph: Graph, parallelism: int) -> Launches:
    """The launches of a schedule without the barriers that it may have. Its stages must have been
    merged before. Threads are kept where the schedule chooses them; raises ScheduleError."""
    if isinstance(schedule, StageSchedule):
        plan = lower(replace(schedule, barriers=False), graph, parallelism)
        chosen = any(stage.threads for stage in schedule.stages) or parallelism > 1
        return numbered(
            [graph.index[launch.unit] for launch in plan.launches],
            [launch.stream for launch in plan.launches],
            [stream.threads for stream in plan.streams] if chosen else (),
        )
    return numbered(
        [graph.index[placement.unit] for placement in schedule.placements],
        [placement.stream for placement in schedule.placements],
        schedule.threads,
        _providers(schedule, graph),
    )


def schedule_of(launches: Launches, graph: Graph, scheduler: str) -> StreamSchedule:
    """The inverse of ``launches_of`` for a StreamSchedule."""
    return StreamSchedule(
        scheduler=scheduler,
        placements=tuple(
            Placement(
                graph.units[position].name,
                stream,
                launches.providers[position] if launches.providers else None,
            )
            for position, stream in zip(launches.order, launches.streams, strict=True)
        ),
        threads=launches.threads,
    )


def _providers(schedule: StreamSchedule, graph: Graph) -> tuple[str | None, ...]:
    named = {placement.unit: placement.provider for placement in schedule.placements}
    found = tuple(named[unit.name] for unit in graph.units)
    return found if any(found) else ()
