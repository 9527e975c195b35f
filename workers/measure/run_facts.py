"""What one run of a Plan shows: which chain of Units ended last, what overlapped, what was idle."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from workers.devices.base import Span, Timeline
from workers.graph.graph import Graph
from workers.schedules.plan import Plan


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Times in ms of one run, from the start of its first Unit to the end of its last: ``span_ms``.

    ``chain`` are the Units of its critical path, in order: the Unit that ended last; before each,
    the one that was last to end of those that it had to come after, on its stream or by an event.
    They run for ``chain_running_ms``; the rest of the span, ``chain_waiting_ms``, is between them.

    ``unit_ms`` sums the times of all Units, and ``nothing_ran_ms`` is the part of the span in which
    none ran: launching, waking and waiting. The device has ``cores``, and ``core_ms`` is the time
    of the Units' threads on them; both are None where streams are not threads.
    """

    units: int
    streams: int
    span_ms: float
    chain: tuple[str, ...]
    chain_running_ms: float
    chain_waiting_ms: float
    unit_ms: float
    nothing_ran_ms: float
    cores: int | None = None
    core_ms: float | None = None

    @property
    def overlap(self) -> float:
        """How many Units ran at once, on average over the span."""
        return self.unit_ms / self.span_ms if self.span_ms else 0.0

    @property
    def idle_ms(self) -> float:
        """Time of the cores, or of the streams where there are none, in which they did nothing."""
        if self.cores is not None and self.core_ms is not None:
            return max(0.0, self.cores * self.span_ms - self.core_ms)
        return max(0.0, self.streams * self.span_ms - self.unit_ms)

    @property
    def idle_share(self) -> float:
        """``idle_ms`` relative to the time that cores or streams had."""
        had = (self.cores or self.streams) * self.span_ms
        return self.idle_ms / had if had else 0.0

    def to_json(self) -> dict[str, Any]:
        derived = {"overlap": self.overlap, "idle_ms": self.idle_ms, "idle_share": self.idle_share}
        return {**asdict(self), "chain": list(self.chain), **derived}


def run_facts(
    timeline: Timeline, graph: Graph, plan: Plan | None = None, cores: int | None = None
) -> RunFacts:
    """The facts of a run of the Graph whose Units the timeline names. ``plan`` adds the events that
    only keep stages apart, and with ``cores``, on a CPU, how many threads each stream had.

    Raises GraphError if the timeline has a Unit that the graph has not, and ValueError if it has
    none at all.
    """
    spans = timeline.spans
    if not spans:
        raise ValueError(f"the timeline of graph {graph.name!r} has no units")
    begin, end = min(span.start_ms for span in spans), max(span.end_ms for span in spans)
    chain = _last_chain(spans, _come_before(spans, graph, plan))
    running, free = 0.0, begin
    for span in chain:
        # Clocks of two streams may differ a little: what two Units of a chain share counts once.
        running += max(0.0, span.end_ms - max(span.start_ms, free))
        free = max(free, span.end_ms)
    threads = None
    if plan is not None and cores is not None:
        threads = math.fsum(
            plan.streams[span.stream].threads * (span.end_ms - span.start_ms) for span in spans
        )
    return RunFacts(
        units=len(spans),
        streams=len({span.stream for span in spans}),
        span_ms=end - begin,
        chain=tuple(span.unit for span in chain),
        chain_running_ms=running,
        chain_waiting_ms=max(0.0, end - begin - running),
        unit_ms=math.fsum(span.end_ms - span.start_ms for span in spans),
        nothing_ran_ms=_uncovered(spans),
        cores=cores if threads is not None else None,
        core_ms=threads,
    )


def _come_before(
    spans: Sequence[Span], graph: Graph, plan: Plan | None
) -> Mapping[str, Sequence[str]]:
    """For each Unit, those that it must come after: on its stream, for what it reads, by events."""
    before = {
        span.unit: [graph.units[p].name for p in graph.predecessors[graph.index[span.unit]]]
        for span in spans
        if graph.unit(span.unit)  # raises for an unknown one
    }
    last: dict[int, str] = {}
    for span in sorted(spans, key=lambda span: (span.start_ms, span.end_ms)):
        if span.stream in last:
            before[span.unit].append(last[span.stream])
        last[span.stream] = span.unit
    if plan is not None:
        recorder = {launch.records: launch.unit for launch in plan.launches}
        for launch in plan.launches:
            before[launch.unit] += [recorder[event] for event in launch.waits]
    return before


def _last_chain(spans: Sequence[Span], before: Mapping[str, Sequence[str]]) -> list[Span]:
    """Back from the Unit that ended last, to whatever ended last of what each waited for."""
    by_unit = {span.unit: span for span in spans}

    def lateness(span: Span) -> tuple[float, float, str]:
        return span.end_ms, span.start_ms, span.unit

    chain = [max(spans, key=lateness)]
    seen = {chain[0].unit}
    while True:
        earlier = [by_unit[u] for u in before[chain[-1].unit] if u in by_unit and u not in seen]
        if not earlier:
            return chain[::-1]
        chain.append(max(earlier, key=lateness))
        seen.add(chain[-1].unit)


def _uncovered(spans: Sequence[Span]) -> float:
    """Time between the first start and the last end in which no Unit ran."""
    ordered = sorted(spans, key=lambda span: span.start_ms)
    gaps, reached = [], ordered[0].end_ms
    for span in ordered:
        gaps.append(max(0.0, span.start_ms - reached))
        reached = max(reached, span.end_ms)
    return math.fsum(gaps)
