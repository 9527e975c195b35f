"""Lowering: from a scheduler's decision to the Plan that a device runs."""

from __future__ import annotations

from collections import Counter

from workers.graph.graph import Graph
from workers.schedules.plan import Launch, Plan, Stream
from workers.schedules.schedule import Schedule, ScheduleError, Stage, StageSchedule


def lower(schedule: Schedule, graph: Graph, parallelism: int) -> Plan:
    """The Plan of a schedule on a device that can run ``parallelism`` threads at once.

    The only group of a stage gets a stream with all ``parallelism`` threads, ``g`` groups get a
    stream of ``max(1, parallelism // g)`` threads each, unless the stage says otherwise. Streams
    are reused from stage to stage. The barrier between two stages becomes events: the first
    launch of each group waits for the last launch of every group of the stage before, except the
    one on its own stream, which is before it anyway.

    Raises ScheduleError if a stage is empty, names an unknown Unit, or asks for operator merge.
    """
    if parallelism < 1:
        raise ScheduleError(f"parallelism is {parallelism}; a device runs at least one thread")
    if not isinstance(schedule, StageSchedule):
        raise ScheduleError(f"a schedule of kind {schedule.kind!r} cannot be lowered")
    streams: list[Stream] = []
    launches: list[Launch] = []
    ends: list[tuple[int, int]] = []  # (stream, launch) of each group's end in the stage before
    for number, stage in enumerate(schedule.stages):
        _check(stage, number, graph)
        previous, ends = ends, []
        taken = _streams(_threads(stage, parallelism), streams)
        for stream, group in zip(taken, stage.groups, strict=True):
            waits = []
            for other, launch in previous:
                if other != stream:
                    waits.append(launch)
            for unit in group:
                launches.append(Launch(unit, stream, waits=tuple(waits)))
                waits = []
            ends.append((stream, len(launches) - 1))
    return Plan(tuple(streams), _numbered(launches))


def _check(stage: Stage, number: int, graph: Graph) -> None:
    if stage.strategy != "concurrent":
        raise ScheduleError(f"stage {number} asks for {stage.strategy!r}, which cannot be lowered")
    if not stage.groups or not all(stage.groups):
        raise ScheduleError(f"stage {number} has no groups or an empty one")
    if stage.threads and len(stage.threads) != len(stage.groups):
        raise ScheduleError(
            f"stage {number} has {len(stage.groups)} groups but {len(stage.threads)} thread counts"
        )
    for name in stage.units:
        if name not in graph.index:
            raise ScheduleError(f"stage {number} names {name!r}, which graph {graph.name!r} lacks")


def _threads(stage: Stage, parallelism: int) -> tuple[int, ...]:
    return stage.threads or (max(1, parallelism // len(stage.groups)),) * len(stage.groups)


def _streams(threads: tuple[int, ...], streams: list[Stream]) -> list[int]:
    """A stream for each group: the first unused one of its thread count, a new one if needed."""
    used: Counter[int] = Counter()
    taken = []
    for count in threads:
        fitting = [number for number, stream in enumerate(streams) if stream.threads == count]
        if used[count] == len(fitting):
            streams.append(Stream(count))
            fitting.append(len(streams) - 1)
        taken.append(fitting[used[count]])
        used[count] += 1
    return taken


def _numbered(launches: list[Launch]) -> tuple[Launch, ...]:
    """Turn waits for launches into waits for events, numbered in the order they are recorded."""
    awaited = sorted({before for launch in launches for before in launch.waits})
    event = {launch: number for number, launch in enumerate(awaited)}
    return tuple(
        Launch(
            launch.unit,
            launch.stream,
            waits=tuple(event[before] for before in launch.waits),
            records=event.get(position),
        )
        for position, launch in enumerate(launches)
    )
