"""What a Plan gives to streams, in order. Pure: nothing is run here."""

from __future__ import annotations

from dataclasses import dataclass

from workers.graph.graph import Graph
from workers.schedules.buffers import stream_frees
from workers.schedules.plan import Plan
from workers.schedules.validate import happened_before


@dataclass(frozen=True, slots=True)
class Issue:
    """Drop ``frees``, let ``stream`` wait for the start of the run if ``forks``, and for the events
    ``waits``, run the Unit there and record the event ``records``.

    Memory of a dropped value goes back to the stream that it was allocated on, and may be used
    again by whatever is given to that stream next.
    """

    unit: str
    stream: int
    waits: tuple[int, ...]
    records: int | None
    frees: tuple[str, ...]
    forks: bool


@dataclass(frozen=True, slots=True)
class Program:
    """One run of a Plan. It starts and ends on stream ``lead``: what is given to ``lead`` before
    comes before all of it, and what is given to ``lead`` after comes after all of it, once ``lead``
    has waited for the streams ``joins``.

    That also makes runs safe one after another: memory that one run freed on any stream is used by
    the next only after all that the first did with it.
    """

    lead: int
    issues: tuple[Issue, ...]
    joins: tuple[int, ...]
    streams: int
    events: int

    @property
    def forks(self) -> bool:
        """Whether any stream waits for the start of the run."""
        return any(issue.forks for issue in self.issues)


def program(plan: Plan, graph: Graph) -> Program:
    """The Program of a valid Plan.

    A stream whose first launch waits for an event needs not wait for the start of the run, and one
    whose last launch another stream's last one waited for needs no joining.
    """
    if not plan.launches:
        return Program(0, (), (), max(1, len(plan.streams)), 0)
    lead = plan.launches[0].stream
    started = {lead}
    issues = []
    for launch, frees in zip(plan.launches, stream_frees(plan, graph), strict=True):
        forks = launch.stream not in started and not launch.waits
        started.add(launch.stream)
        issues.append(
            Issue(launch.unit, launch.stream, launch.waits, launch.records, tuple(frees), forks)
        )
    happened = happened_before(plan)
    last = {launch.stream: number for number, launch in enumerate(plan.launches)}
    waited_for = 0
    for number in last.values():
        waited_for |= happened[number]
    joins = tuple(
        stream
        for stream, number in sorted(last.items())
        if stream != lead and not waited_for >> number & 1
    )
    events = sum(launch.records is not None for launch in plan.launches)
    return Program(lead, tuple(issues), joins, len(plan.streams), events)
