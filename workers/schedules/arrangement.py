"""How a Plan's streams share a CPU's threads and cores. Pure: nothing is run here.

A **host** is a thread that runs the launches of one or more streams. Streams whose launches are
all ordered against each other anyway share a host: a stage with one group and the first group of
the next stage then need no hand-over between threads. There are no more hosts than cores unless
thread counts force it: further threads would only take turns, at the price of switching.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from workers.graph.graph import Graph
from workers.schedules.order import happened_before, happens_after
from workers.schedules.plan import Plan


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait for signal ``signal``. ``spin`` says that nothing else uses the core meanwhile."""

    signal: int
    spin: bool


@dataclass(frozen=True, slots=True)
class Step:
    """One launch on its host: wait, take ``threads`` threads with the first on core ``core``, run
    the Unit, send ``sends``. Values in ``frees_before`` have been read for the last time before
    the launch, those in ``frees_after`` by it."""

    unit: str
    stream: int
    core: int
    threads: int
    waits: tuple[Wait, ...] = ()
    sends: tuple[int, ...] = ()
    frees_before: tuple[str, ...] = ()
    frees_after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Host:
    """A thread with the cores of its team: the first is its own, the others are those of its
    intra-operator threads."""

    cores: tuple[int, ...]
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Hosts, the first of which leads a run and may spin for the others when it has ended its own
    steps if ``spin_at_end``; ``signals`` counts the signals between them."""

    hosts: tuple[Host, ...]
    signals: int
    spin_at_end: bool

    def to_json(self) -> dict[str, Any]:
        """The form that the artifact's ``run.py`` reads."""
        return asdict(self)


@dataclass(slots=True)
class _Draft:
    """A host while it is built."""

    streams: list[int]
    team: int
    steps: list[int] = field(default_factory=list)
    known: int = 0


def arrange(plan: Plan, graph: Graph, cores: int) -> Arrangement:
    """Arrange a valid Plan on ``cores`` cores, numbered from 0.

    A host has one team of intra-operator threads: OpenMP ends and starts threads whenever one
    master's team changes size, except for size one, which needs no team.
    """
    happened = happened_before(plan)
    after = happens_after(plan)
    overlaps = _overlaps(plan, happened, after)
    placed = _place(plan, overlaps, cores)
    hosts = _hosts(plan, overlaps, cores)
    host_of = {stream: index for index, host in enumerate(hosts) for stream in host.streams}
    uses = [0] * cores
    for number, launch in enumerate(plan.launches):
        hosts[host_of[launch.stream]].steps.append(number)
        for core in placed[launch.stream]:
            uses[core] |= 1 << number

    def may_spin(host: int, previous: int | None, waiting: int | None) -> bool:
        """Whether no other host's launch that can run between the launches ``previous`` and
        ``waiting`` of ``host`` uses the core that it waits on."""
        own = sum(1 << number for number in hosts[host].steps)
        over = 0 if previous is None else happened[previous] | 1 << previous
        later = 0 if waiting is None else after[waiting]
        stream = plan.launches[previous].stream if previous is not None else hosts[host].streams[0]
        return not uses[placed[stream][0]] & ~(own | over | later)

    frees_before, frees_after = _frees(plan, graph, happened)
    recorder = {
        launch.records: number
        for number, launch in enumerate(plan.launches)
        if launch.records is not None
    }
    waits: dict[int, list[Wait]] = {}
    sends: dict[int, list[int]] = {}
    signals = 0
    last: dict[int, int] = {}
    for number, launch in enumerate(plan.launches):
        host = host_of[launch.stream]
        draft = hosts[host]
        for source in sorted({recorder[event] for event in launch.waits}, reverse=True):
            if not draft.known >> source & 1:
                waits.setdefault(number, []).append(
                    Wait(signals, may_spin(host, last.get(host), number))
                )
                sends.setdefault(source, []).append(signals)
                signals += 1
                draft.known |= happened[source] | 1 << source
        draft.known |= 1 << number
        last[host] = number
    return Arrangement(
        hosts=tuple(
            Host(
                cores=next(placed[s] for s in host.streams if plan.streams[s].threads == host.team),
                steps=tuple(
                    Step(
                        unit=launch.unit,
                        stream=launch.stream,
                        core=placed[launch.stream][0],
                        threads=plan.streams[launch.stream].threads,
                        waits=tuple(waits.get(number, ())),
                        sends=tuple(sends.get(number, ())),
                        frees_before=frees_before.get(number, ()),
                        frees_after=frees_after.get(number, ()),
                    )
                    for number in host.steps
                    for launch in (plan.launches[number],)
                ),
            )
            for host in hosts
        ),
        signals=signals,
        spin_at_end=may_spin(0, last.get(0), None),
    )


def _overlaps(plan: Plan, happened: Sequence[int], after: Sequence[int]) -> list[set[int]]:
    """For each stream the other streams with a launch that can run beside one of its own."""
    members = [0] * len(plan.streams)
    for number, launch in enumerate(plan.launches):
        members[launch.stream] |= 1 << number
    beside = [0] * len(plan.streams)
    everything = (1 << len(plan.launches)) - 1
    for number, launch in enumerate(plan.launches):
        beside[launch.stream] |= everything & ~(happened[number] | after[number] | 1 << number)
    return [
        {other for other, mask in enumerate(members) if mask & beside[stream]}
        for stream in range(len(plan.streams))
    ]


def _place(plan: Plan, overlaps: Sequence[set[int]], cores: int) -> list[tuple[int, ...]]:
    """The cores of each stream: as many as it has threads, where overlapping streams have few."""
    placed: list[tuple[int, ...]] = []
    for stream, threads in enumerate(entry.threads for entry in plan.streams):
        load = [0] * cores
        for other in overlaps[stream]:
            if other < stream:
                for core in placed[other]:
                    load[core] += 1
        free = sorted(range(cores), key=lambda core: (load[core], core))
        placed.append(tuple(sorted(free[:threads])))
    return placed


def _hosts(plan: Plan, overlaps: Sequence[set[int]], cores: int) -> list[_Draft]:
    """Give each stream that has launches to a host: the first where it overlaps nothing, else a
    new one, else, when every core has its host, the one where it overlaps least. Issue order
    respects every wait, so a host that runs its launches in that order never blocks itself."""
    hosts: list[_Draft] = []
    for stream in sorted({launch.stream for launch in plan.launches}):
        threads = plan.streams[stream].threads
        overlap = {
            number: len(overlaps[stream] & set(host.streams))
            for number, host in enumerate(hosts)
            if 1 in (threads, host.team) or threads == host.team
        }
        best = min(overlap, key=lambda number: (overlap[number], number), default=None)
        if best is not None and (overlap[best] == 0 or len(hosts) >= cores):
            hosts[best].streams.append(stream)
            hosts[best].team = max(hosts[best].team, threads)
        else:
            hosts.append(_Draft([stream], threads))
    return hosts


def _frees(
    plan: Plan, graph: Graph, happened: Sequence[int]
) -> tuple[Mapping[int, tuple[str, ...]], Mapping[int, tuple[str, ...]]]:
    """At which launch each intermediate value is dead: the first that all its readers (or its
    producer, if there are none) have ended before, or that is itself the last of them."""
    position = {launch.unit: number for number, launch in enumerate(plan.launches)}
    readers = {name: 0 for unit in graph.units for name in unit.outputs}
    first = {name: position[unit.name] for unit in graph.units for name in unit.outputs}
    for unit in graph.units:
        for name in unit.inputs:
            if name in readers:
                readers[name] |= 1 << position[unit.name]
    before: dict[int, tuple[str, ...]] = {}
    after: dict[int, tuple[str, ...]] = {}
    for name, mask in readers.items():
        if name in graph.outputs:
            continue
        ended = mask or 1 << first[name]
        for number in range(ended.bit_length() - 1, len(plan.launches)):
            if not ended & ~happened[number]:
                before[number] = (*before.get(number, ()), name)
                break
            if not ended & ~(happened[number] | 1 << number):
                after[number] = (*after.get(number, ()), name)
                break
    return before, after
