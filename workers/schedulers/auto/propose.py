"""What ``auto`` adds to what the schedulers found: combinations, and the best of all refined."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from workers.graph.graph import Graph
from workers.schedulers.auto.combine import across_stages, inside_stages
from workers.schedulers.auto.launches import (
    Launches,
    launches_of,
    schedule_of,
    with_providers,
)
from workers.schedulers.auto.moves import Neighbourhood
from workers.schedulers.auto.refine import Effort, refine
from workers.schedulers.base import LatencyOracle, SchedulerError
from workers.schedules.schedule import Schedule, Stage, StageSchedule

COMBINED = "ios+opara"
REFINED = "refined"
MIXED = "mixed"

STARTS = 3
"""Of the schedules, how many the local search begins with: those that are expected to be fastest.
It spends most of its time near the first."""

MOST_STREAMS = 32
"""As many as PyTorch hands out of one priority."""

WORTH_IT = 1e-3
"""A gain that a local search must expect to be proposed: less would vanish when it is measured."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A schedule, what is expected of it in ms, and how it came about, in words."""

    name: str
    schedule: Schedule
    expected_ms: float
    note: str


@dataclass(frozen=True, slots=True)
class Proposals:
    """What there is to try, why something else is not, and what is expected in ms of everything,
    the schedules given included; nothing where the oracle expects nothing."""

    found: tuple[Proposal, ...]
    missing: Mapping[str, str]
    expected_ms: Mapping[str, float]


def propose(
    graph: Graph,
    oracle: LatencyOracle,
    known: Mapping[str, Schedule],
    effort: Effort | None = None,
    seed: int = 0,
    expired: Callable[[], bool] = lambda: False,
) -> Proposals:
    """Combine and refine the schedules ``known`` by the names of those who found them.

    Units that a schedule merges belong to another graph: here they run side by side in place of
    that. Which combination is proposed, and where the local search goes, is decided by what the
    oracle expects. Where it expects nothing, nothing is proposed, and the oracle's words say why.
    """
    usable = {name: _without_merging(schedule) for name, schedule in known.items()}
    try:
        expected = dict(zip(usable, oracle.expected_latencies(list(usable.values())), strict=True))
    except SchedulerError as error:
        return Proposals((), dict.fromkeys((COMBINED, REFINED), str(error)), {})
    combined = _combined(graph, oracle, usable)
    if isinstance(combined, Proposal):
        usable[COMBINED], expected[COMBINED] = combined.schedule, combined.expected_ms
    try:
        refined = _refined(graph, oracle, usable, expected, effort, seed, expired)
    except SchedulerError as error:
        refined = str(error)
    found = {COMBINED: combined, REFINED: refined}
    proposals = tuple(one for one in found.values() if isinstance(one, Proposal))
    return Proposals(
        found=proposals,
        missing={name: reason for name, reason in found.items() if isinstance(reason, str)},
        expected_ms=expected | {one.name: one.expected_ms for one in proposals},
    )


def mix_providers(
    graph: Graph,
    oracle: LatencyOracle,
    known: Mapping[str, Schedule],
    effort: Effort | None = None,
    seed: int = 0,
    expired: Callable[[], bool] = lambda: False,
) -> Proposal | str:
    """The schedules ``known`` refined once more, where each Unit may also get the kernels of
    another of the oracle's providers; or why nothing is proposed.

    It begins with the schedules that are expected to be fastest, with the kernels of one provider
    each, and with every Unit of theirs changed for which that alone is expected to gain.
    """
    usable = {name: _without_merging(schedule) for name, schedule in known.items()}
    try:
        expected = dict(zip(usable, oracle.expected_latencies(list(usable.values())), strict=True))
        return _refined(graph, oracle, usable, expected, effort, seed, expired, MIXED)
    except SchedulerError as error:
        return str(error)


def _combined(graph: Graph, oracle: LatencyOracle, known: Mapping[str, Schedule]) -> Proposal | str:
    """IOS's stages in Opara's order, inside stages or across them, or why not."""
    stages, streams = known.get("ios"), known.get("opara")
    if not isinstance(stages, StageSchedule) or streams is None:
        return "needs the schedules of both IOS and Opara"
    order = streams.units
    inside = replace(inside_stages(stages, order), scheduler=COMBINED)
    across = schedule_of(across_stages(stages, order, graph, oracle.parallelism), graph, COMBINED)
    expected = oracle.expected_latencies([inside, across])
    if expected[1] < expected[0]:
        return Proposal(COMBINED, across, expected[1], "IOS's streams in Opara's launch order")
    note = "IOS's stages, the groups of each in Opara's launch order"
    return Proposal(COMBINED, inside, expected[0], note)


def _refined(
    graph: Graph,
    oracle: LatencyOracle,
    schedules: Mapping[str, Schedule],
    expected_ms: Mapping[str, float],
    effort: Effort | None,
    seed: int,
    expired: Callable[[], bool],
    scheduler: str = REFINED,
) -> Proposal | str:
    """The best schedule refined by local search, or why not."""
    if len(graph.units) < 2 or not schedules:
        return "there is nothing to refine"
    if math.isinf(min(expected_ms.values())):
        return "there was no time to measure the units that it would be guided by"
    parallelism = oracle.parallelism
    ranked = sorted(schedules, key=expected_ms.__getitem__)
    starts = [launches_of(schedules[name], graph, parallelism) for name in ranked[:STARTS]]

    def expected(asked: Sequence[Launches]) -> Sequence[float]:
        return oracle.expected_latencies([schedule_of(one, graph, scheduler) for one in asked])

    most = max(parallelism, *(found.stream_count for found in starts), _width_of(graph))
    providers = tuple(oracle.providers)
    neighbourhood = Neighbourhood.of(
        graph, _weights(graph, oracle), min(most, MOST_STREAMS), parallelism, providers
    )
    starts += _provided(starts, providers, expected)
    found = refine(starts, neighbourhood, expected, effort, seed, expired)
    started_ms = expected_ms[ranked[0]]
    tried = f"{found.trials:,} schedules tried" + (", until time was up" if found.cut_short else "")
    if found.expected_ms > started_ms * (1 - WORTH_IT):
        return f"nothing better than {ranked[0]} is expected: {tried}"
    note = (
        f"refined from {ranked[0]}: {found.expected_ms:.4g} ms expected in place of"
        f" {started_ms:.4g} ms, {tried}{_whose(found.launches)}"
    )
    schedule = schedule_of(found.launches, graph, scheduler)
    return Proposal(scheduler, schedule, found.expected_ms, note)


def _provided(
    starts: Sequence[Launches],
    providers: Sequence[str | None],
    expected: Callable[[Sequence[Launches]], Sequence[float]],
) -> list[Launches]:
    """Each start with the kernels of each other provider, and with the provider of every Unit that
    gains the most by itself; nothing where there is one provider."""
    found: list[Launches] = []
    for start in starts if len(providers) > 1 else ():
        found += [with_providers(start, [name] * len(start.order)) for name in providers[1:]]
        changes = [(unit, name) for unit in range(len(start.order)) for name in providers[1:]]
        asked = [start, *(_changed(start, {unit: name}) for unit, name in changes)]
        best_ms, *latencies = expected(asked)
        gains: dict[int, tuple[float, str | None]] = {}
        for (unit, name), latency_ms in zip(changes, latencies, strict=True):
            if latency_ms < min(best_ms, gains.get(unit, (best_ms, None))[0]):
                gains[unit] = latency_ms, name
        found.append(_changed(start, {unit: name for unit, (_, name) in gains.items()}))
    return found


def _changed(launches: Launches, providers: Mapping[int, str | None]) -> Launches:
    before = launches.providers or (None,) * len(launches.order)
    after = [providers.get(unit, name) for unit, name in enumerate(before)]
    return with_providers(launches, after)


def _whose(launches: Launches) -> str:
    """In words, how many Units have the kernels of which other provider."""
    counted = Counter(name for name in launches.providers if name)
    found = [f"{count} of {len(launches.order)} by {name}" for name, count in counted.items()]
    return f"; units with other kernels: {', '.join(found)}" if found else ""


def _without_merging(schedule: Schedule) -> Schedule:
    if not isinstance(schedule, StageSchedule):
        return schedule
    stages = tuple(
        Stage(tuple((unit,) for unit in stage.units)) if stage.strategy == "merge" else stage
        for stage in schedule.stages
    )
    return replace(schedule, stages=stages)


def _weights(graph: Graph, oracle: LatencyOracle) -> list[float]:
    """How long each Unit's kernels take."""
    profiles = oracle.unit_profiles()
    return [math.fsum(kernel.duration_ms for kernel in profiles[unit.name]) for unit in graph.units]


def _width_of(graph: Graph) -> int:
    """Streams that are worth having: as many as a Unit has successors somewhere, and two."""
    return max(2, *(len(after) for after in graph.successors))
