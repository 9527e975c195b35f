"""Lowering: from a scheduler's decision to the Plan that a device runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from workers.graph.graph import Graph
from workers.schedules.aliases import dependencies
from workers.schedules.order import with_events
from workers.schedules.plan import Plan, Stream
from workers.schedules.schedule import (
    Schedule,
    ScheduleError,
    Stage,
    StageSchedule,
    StreamSchedule,
)


def lower(schedule: Schedule, graph: Graph, parallelism: int) -> Plan:
    """The Plan of a schedule on a device that can run ``parallelism`` threads at once.

    A **StreamSchedule** keeps its streams, its launch order and the providers that it names. A
    launch waits for events of the Units that it depends on. Streams get
    ``max(1, parallelism // streams)`` threads each unless the schedule says otherwise.

    A **StageSchedule** gives the only group of a stage a stream with all ``parallelism`` threads,
    and ``g`` groups a stream of ``max(1, parallelism // g)`` threads each, unless the stage says
    otherwise. Streams are reused from stage to stage. Between two stages is a barrier, whether
    their Units depend on each other or not, because a stage was timed alone: the first launch of
    each group waits for the last launch of every group of the stage before, except the one on its
    own stream, which is before it anyway. Nothing else waits. A schedule without ``barriers`` keeps
    streams and order, and its Units wait only for the Units that they depend on.

    In all of them a wait that other waits and stream order imply is left out
    (``with_events``). Of a barrier nothing is: two groups of one stage know nothing of each other.

    A StageSchedule may cover a part of the graph, as a stage that is measured alone does; a
    StreamSchedule must place every Unit.

    Raises ScheduleError, naming the Unit, stage or stream, for Units that the graph lacks, that
    are missing, launched twice or before what they depend on; for groups of one stage that depend
    on each other; for empty stages and streams; for thread counts that are not positive or not
    one for each group or stream; and for stages to be merged, which ``merge_stages`` must
    rewrite first.
    """
    if parallelism < 1:
        raise ScheduleError(f"parallelism is {parallelism}; a device runs at least one thread")
    if isinstance(schedule, StreamSchedule):
        return _lower_streams(schedule, graph, parallelism)
    if isinstance(schedule, StageSchedule):
        return _lower_stages(schedule, graph, parallelism)
    raise ScheduleError(f"a schedule of kind {schedule.kind!r} cannot be lowered")


def _lower_streams(schedule: StreamSchedule, graph: Graph, parallelism: int) -> Plan:
    count = max((placement.stream + 1 for placement in schedule.placements), default=0)
    used = {placement.stream for placement in schedule.placements}
    for placement in schedule.placements:
        if placement.stream < 0:
            raise ScheduleError(
                f"unit {placement.unit!r} is on stream {placement.stream}; streams count from 0"
            )
    for stream in range(count):
        if stream not in used:
            raise ScheduleError(
                f"stream {stream} has no units although stream {count - 1} has;"
                " number streams without gaps"
            )
    if schedule.threads and len(schedule.threads) != count:
        raise ScheduleError(
            f"the schedule has {count} streams but {len(schedule.threads)} thread counts"
        )
    threads = schedule.threads or (max(1, parallelism // max(1, count)),) * count
    _check_threads(threads, "stream")
    position = _positions(schedule.units, graph)
    for unit in graph.units:
        if unit.name not in position:
            raise ScheduleError(f"unit {unit.name!r} is on no stream")
    placements = [(placement.unit, placement.stream) for placement in schedule.placements]
    after = _dependencies(schedule.units, position, graph)
    launches = with_events(placements, dict(enumerate(after)))
    if any(placement.provider for placement in schedule.placements):
        launches = tuple(
            replace(launch, provider=placement.provider)
            for launch, placement in zip(launches, schedule.placements, strict=True)
        )
    return Plan(tuple(map(Stream, threads)), launches)


def _lower_stages(schedule: StageSchedule, graph: Graph, parallelism: int) -> Plan:
    for number, stage in enumerate(schedule.stages):
        _check(stage, number)
    position = _positions(schedule.units, graph)
    needed = _dependencies(schedule.units, position, graph)
    streams: list[Stream] = []
    placements: list[tuple[str, int]] = []
    after: dict[int, Sequence[int]] = {}
    ends: list[int] = []  # the last launch of each group of the stage before
    for number, stage in enumerate(schedule.stages):
        first = len(placements)
        previous, ends = ends, []
        for stream, group in zip(
            _streams(_threads(stage, parallelism), streams), stage.groups, strict=True
        ):
            start = len(placements)
            after[start] = previous
            for unit in group:
                for before in needed[len(placements)]:
                    if first <= before < start:
                        raise ScheduleError(
                            f"unit {unit!r} depends on unit {placements[before][0]!r} in another"
                            f" group of stage {number}; groups of one stage run side by side"
                        )
                placements.append((unit, stream))
            ends.append(len(placements) - 1)
    waits = after if schedule.barriers else dict(enumerate(needed))
    return Plan(tuple(streams), with_events(placements, waits))


def _positions(units: Sequence[str], graph: Graph) -> dict[str, int]:
    """Where in the launch order each Unit is."""
    position: dict[str, int] = {}
    for number, name in enumerate(units):
        if name not in graph.index:
            raise ScheduleError(
                f"the schedule names unit {name!r}, which graph {graph.name!r} lacks"
            )
        if name in position:
            raise ScheduleError(f"unit {name!r} is in the schedule twice")
        position[name] = number
    return position


def _dependencies(
    units: Sequence[str], position: dict[str, int], graph: Graph
) -> list[tuple[int, ...]]:
    """For each launch the earlier launches that it depends on. Units that the schedule does not
    have were computed before it."""
    needed = dependencies(graph)
    found = []
    for number, name in enumerate(units):
        before = []
        for predecessor in needed[graph.index[name]]:
            other = graph.units[predecessor].name
            if other in position:
                if position[other] > number:
                    raise ScheduleError(
                        f"unit {name!r} is launched before unit {other!r}, which it depends on"
                    )
                before.append(position[other])
        found.append(tuple(before))
    return found


def _check(stage: Stage, number: int) -> None:
    if stage.strategy != "concurrent":
        raise ScheduleError(
            f"stage {number} asks for {stage.strategy!r}, which cannot be lowered; rewrite the"
            " schedule and its graph with merge_stages first"
        )
    if not stage.groups or not all(stage.groups):
        raise ScheduleError(f"stage {number} has no groups or an empty one")
    if stage.threads and len(stage.threads) != len(stage.groups):
        raise ScheduleError(
            f"stage {number} has {len(stage.groups)} groups but {len(stage.threads)} thread counts"
        )
    _check_threads(stage.threads, f"stage {number}, group")


def _check_threads(threads: Sequence[int], where: str) -> None:
    for number, count in enumerate(threads):
        if count < 1:
            raise ScheduleError(f"{where} {number} has {count} threads; it needs one or more")


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
